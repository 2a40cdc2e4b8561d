#include "channel/process_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace coterie::channel {

namespace {

// The letter behind the name, which is in brackets and may itself hold any; 0 if the thread has gone.
char stateOf(const std::string& statFile) {
  const UniqueFd file(::open(statFile.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> text{};
  const ssize_t length = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  if (length <= 0) return 0;
  const std::string_view line(text.data(), static_cast<std::size_t>(length));
  const std::size_t name = line.rfind(')');
  return name == std::string_view::npos || name + 2 >= line.size() ? '\0' : line[name + 2];
}

}  // namespace

bool anyRunnable(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* threads = ::opendir(folder.c_str());
  if (threads == nullptr) return false;
  bool found = false;
  while (const dirent* entry = found ? nullptr : ::readdir(threads)) {
    if (entry->d_name[0] != '.') found = stateOf(folder + "/" + entry->d_name + "/stat") == 'R';
  }
  ::closedir(threads);
  return found;
}

Nanos CostMeter::settle(const Claim& claim) {
  const Nanos waited = std::clamp(claim.waited, Nanos{}, claim.held);
  charged_ += claim.held - waited;
  return waited;
}

Nanos CostMeter::settle(const Claim& claim, Nanos cpu, Nanos underWay) {
  const Nanos charge = claim.held - std::clamp(claim.waited, Nanos{}, claim.held);
  const Nanos unpaid = (cpu - before_) / width_ - underWay - charged_ - charge;
  return settle({claim.held, claim.held - std::clamp(charge + std::max(unpaid, Nanos{}), Nanos{}, claim.held)});
}

}  // namespace coterie::channel
