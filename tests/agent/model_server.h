// A model server that nobody told Coterie about, for `bench agent`: one model in ONNX Runtime, as many threads as it likes, one request after the
// other, for ever.
//
// The threads of a run wait busily for each other, as ONNX Runtime's do unless told otherwise. Its first argument names the file of its progress (a
// number of finished runs, in the machine's order), the second a hint file of the agent's ({pid}: its own): read at its start and when SIGUSR1 comes;
// it then loads its model anew with so many threads. Never returns but for a fault.
#pragma once

#include <string>

namespace coterie::agent_bench {

struct ServerOptions {
  std::string library;   // of ONNX Runtime
  std::string model;     // file
  std::string progress;  // file of eight bytes, made by who starts it
  std::string hint;      // may be missing
  int threads{1};        // without a hint
};

int serveModel(const ServerOptions& options);

// Finished runs, as another process reads them; the file is made with 0 in it.
class Progress {
 public:
  explicit Progress(const std::string& path);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  [[nodiscard]] long runs() const { return cell_ == nullptr ? 0 : *cell_; }
  void add() {
    if (cell_ != nullptr) *cell_ = *cell_ + 1;
  }

 private:
  volatile long* cell_{nullptr};
};

}  // namespace coterie::agent_bench
