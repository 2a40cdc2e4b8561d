#include "worker/prepared_model.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace coterie::worker {

namespace {
// The quickest of several rounds counts: what other programs take away is nobody's time.
constexpr int kLeastRounds = 3;
constexpr int kMostRounds = 10;
constexpr std::chrono::seconds kTimeForRounds{2};

// The quickest of both, each over a session of its own at a time, so that never more than one copy of the weights is in memory.
Result<std::pair<Nanos, Nanos>> timeBoth(const ModelSource& own, const ModelSource& form, const onnx::Library& library, const ProbeSession& probe) {
  std::pair<Nanos, Nanos> least{Nanos::max(), Nanos::max()};
  const auto until = std::chrono::steady_clock::now() + kTimeForRounds;
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && std::chrono::steady_clock::now() < until); ++round) {
    for (const bool inPlace : {false, true}) {
      const auto session = loadFrom(inPlace ? form : own, library, {});
      if (!session.ok()) return session.error();
      const auto speed = probe(**session);
      if (!speed.ok()) return speed.error();
      Nanos& quickest = inPlace ? least.second : least.first;
      quickest = std::min(quickest, speed->cpu);
    }
  }
  return least;
}
}  // namespace

Result<std::unique_ptr<onnx::Session>> loadFrom(const ModelSource& source, const onnx::Library& library, onnx::LoadOptions options) {
  options.inPlace = source.inPlace();
  if (options.inPlace) return onnx::Session::load(library, source.form.bytes(), options);
  options.externalFiles = source.file.externalFiles;
  return onnx::Session::load(library, source.file.bytes.bytes(), options);
}

Result<channel::Mapping> mapForm(int fd, std::uint64_t size) {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || size == 0 || static_cast<std::uint64_t>(status.st_size) != size)
    return Error{Code::Internal, "BadSetup", "the prepared form has not the size that was announced"};
  // Private: a shared mapping of a file that was opened for writing would keep it from being sealed.
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return Error{Code::ResourceExhausted, "OutOfMemory", "the prepared form cannot be mapped"};
  return channel::Mapping(data, size);
}

bool worthSharing(Nanos own, Nanos inPlace) { return inPlace * 10 <= own * 11; }

Status prepare(ModelSource& source, const onnx::Library& library, int memoryFile, const ProbeSession& probe) {
  {
    onnx::LoadOptions saving;
    saving.saveTo = "/proc/self/fd/" + std::to_string(memoryFile);
    if (!loadFrom(source, library, saving).ok()) return {};  // if it is the model's fault, loading it to serve says so
  }
  struct stat status{};
  if (::fstat(memoryFile, &status) != 0 || status.st_size <= 0) return {};
  auto form = mapForm(memoryFile, static_cast<std::uint64_t>(status.st_size));
  if (!form.ok()) return {};
  ModelSource made;
  made.form = std::move(form).value();
  if (!loadFrom(made, library, {}).ok()) return {};
  if (!probe) {
    source.form = std::move(made.form);
    return {};
  }
  const auto times = timeBoth(source, made, library, probe);
  if (!times.ok()) return times.error();
  if (worthSharing(times->first, times->second)) source.form = std::move(made.form);
  return {};
}

}  // namespace coterie::worker
