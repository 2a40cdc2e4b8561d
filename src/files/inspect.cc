#include "files/inspect.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include <openssl/evp.h>

#include "files/beneath.h"

namespace coterie::files {

namespace {
constexpr std::size_t kBlock = 1 << 20;
constexpr std::int64_t kMostSearched = std::int64_t{64} << 20;

Error readFailed(const std::string& name) { return {Code::Unavailable, "ModelReadFailed", "reading " + name + ": " + std::strerror(errno)}; }

// Calls visit(bytes) over the whole file; false if a read failed.
bool readAll(int fd, const auto& visit) {
  std::vector<char> block(kBlock);
  for (off_t offset = 0;;) {
    const ssize_t size = ::pread(fd, block.data(), block.size(), offset);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    if (size == 0) return true;
    visit(std::string_view(block.data(), static_cast<std::size_t>(size)));
    offset += size;
  }
}

struct Candidate {
  std::string name;  // relative to the model's folder
  std::int64_t size{0};
};

std::vector<Candidate> filesBeside(const std::filesystem::path& model) {
  constexpr int kDeepest = 3;
  constexpr int kMost = 1000;
  std::vector<Candidate> found;
  std::error_code ignored;
  const std::filesystem::path folder = model.parent_path();
  int seen = 0;
  for (std::filesystem::recursive_directory_iterator it(folder, ignored), end; !ignored && it != end && ++seen <= kMost; it.increment(ignored)) {
    if (it.depth() >= kDeepest - 1) it.disable_recursion_pending();
    std::error_code missing;
    if (!it->is_regular_file(missing) || it->path() == model) continue;
    found.push_back({it->path().lexically_relative(folder).string(), static_cast<std::int64_t>(it->file_size(missing))});
  }
  return found;
}

std::string contentOf(int fd) {
  std::string content;
  readAll(fd, [&](std::string_view block) {
    if (content.size() <= static_cast<std::size_t>(kMostSearched)) content += block;
  });
  return content;
}
}  // namespace

Result<OpenModel> openModel(const std::string& root, const std::string& relativePath) {
  const Result<UniqueFd> folder = openRoot(root);
  if (!folder.ok()) return folder.error();
  Result<UniqueFd> fd = openBeneath(folder->get(), relativePath);
  if (!fd.ok()) return fd.error();
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return readFailed(relativePath);
  OpenModel model;
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd->get())).c_str(), path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= path.size()) return readFailed(relativePath);
  model.path.assign(path.data(), static_cast<std::size_t>(length));
  model.identity = {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec,
                    status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec};
  model.fd = std::move(*fd);
  return model;
}

Result<std::string> sha256Of(int fd, const std::string& name) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) return Error{Code::Internal, "NoSha256", "the crypto library has no SHA-256"};
  if (!readAll(fd, [&](std::string_view block) { EVP_DigestUpdate(context.get(), block.data(), block.size()); })) return readFailed(name);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

Bytes externalSizeOf(const OpenModel& model) {
  const std::filesystem::path path(model.path);
  const std::vector<Candidate> candidates = filesBeside(path);
  if (candidates.empty()) return Bytes(0);
  const bool searched = model.identity.size <= kMostSearched;
  const std::string content = searched ? contentOf(model.fd.get()) : std::string();
  const std::string own = path.filename().string();
  Bytes sum;
  for (const Candidate& candidate : candidates) {
    const bool named = searched ? ::memmem(content.data(), content.size(), candidate.name.data(), candidate.name.size()) != nullptr : candidate.name.starts_with(own);
    if (named) sum += Bytes(candidate.size);
  }
  return sum;
}

Result<ModelFile> inspectModel(const OpenModel& model) {
  Result<std::string> sum = sha256Of(model.fd.get(), model.path);
  if (!sum.ok()) return sum.error();
  return ModelFile{model.path, std::move(*sum), Bytes(model.identity.size), externalSizeOf(model)};
}

}  // namespace coterie::files
