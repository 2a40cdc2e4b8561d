#include "worker/model_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "onnx/model_scan.h"

namespace coterie::worker {

namespace {

constexpr std::uint64_t kProtobufLimit = (2ULL << 30) - 1;

Error fault(const ModelFileOptions& options, const char* reason, const std::string& what) {
  return {Code::InvalidArgument, reason, options.name + " " + what};
}

Result<channel::Mapping> mapFile(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return Error{Code::Internal, "ModelUnreadable", std::strerror(errno)};
  if (status.st_size == 0) return channel::Mapping();
  // Private and writable, because ONNX Runtime's interface takes mutable pointers; nothing is written.
  void* data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return Error{Code::Internal, "ModelUnreadable", std::strerror(errno)};
  return channel::Mapping(data, static_cast<std::size_t>(status.st_size));
}

std::string sha256Of(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) return {};
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

// Opens `location` below `folder`. errno is EXDEV if it would leave the folder, ELOOP for a link.
UniqueFd openBelow(int folder, const std::string& location) {
  errno = EXDEV;
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string::npos) return {};
  UniqueFd at;
  std::size_t begin = 0;
  while (true) {
    const std::size_t slash = location.find('/', begin);
    const std::string part = location.substr(begin, slash == std::string::npos ? slash : slash - begin);
    errno = EXDEV;
    if (part == "..") return {};
    const bool last = slash == std::string::npos;
    const int flags = O_CLOEXEC | O_NOFOLLOW | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    if (!part.empty() && part != ".") {
      UniqueFd next(::openat(at ? at.get() : folder, part.c_str(), flags));
      if (!next || last) return next;
      at = std::move(next);
    } else if (last) {
      errno = ENOENT;
      return {};
    }
    begin = slash + 1;
  }
}

Status openExternal(int folder, const std::vector<std::string>& locations, const ModelFileOptions& options, ModelFile& model, std::uint64_t& total) {
  for (const std::string& location : locations) {
    const UniqueFd fd = openBelow(folder, location);
    if (!fd && (errno == EXDEV || errno == ELOOP)) {
      return fault(options, "ExternalDataOutside",
                   "wants external data \"" + location + "\", which is outside its folder or a link; put it beside the model");
    }
    if (!fd) return fault(options, "ExternalDataMissing", "wants external data \"" + location + "\", which cannot be read: " + std::strerror(errno));
    auto mapped = mapFile(fd.get());
    if (!mapped.ok())
      return fault(options, "ExternalDataMissing", "wants external data \"" + location + "\", which cannot be read: " + mapped.error().message);
    total += mapped->bytes().size();
    model.externalFiles.push_back({location, mapped->bytes()});
    model.externalBytes.push_back(std::move(mapped).value());
  }
  return {};
}

}  // namespace

Result<ModelFile> readModel(int file, int folder, const ModelFileOptions& options) {
  auto mapped = mapFile(file);
  if (!mapped.ok()) return fault(options, "ModelUnreadable", "cannot be read: " + mapped.error().message);
  ModelFile model;
  model.bytes = std::move(mapped).value();
  const std::span<const std::byte> bytes = model.bytes.bytes();
  if (bytes.size() > kProtobufLimit)
    return fault(
        options, "TooBig",
        "is too big: an ONNX file holds at most 2 GiB, this has " + std::to_string(bytes.size()) + " bytes; move its weights to external data");
  if (options.memoryLimit > 0 && bytes.size() > options.memoryLimit) {
    return fault(options, "TooBig",
                 "is too big: it has " + std::to_string(bytes.size()) + " bytes, the instance may use " + std::to_string(options.memoryLimit));
  }
  if (!options.sha256.empty()) {
    const std::string found = sha256Of(bytes);
    if (found != options.sha256) return fault(options, "WrongChecksum", "has the wrong checksum: sha256 " + found + ", not " + options.sha256);
  }
  const auto scan = onnx::scanModel(bytes);
  if (!scan.ok()) return fault(options, scan.error().reason.c_str(), scan.error().message);
  std::uint64_t total = bytes.size();
  if (Status s = openExternal(folder, scan->externalFiles, options, model, total); !s.ok()) return s.error();
  if (options.memoryLimit > 0 && total > options.memoryLimit) {
    return fault(
        options, "TooBig",
        "is too big: with external data it has " + std::to_string(total) + " bytes, the instance may use " + std::to_string(options.memoryLimit));
  }
  return model;
}

}  // namespace coterie::worker
