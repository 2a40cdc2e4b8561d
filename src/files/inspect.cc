#include "files/inspect.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <openssl/evp.h>

#include "files/beneath.h"

namespace coterie::files {

namespace {
constexpr std::int64_t kBlock = 1 << 20;
constexpr std::int64_t kMostSearched = std::int64_t{64} << 20;
constexpr std::int64_t kMostCompared = std::int64_t{256} << 20;  // in one step

Error readFailed(const std::string& name) { return {Code::Unavailable, "ModelReadFailed", "reading " + name + ": " + std::strerror(errno)}; }

FileIdentity identityOf(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec,
          status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec};
}

// One block; empty at the end of the file, nullopt if it cannot be read.
std::optional<std::string_view> readBlock(int fd, std::vector<char>& block, std::int64_t offset) {
  ssize_t size = -1;
  do {
    size = ::pread(fd, block.data(), block.size(), offset);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return std::nullopt;
  return std::string_view(block.data(), static_cast<std::size_t>(size));
}

std::string contentOf(int fd) {
  std::string content;
  std::vector<char> block(static_cast<std::size_t>(kBlock));
  while (static_cast<std::int64_t>(content.size()) <= kMostSearched) {
    const auto read = readBlock(fd, block, static_cast<std::int64_t>(content.size()));
    if (!read || read->empty()) break;
    content += *read;
  }
  return content;
}

// FNV-1a: a mark that differs when what it is made of does, not a protection against forgery.
class Mark {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ ((number >> (8 * i)) & 255)) * 0x100000001b3ULL;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_{0xcbf29ce484222325ULL};
};
}  // namespace

Result<OpenModel> openModel(const std::string& root, const std::string& relativePath) {
  const Result<UniqueFd> folder = openRoot(root);
  if (!folder.ok()) return folder.error();
  Result<UniqueFd> fd = openBeneath(folder->get(), relativePath);
  if (!fd.ok()) {
    Error error = fd.error();
    if (error.reason == "ModelNotFound") error.message += " (" + root + ")";
    return error;
  }
  struct stat status{};
  if (::fstat(fd->get(), &status) != 0) return readFailed(relativePath);
  OpenModel model;
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd->get())).c_str(), path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= path.size()) return readFailed(relativePath);
  model.path.assign(path.data(), static_cast<std::size_t>(length));
  model.identity = identityOf(status);
  model.fd = std::move(*fd);
  return model;
}

const std::string* KnownSums::find(const OpenModel& model) const {
  const auto known = known_.find(model.path);
  return known != known_.end() && known->second.first == model.identity ? &known->second.second : nullptr;
}

void KnownSums::keep(const OpenModel& model, const std::string& sum) {
  constexpr std::size_t kMostKept = 256;
  if (known_.size() >= kMostKept) known_.clear();
  known_[model.path] = {model.identity, sum};
}

class ModelReading::Digest {
 public:
  Digest()
      : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free), usable_(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1) {}
  [[nodiscard]] bool usable() const { return usable_; }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  [[nodiscard]] std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string hex;
    for (unsigned i = 0; i < size; ++i) {
      hex += "0123456789abcdef"[digest[i] >> 4];
      hex += "0123456789abcdef"[digest[i] & 15];
    }
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  bool usable_;
};

ModelReading::ModelReading(ModelQuestion question, KnownSums& known) : question_(std::move(question)), known_(known) {}
ModelReading::~ModelReading() = default;

Error ModelReading::changing() const {
  return {Code::Unavailable, "ModelChanging",
          question_.relativePath + " changes while it is read: it is looked at again once it stays as it is (write it beside, then rename it)"};
}

std::optional<Result<ModelFile>> ModelReading::step(Bytes piece, const std::function<bool()>& stopped) {
  const Result<OpenModel> opened = openModel(question_.root, question_.relativePath);
  if (!opened.ok()) return Result<ModelFile>(opened.error());
  if (!identity_) identity_ = opened->identity;
  if (*identity_ != opened->identity) return Result<ModelFile>(changing());
  ModelFile file{opened->path, {}, Bytes(identity_->size), Bytes(0), 0};
  if (sum_.empty()) {
    const std::string* known = known_.find(*opened);
    if (known != nullptr) sum_ = *known;
    if (known == nullptr && file.size > question_.largest) return Result<ModelFile>(std::move(file));
  }
  if (sum_.empty()) {
    const Result<Progress> read = readOn(*opened, piece, stopped);
    if (!read.ok()) return Result<ModelFile>(read.error());
    if (*read == Progress::More) return std::nullopt;
  }
  if (searchOn(*opened, stopped) == Progress::More) return std::nullopt;
  file.sha256 = sum_;
  file.externalSize = externalSize_;
  file.externalMark = externalMark_;
  return Result<ModelFile>(std::move(file));
}

Result<ModelReading::Progress> ModelReading::readOn(const OpenModel& model, Bytes piece, const std::function<bool()>& stopped) {
  if (digest_ == nullptr) digest_ = std::make_unique<Digest>();
  if (!digest_->usable()) return Error{Code::Internal, "NoSha256", "the crypto library has no SHA-256"};
  std::vector<char> block(static_cast<std::size_t>(std::min(kBlock, std::max<std::int64_t>(piece.value, 1))));
  bool ended = false;
  for (const std::int64_t from = offset_; !ended && offset_ - from < piece.value;) {
    if (stopped()) return Progress::More;
    const auto read = readBlock(model.fd.get(), block, offset_);
    if (!read) return readFailed(model.path);
    ended = read->empty();
    digest_->add(*read);
    offset_ += static_cast<std::int64_t>(read->size());
  }
  left_ = Bytes(std::max<std::int64_t>(0, identity_->size - offset_));
  if (!ended && left_.value > 0) return Progress::More;
  struct stat status{};
  if (::fstat(model.fd.get(), &status) != 0) return readFailed(model.path);
  if (identityOf(status) != *identity_ || offset_ != identity_->size) return changing();
  sum_ = digest_->finish();
  digest_.reset();
  known_.keep(model, sum_);
  return Progress::Done;
}

std::vector<ModelReading::Candidate> ModelReading::filesBeside(const OpenModel& model) {
  constexpr int kDeepest = 3;
  constexpr int kMost = 1000;
  std::vector<Candidate> found;
  std::error_code ignored;
  const std::filesystem::path path(model.path);
  const std::filesystem::path folder = path.parent_path();
  int seen = 0;
  for (std::filesystem::recursive_directory_iterator it(folder, ignored), end; !ignored && it != end && ++seen <= kMost; it.increment(ignored)) {
    if (it.depth() >= kDeepest - 1) it.disable_recursion_pending();
    struct stat status{};
    if (it->path() == path || ::stat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    Candidate candidate{it->path().lexically_relative(folder).string(), status.st_size, 0};
    Mark mark;
    mark.add(candidate.name);
    mark.add(status.st_ino);
    mark.add(static_cast<std::uint64_t>(status.st_size));
    mark.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec));
    candidate.mark = mark.value();
    found.push_back(std::move(candidate));
  }
  return found;
}

ModelReading::Progress ModelReading::searchOn(const OpenModel& model, const std::function<bool()>& stopped) {
  if (!candidates_) candidates_ = filesBeside(model);
  if (nextCandidate_ >= candidates_->size()) return Progress::Done;
  const bool searched = identity_->size <= kMostSearched;
  const std::string content = searched ? contentOf(model.fd.get()) : std::string();
  const std::string own = std::filesystem::path(model.path).filename().string();
  std::int64_t compared = 0;
  for (; nextCandidate_ < candidates_->size(); ++nextCandidate_) {
    if (compared > kMostCompared || stopped()) return Progress::More;
    const Candidate& candidate = (*candidates_)[nextCandidate_];
    const bool named = searched ? ::memmem(content.data(), content.size(), candidate.name.data(), candidate.name.size()) != nullptr
                                : candidate.name.starts_with(own);
    compared += static_cast<std::int64_t>(content.size());
    if (!named) continue;
    externalSize_ += Bytes(candidate.size);
    externalMark_ += candidate.mark;  // a sum: folders list their files in any order
  }
  return Progress::Done;
}

Result<ModelFile> inspectModel(const ModelQuestion& question) {
  KnownSums known;
  ModelReading reading(question, known);
  while (true) {
    if (auto answer = reading.step(Bytes(kBlock), [] { return false; })) return std::move(*answer);
  }
}

}  // namespace coterie::files
