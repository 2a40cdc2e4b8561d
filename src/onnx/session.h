// Loading and running models with ONNX Runtime, whose shared library is opened at run time (never linked: its symbols are versioned).
//
// A Session is one loaded model, shared by all lanes of a worker; a Runner belongs to one thread and runs requests over it. Dense inputs are used in
// place; an output whose shape follows from the model (fixed, or named like an input's dimension) is computed in place too, others are copied once
// behind them. BYTES tensors (4-byte little-endian length and bytes, per element) are converted, which copies. Everything is checked against the
// signature before the library sees it. Outputs that are no tensors of a type of the protocol are left out of the signature; such inputs are a load
// failure. A session may save what the library made of a model (its graph optimised for this CPU, its weights laid out for its operators) as one
// piece of bytes; a later session that is given these bytes works on them where they lie, copies no weight, and repacks none, so that sessions and
// processes over one mapping share its pages. Runs there gave the same answers and took 1 to 7 % longer (docs/in-node.md), except for products of
// matrices of which neither is a vector: without repacking they take more, so whoever shares times both. Errors of load(): InvalidArgument with
// reason NotOnnx, UnknownOperator, UnsupportedVersion, UnsupportedType, BadModel, OutOfMemory. Of run(): InvalidArgument (BadInput),
// Cancelled/Terminated, Internal/ModelFailed, Internal/OutOfMemory, Internal/AnswerTooLarge. Thread rule: Library and Session may be used from any
// thread once made; a Runner from one thread, save terminate().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace coterie::onnx {

class Library {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Library>> open(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  [[nodiscard]] const std::string& version() const { return version_; }

  struct Handles;
  [[nodiscard]] const Handles& handles() const { return *handles_; }

 private:
  Library();
  std::unique_ptr<Handles> handles_;
  std::string version_;
};

// A file that the model names as external data, already in memory.
struct ExternalFile {
  std::string name;
  std::span<std::byte> bytes;
};

struct LoadOptions {
  int threads{1};    // of one run; 1: the calling thread alone
  bool spin{false};  // they wait busily between the parts of a run
  std::vector<ExternalFile> externalFiles;
  std::string saveTo;   // a path: what the library made of the model is written there
  bool inPlace{false};  // the bytes are such, of this library on this CPU; they outlive the session
};

struct Input {
  int input{0};  // index into the signature's inputs
  std::span<const std::int64_t> dims;
  std::span<const std::byte> bytes;  // 64-byte aligned for dense types
};

struct Output {
  int output{0};  // index into the signature's outputs
  std::vector<std::int64_t> dims;
  std::uint64_t offset{0};  // in the memory given to run(); 64-byte aligned
  std::uint64_t length{0};
};

class Session {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Session>> load(const Library& library, std::span<const std::byte> model, const LoadOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  [[nodiscard]] const ModelSignature& signature() const { return signature_; }

  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 private:
  Session();
  std::unique_ptr<State> state_;
  ModelSignature signature_;
};

class Runner {
 public:
  explicit Runner(const Session& session);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Computes `outputs` (indices, each at most once) into `memory` and describes them in `answers`, in the order asked.
  [[nodiscard]] Status run(std::span<const Input> inputs, std::span<const int> outputs, std::span<std::byte> memory, std::vector<Output>& answers);
  // Asks the present or next run to stop between two operators; any thread. resetTerminate() is the runner's own thread's.
  void terminate();
  void resetTerminate();

 private:
  struct Scratch;
  [[nodiscard]] Status makeInputs(std::span<const Input> inputs);
  [[nodiscard]] Status placeOutputs(std::span<const Input> inputs, std::span<const int> outputs, std::span<std::byte> memory,
                                    std::vector<Output>& answers);
  [[nodiscard]] Status collect(std::span<const int> outputs, std::span<std::byte> memory, std::vector<Output>& answers);
  void releaseValues();

  const Session& session_;
  std::unique_ptr<Scratch> scratch_;
};

// Does the tensor fit the specification: rank and fixed dimensions, and as many bytes as its shape needs? BYTES elements are walked.
[[nodiscard]] Status checkTensor(const TensorSpec& spec, std::span<const std::int64_t> dims, std::span<const std::byte> bytes);

}  // namespace coterie::onnx
