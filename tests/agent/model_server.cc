#include "model_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "onnx/session.h"

namespace coterie::agent_bench {

namespace {

volatile sig_atomic_t askedToLook = 1;

int hinted(const std::string& path, int otherwise) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t at = text.find("\"threads\":");
  const int threads = at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 10);
  return threads > 0 ? threads : otherwise;
}

int fail(const Error& error) {
  std::fprintf(stderr, "model server: %s\n", error.message.c_str());
  return 1;
}

struct Free {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};
using Aligned = std::unique_ptr<std::byte, Free>;
Aligned aligned(std::size_t size) { return Aligned(static_cast<std::byte*>(::operator new[](size, std::align_val_t{64}))); }

// Runs on one picture until it is asked to look at its hint.
Status runUntilAsked(const onnx::Library& library, std::span<const std::byte> model, int threads, Progress& progress) {
  constexpr std::size_t kPicture = 3 * 224 * 224 * sizeof(float), kAnswer = 1 << 16;
  onnx::LoadOptions options;
  options.threads = threads;
  options.spin = true;
  const auto session = onnx::Session::load(library, model, options);
  if (!session) return session.error();
  onnx::Runner runner(**session);
  const Aligned picture = aligned(kPicture);
  const Aligned answer = aligned(kAnswer);
  std::fill_n(picture.get(), kPicture, std::byte{0});
  const std::vector<std::int64_t> dims{1, 3, 224, 224};
  const onnx::Input input{0, dims, {picture.get(), kPicture}};
  const int output = 0;
  std::vector<onnx::Output> answers;
  while (askedToLook == 0) {
    if (const Status ran = runner.run({&input, 1}, {&output, 1}, {answer.get(), kAnswer}, answers); !ran) return ran;
    progress.add();
  }
  return {};
}

}  // namespace

Progress::Progress(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  void* const shared = ::ftruncate(file, sizeof(long)) == 0 ? ::mmap(nullptr, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (shared != MAP_FAILED) cell_ = static_cast<volatile long*>(shared);
}

Progress::~Progress() {
  if (cell_ != nullptr) ::munmap(const_cast<long*>(cell_), sizeof(long));
}

int serveModel(const ServerOptions& options) {
  ::signal(SIGUSR1, [](int) { askedToLook = 1; });
  const auto library = onnx::Library::open(options.library);
  if (!library) return fail(library.error());
  std::ifstream file(options.model, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Aligned model = aligned(text.size());
  std::copy_n(std::as_bytes(std::span(text)).begin(), text.size(), model.get());
  Progress progress(options.progress);
  std::string hint = options.hint;
  if (const std::size_t at = hint.find("{pid}"); at != std::string::npos) hint.replace(at, 5, std::to_string(::getpid()));
  for (;;) {
    askedToLook = 0;
    const Status ended = runUntilAsked(**library, {model.get(), text.size()}, hinted(hint, options.threads), progress);
    if (!ended) return fail(ended.error());
  }
}

}  // namespace coterie::agent_bench
