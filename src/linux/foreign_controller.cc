#include "linux/foreign_controller.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "linux/cgroup_tree.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/memory_reader.h"
#include "linux/own_cgroup.h"
#include "linux/process_handle.h"
#include "linux/process_threads.h"
#include "linux/set_limits.h"

namespace coterie::linux {

namespace {

namespace fs = std::filesystem;

bool hasFolders(const std::string& directory) {
  std::error_code fault;
  for (fs::directory_iterator entry(directory, fault), end; !fault && entry != end; entry.increment(fault)) {
    if (entry->is_directory(fault)) return true;
  }
  return false;
}

void addTo(Originals& all, const Originals& more) {
  all.threads.insert(all.threads.end(), more.threads.begin(), more.threads.end());
  all.cpusets.insert(all.cpusets.end(), more.cpusets.begin(), more.cpusets.end());
  all.memories.insert(all.memories.end(), more.memories.begin(), more.memories.end());
  all.quotas.insert(all.quotas.end(), more.quotas.begin(), more.quotas.end());
}

std::uint64_t startOf(int pid, int tid) {
  const auto stat = readStat("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/stat");
  return stat ? stat->startTime : 0;
}

}  // namespace

ForeignController::ForeignController(CpuSet ancestors, Find find, std::string journal, ForeignNodes nodes)
    : ancestors_(std::move(ancestors)), find_(std::move(find)), journal_(std::move(journal)), nodes_(nodes) {
  traits_.name = "foreign";
  traits_.lanes = false;
  traits_.memoryNodes = nodes_ == ForeignNodes::Follow;
  traits_.caveats = {
      "Containers are other people's: their weights are left as they are, and so are the memory nodes that somebody chose for them; one without a "
      "cgroup of its own is held by thread affinity, which enforces no memory nodes, and which it can widen again."};
  if (!journal_.empty()) {
    Undone undone = undoJournal(journal_);
    unreturned_ = std::move(undone.left);
    if (undone.unread > 0)
      log::warning("agent",
                   journal_ + ": " + std::to_string(undone.unread) + (undone.unread == 1 ? " line makes" : " lines make") +
                       " no sense; what a run that was killed had found there is not known, and not given back: set it by hand, or begin those "
                       "processes anew. " +
                       (undone.aside.empty() ? "The file could not be kept" : "The file is kept as " + undone.aside));
    if (undone.found > 0)
      log::info("agent", "a run before this one was killed: gave back what it had set (" + std::to_string(undone.found) +
                             (undone.found == 1 ? " thread or cgroup)" : " threads and cgroups)"));
    sayUnreturned();
  }
}

ForeignController::~ForeignController() = default;

std::shared_ptr<ForeignController::OwnCpuset> ForeignController::openOwn(const ForeignPlace& place, Originals& originals) const {
  const CgroupDirectories found = ownCgroups(place.processes.front(), place.cgroup);
  const auto v1 = found.v1.find("cpuset");
  const bool v2 = v1 == found.v1.end();
  if (v2 && !found.v2) return nullptr;
  const std::string& directory = v2 ? *found.v2 : v1->second;
  if (!v2 && hasFolders(directory)) return nullptr;
  auto own = std::make_shared<OwnCpuset>();
  own->cpus = OwnSet(directory, OwnSet::Of::Cpus, v2, *above_);
  if (!own->cpus.valid()) return nullptr;
  if (v2) own->pressure = openFor(directory + "/memory.pressure", O_RDONLY);
  const CpuSet requested = own->cpus.askedNow();
  if (!v2 && requested.empty()) return nullptr;  // a v1 cpuset that was never set up holds nobody
  originals.cpusets.push_back({directory, v2, requested});
  return own;
}

// Of the threads that live now. Of those that were not seen before, the ones begun under a set of ours inherited it, and had what the first one had.
// True if there are others than before.
bool ForeignController::noteThreads(Container& container, const std::vector<int>& processes) {
  std::map<std::pair<int, std::uint64_t>, CpuSet> known;
  for (const OriginalThread& one : container.originals.threads) known.emplace(std::pair(one.tid, one.started), one.cpus);
  std::vector<OriginalThread> threads;
  for (const int pid : processes) {
    for (const int tid : threadsOf(pid)) {
      const std::uint64_t started = startOf(pid, tid);
      const auto mask = affinityOf(tid);
      if (!mask) continue;
      const auto before = known.find({tid, started});
      const bool inherited = !container.lastSet.empty() && (*mask == container.lastSet || *mask == container.setBefore);
      threads.push_back({pid, tid, started, before != known.end() ? before->second : inherited ? container.leader : *mask});
    }
  }
  const bool others = threads != container.originals.threads;
  container.originals.threads = std::move(threads);
  return others;
}

Status ForeignController::add(const ContainerRegistration& container) {
  if (containers_.count(container.id) > 0)
    return Error{Code::Conflict, "AlreadyRegistered", "container " + std::to_string(container.id.value) + " is registered already"};
  const ForeignPlace place = find_(container.id);
  const auto mask = place.processes.empty() ? std::nullopt : affinityOf(place.processes.front());
  if (!mask || processGone(place.processes.front()))
    return Error{Code::NotFound, "ProcessGone", "the processes of container " + std::to_string(container.id.value) + " have ended"};
  Container added;
  added.leader = *mask;
  added.first = openProcess(place.processes.front());
  added.resident = std::make_shared<ResidentMemory>();
  static_cast<void>(noteThreads(added, place.processes));
  added.own = openOwn(place, added.originals);
  if (added.own && nodes_ == ForeignNodes::Follow) {
    const OriginalCpuset& cpuset = added.originals.cpusets.front();
    added.memory = ForeignMemory::open(cpuset.directory, cpuset.v2, *above_);
    if (added.memory) added.originals.memories.push_back(added.memory->original());
  }
  // What an earlier run could not give back is not what this one found.
  for (const auto& [kind, unreturned] :
       {std::pair{&added.originals.cpusets, &unreturned_.cpusets}, {&added.originals.memories, &unreturned_.memories}}) {
    for (OriginalCpuset& one : *kind) {
      const auto before =
          std::find_if(unreturned->begin(), unreturned->end(), [&](const OriginalCpuset& old) { return old.directory == one.directory; });
      if (before == unreturned->end()) continue;
      one = *before;
      unreturned->erase(before);
    }
  }
  containers_[container.id] = std::move(added);
  const Status saved = save();
  if (!saved) containers_.erase(container.id);
  return saved;
}

Status ForeignController::save() const {
  if (journal_.empty()) return {};
  Originals all = unreturned_;
  for (const auto& [id, container] : containers_) addTo(all, container.originals);
  return writeJournal(journal_, all);
}

void ForeignController::sayUnreturned() const {
  if (const std::string files = leftText(unreturned_); !files.empty())
    log::warning("agent", "cannot give back what was found: " + files +
                              "; somebody has narrowed what is above. An agent that enforces tries again when it starts");
}

void ForeignController::giveBackContainer(InstanceId id, Container& container) {
  if (container.home.empty() && !(container.memory && container.memory->changed())) return;
  const std::vector<int> processes = find_(id).processes;
  // In a cgroup of its own newer threads are held by that alone; of one that is nobody's member any more, those noted last are given back.
  if (!container.own && !processes.empty()) static_cast<void>(noteThreads(container, processes));
  addTo(unreturned_, giveBack(container.originals));
}

void ForeignController::remove(InstanceId id) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return;
  giveBackContainer(id, found->second);  // what of it still lives
  containers_.erase(found);
  static_cast<void>(save());
}

PreparedChange ForeignController::change(InstanceId id, Container& container) const {
  const CpuSet cpus = container.wanted();
  PreparedChange change;
  if (container.own) {
    change.writes.push_back(fileWrite(container.own->cpus.asked(), cpus.toString()));
    change.descriptors = container.own;
    return change;
  }
  const std::vector<int> processes = find_(id).processes;
  static_cast<void>(noteThreads(container, processes));  // the journal follows with the next sweep
  for (const int pid : processes) {
    for (const int tid : threadsOf(pid)) change.writes.push_back(affinityWrite(tid, cpus));
  }
  container.setBefore = std::exchange(container.lastSet, cpus);
  return change;
}

Result<PreparedChange> ForeignController::prepare(const CpuChange& wanted) {
  const bool mustHold =
      wanted.kind == CpuChangeKind::AncestorCpus || wanted.kind == CpuChangeKind::HomeCpus || wanted.kind == CpuChangeKind::MemoryNodes;
  if (mustHold && wanted.set.empty()) return Error{Code::InvalidArgument, "EmptySet", "a container must keep at least one CPU and one memory node"};
  if (wanted.kind == CpuChangeKind::AncestorCpus) {
    ancestors_ = wanted.set;
    return PreparedChange{};
  }
  const auto found = containers_.find(wanted.container);
  if (found == containers_.end()) return unknownContainer(wanted.container);
  Container& container = found->second;
  if (wanted.kind == CpuChangeKind::MemoryNodes && container.memory) {
    PreparedChange change{container.memory->writes(wanted.set), container.memory};
    if (change.writes.empty()) container.memory.reset();  // none of them is there for it: it stays where it is
    return change;
  }
  const bool setsCpus = wanted.kind == CpuChangeKind::HomeCpus || wanted.kind == CpuChangeKind::LoanCpus;
  if (!setsCpus) return PreparedChange{};  // no lanes; weights, and nodes that somebody chose, are not ours to set
  if (!wanted.set.isSubsetOf(ancestors_))
    return Error{Code::InvalidArgument, "OutsideMachine", "CPUs " + wanted.set.toString() + " are not within " + ancestors_.toString()};
  if (wanted.kind == CpuChangeKind::HomeCpus) {
    container.home = wanted.set;
  } else {
    container.loansBefore = std::exchange(container.loans, wanted.set);
    container.loansFresh = true;
    if (container.home.empty()) return PreparedChange{};  // not placed: nothing to widen
  }
  return change(wanted.container, container);
}

Result<PreparedChange> ForeignController::prepareQuota(InstanceId id, MilliCpu least) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  Container& container = found->second;
  if (container.quota == nullptr) {
    const ForeignPlace place = find_(id);
    const QuotaDirectory where = place.processes.empty() ? QuotaDirectory{} : quotaDirectory(ownCgroups(place.processes.front(), place.cgroup));
    auto files = QuotaFiles::open(where);
    const auto limit = readCpuLimit(where);
    if (!files || !limit) return Error{Code::Unavailable, "NoQuota", "its CPU quota cannot be written"};
    if (limit->quotaMicros < 0 || limit->cpus() >= least) return PreparedChange{};
    container.originals.quotas.push_back({where, *limit});
    if (const Status saved = save(); !saved) {
      container.originals.quotas.clear();
      return saved.error();
    }
    container.quota = std::make_shared<QuotaFiles>(std::move(*files));
  }
  const auto now = container.quota->read();
  if (!now) return Error{Code::Unavailable, "NoQuota", "its CPU quota cannot be read"};
  CpuLimit wanted = container.originals.quotas.front().limit;
  wanted.periodMicros = now->periodMicros;
  wanted.quotaMicros = std::max(wanted.quotaMicros, least.value * wanted.periodMicros / 1000);
  PreparedChange change;
  change.writes = container.quota->writes(*now, wanted);
  change.descriptors = container.quota;
  return change;
}

Result<PreparedChange> ForeignController::prepareLaneMove(InstanceId id, int /*loanLane*/, LanePlace /*place*/) {
  if (containers_.count(id) == 0) return unknownContainer(id);
  return Error{Code::NotFound, "UnknownLane", "no such loan lane"};
}

Result<ObservedContainer> ForeignController::observe(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  above_->beginRound();
  return look(id, found->second, found->second.first && !hasEnded(found->second.first));
}

std::map<InstanceId, ObservedContainer> ForeignController::observeAll(const std::vector<InstanceId>& ids) const {
  std::vector<std::pair<InstanceId, const Container*>> known;
  std::vector<int> firsts;
  for (const InstanceId id : ids) {
    const auto found = containers_.find(id);
    if (found == containers_.end()) continue;
    known.emplace_back(id, &found->second);
    firsts.push_back(found->second.first.get());
  }
  above_->beginRound();
  const std::vector<bool> ended = haveEnded(firsts);
  std::map<InstanceId, ObservedContainer> all;
  for (std::size_t i = 0; i < known.size(); ++i) all.emplace(known[i].first, look(known[i].first, *known[i].second, !ended[i]));
  return all;
}

// firstLives: the process that it was added with; where that is so, no others need be asked.
ObservedContainer ForeignController::look(InstanceId id, const Container& container, bool firstLives) const {
  const std::vector<int> processes = firstLives && container.own ? std::vector<int>{} : find_(id).processes;
  ObservedContainer observed;
  observed.vanished = !firstLives && std::all_of(processes.begin(), processes.end(), processGone);
  observed.memoryHeld = container.memory != nullptr;
  if (container.memory && !observed.vanished) observed.memoryNodes = container.memory->observe(*above_);
  if (observed.vanished || container.home.empty()) return observed;
  CpuSet seen;
  if (container.own) {
    const OwnSet::Sets& sets = container.own->cpus.read(*above_);
    seen = sets.asked;
    observed.effective = sets.inForce;
  } else {
    for (const int pid : processes) {
      for (const int tid : threadsOf(pid)) {
        const auto mask = affinityOf(tid);
        if (!mask) continue;
        observed.uniform = observed.uniform && (seen.empty() || seen == *mask);
        seen |= *mask;
      }
    }
    observed.effective = seen;
  }
  const bool asAsked = seen == container.wanted() || seen == (container.home | container.loansBefore);
  observed.home = asAsked ? container.home : seen;
  observed.loans = asAsked && !container.loans.empty() ? container.loans : observed.home;
  if (asAsked && observed.effective == seen) observed.effective = container.home;
  return observed;
}

std::string ForeignController::limitAbove(InstanceId id, const CpuSet& cpus) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return {};
  if (found->second.own) {
    const OriginalCpuset& cpuset = found->second.originals.cpusets.front();
    return limitBy(cpuset.directory.substr(0, cpuset.directory.rfind('/')), cpuset.v2, cpus);
  }
  const ForeignPlace place = find_(id);
  return place.processes.empty() ? std::string() : linux::limitAbove(place.processes.front(), {}, cpus);
}

ThreadUse ForeignController::threadUse(InstanceId /*id*/, int /*threadId*/) const { return {{}, false, true}; }

ContainerMemory ForeignController::memoryOf(InstanceId id) const {
  ContainerMemory memory;
  const auto found = containers_.find(id);
  if (found == containers_.end()) return memory;
  memory.resident = found->second.resident->of(find_(id).processes);
  if (found->second.own) memory.pressure = memoryPressureIn(found->second.own->pressure);
  return memory;
}

Status ForeignController::placeSystem(const CpuSet& cpus) {
  if (!cpus.empty() || !system_.empty()) system_ = cpus.empty() ? ancestors_ : cpus;  // nothing is reserved any more: anywhere
  systemPlaced_ = true;
  return placeOwnThreads(system_);
}

// Threads begun since then are noted, so that they are given back after a kill, too; the note is written again where somebody removed it.
void ForeignController::sweep() {
  above_->beginSweep();
  bool others = false;
  for (auto& [id, container] : containers_) {
    if (!std::exchange(container.loansFresh, false)) container.loansBefore = container.loans;
    if (!container.own && !container.home.empty()) others = noteThreads(container, find_(id).processes) || others;
  }
  const bool lost = !journal_.empty() && !containers_.empty() && ::access(journal_.c_str(), F_OK) != 0;
  const Status saved = others || lost ? save() : Status{};
  if (!saved && !std::exchange(unsavedSaid_, true)) log::warning("agent", saved.error().message);
  if (saved) unsavedSaid_ = false;
  if (systemPlaced_ && !placeOwnThreads(system_)) systemPlaced_ = false;  // refused: said once by placeSystem(), not asked for again
}

void ForeignController::restore() {
  unreturned_ = giveBack(unreturned_);
  for (auto& [id, container] : containers_) giveBackContainer(id, container);
  containers_.clear();
  if (!system_.empty()) static_cast<void>(placeOwnThreads(ancestors_));  // who goes on, observing, is as others are
  system_ = {};
  systemPlaced_ = false;
  sayUnreturned();
  if (journal_.empty()) return;
  if (unreturned_ == Originals{})
    ::unlink(journal_.c_str());
  else
    static_cast<void>(save());
}

std::string ForeignController::heldBy(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return {};
  return found->second.own ? "cgroup " + found->second.originals.cpusets.front().directory : "affinity";
}

}  // namespace coterie::linux
