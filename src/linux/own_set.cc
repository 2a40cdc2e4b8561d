#include "linux/own_set.h"

#include <fcntl.h>

#include <utility>

#include "linux/cgroup_tree.h"
#include "linux/files.h"

namespace coterie::linux {

namespace {
constexpr int kSettles = 3;  // sweeps
constexpr int kReadEach = 8;
}  // namespace

void SetsAbove::beginSweep() {
  ++sweep_;
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
}

std::shared_ptr<SetAbove> SetsAbove::find(const std::string& path) {
  std::weak_ptr<SetAbove>& known = files_[path];
  std::shared_ptr<SetAbove> found = known.lock();
  if (found == nullptr) known = found = std::make_shared<SetAbove>(SetAbove{KeptFile(path)});
  return found;
}

void SetsAbove::read(SetAbove& above) const {
  if (std::exchange(above.round, round_) == round_) return;
  auto text = above.file.read();
  if (text == above.text) return;
  above.set = setOf(text);
  above.text = std::move(text);
}

OwnSet::OwnSet(const std::string& directory, Of what, bool v2, SetsAbove& above) {
  const std::string name = what == Of::Cpus ? "cpus" : "mems";
  const std::string inForce = v2 ? "/cpuset." + name + ".effective" : "/cpuset.effective_" + name;
  asked_ = openFor(directory + "/cpuset." + name, O_RDWR);
  inForce_ = openFor(directory + inForce, O_RDONLY);
  above_ = above.find(directory.substr(0, directory.rfind('/')) + inForce);
}

const OwnSet::Sets& OwnSet::read(const SetsAbove& above) {
  above.read(*above_);
  auto asked = readText(asked_.get());
  if (changed_ < 0 || asked != askedText_ || above_->text != aboveText_) {
    sets_.asked = setOf(asked);
    askedText_ = std::move(asked);
    aboveText_ = above_->text;
    changed_ = above.sweep();
  }
  const int since = above.sweep() - changed_;
  if (!aboveText_ || since < kSettles || since % kReadEach == 0) sets_.inForce = inForceNow();
  return sets_;
}

CpuSet OwnSet::singleAbove(const SetsAbove& above) const {
  above.read(*above_);
  return above_->set.count() == 1 ? above_->set : CpuSet{};
}

CpuSet OwnSet::askedNow() const { return setIn(asked_); }

CpuSet OwnSet::inForceNow() const { return setIn(inForce_); }

CpuSet OwnSet::aboveNow() const { return setOf(above_->file.read()); }

}  // namespace coterie::linux
