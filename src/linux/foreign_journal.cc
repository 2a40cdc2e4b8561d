#include "linux/foreign_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/unique_fd.h"
#include "linux/execute_write.h"
#include "linux/files.h"

namespace coterie::linux {

namespace {

constexpr const char* kInherited = "-";

std::string cpusText(const CpuSet& cpus) { return cpus.empty() ? kInherited : cpus.toString(); }

// These answer whether nothing is left to be done: it is given back, or has gone.
bool giveBackQuota(const OriginalQuota& one) {
  const auto files = QuotaFiles::open(one.where);
  const auto now = files ? files->read() : std::nullopt;
  bool given = true;
  if (!now) return given;
  for (const PreparedWrite& write : files->writes(*now, one.limit)) given = executeWrite(write) == 0 && given;
  return given;
}

bool readCpus(std::istream& from, CpuSet& into) {
  std::string text;
  if (!(from >> text)) return false;
  if (text == kInherited) return into = {}, true;
  auto parsed = CpuSet::parse(text);
  if (!parsed) return false;
  into = std::move(parsed).value();
  return true;
}

// A set that was empty inherited, "\n" says that again; but a cpuset with tasks in it may not become empty: then all that there can be, of which the
// kernel grants what the one above has, now and later.
bool giveBackSet(const OriginalCpuset& one, const std::string& name, const char* possible) {
  const std::string file = one.directory + name;
  const int error = writeText(file, one.set.empty() ? "\n" : one.set.toString());
  if (error == 0 || error == ENOENT || error == ENODEV) return true;
  const auto all = one.set.empty() ? readText(possible) : std::nullopt;
  return all && writeText(file, *all) == 0;
}

// False: it makes no sense.
bool addLine(const std::string& line, Originals& originals) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "thread") {
    OriginalThread one;
    if (!(words >> one.pid >> one.tid >> one.started) || !readCpus(words, one.cpus) || one.cpus.empty()) return false;
    originals.threads.push_back(std::move(one));
    return true;
  }
  if (kind == "cpuset-v1" || kind == "cpuset-v2" || kind == "memory-v1" || kind == "memory-v2") {
    OriginalCpuset one;
    one.v2 = kind.ends_with("-v2");
    if (!readCpus(words, one.set) || !std::getline(words >> std::ws, one.directory) || (!one.v2 && one.set.empty())) return false;
    (kind.starts_with("memory") ? originals.memories : originals.cpusets).push_back(std::move(one));
    return true;
  }
  OriginalQuota one;
  one.where.v2 = kind == "quota-v2";
  if (!one.where.v2 && kind != "quota-v1") return false;
  if (!(words >> one.limit.quotaMicros >> one.limit.periodMicros >> one.limit.burstMicros)) return false;
  if (!std::getline(words >> std::ws, one.where.directory)) return false;
  originals.quotas.push_back(std::move(one));
  return true;
}

// Whoever cleans up a state folder does not know that somebody runs by it.
UniqueFd createIn(const std::string& folder, const std::string& path) {
  const auto create = [&] { return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)); };
  UniqueFd file = create();
  if (file || errno != ENOENT || makePrivateFolder(folder) != 0) return file;
  log::warning("agent", folder + " was removed while this agent runs: it is made anew, with the note of what is to be given back");
  return create();
}

// Where the file is kept; empty: it could not be.
std::string keepAside(const std::string& path) {
  constexpr int kMost = 100;
  std::string aside = path + ".unreadable";
  for (int i = 2; ::access(aside.c_str(), F_OK) == 0 && i < kMost; ++i) aside = path + ".unreadable-" + std::to_string(i);
  return ::rename(path.c_str(), aside.c_str()) == 0 ? aside : std::string();
}

bool isAlive(const OriginalThread& one) {
  const auto stat = readStat("/proc/" + std::to_string(one.pid) + "/task/" + std::to_string(one.tid) + "/stat");
  return stat && stat->startTime == one.started;
}

// Threads that nobody noted, born while no agent ran, with the mask that their process's first thread was given: what that had is theirs.
struct Heirs {
  CpuSet found;
  std::vector<int> threads;
};

std::vector<Heirs> heirsOf(const Originals& originals) {
  std::set<int> noted;
  for (const OriginalThread& one : originals.threads) noted.insert(one.tid);
  std::vector<Heirs> all;
  for (const OriginalThread& one : originals.threads) {
    if (one.tid != one.pid || !isAlive(one)) continue;
    const auto given = affinityOf(one.tid);
    if (!given || *given == one.cpus) continue;
    Heirs heirs{one.cpus, {}};
    for (const int tid : threadsOf(one.pid)) {
      if (!noted.contains(tid) && affinityOf(tid) == given) heirs.threads.push_back(tid);
    }
    if (!heirs.threads.empty()) all.push_back(std::move(heirs));
  }
  return all;
}

void addSet(std::string& text, const std::string& kind, const OriginalCpuset& one) {
  text += kind + (one.v2 ? "-v2 " : "-v1 ") + cpusText(one.set) + " " + one.directory + "\n";
}

}  // namespace

std::string originalsText(const Originals& originals) {
  std::string text;
  for (const OriginalCpuset& one : originals.cpusets) addSet(text, "cpuset", one);
  for (const OriginalCpuset& one : originals.memories) addSet(text, "memory", one);
  for (const OriginalQuota& one : originals.quotas) {
    text += std::string(one.where.v2 ? "quota-v2 " : "quota-v1 ") + std::to_string(one.limit.quotaMicros) + " " +
            std::to_string(one.limit.periodMicros) + " " + std::to_string(one.limit.burstMicros) + " " + one.where.directory + "\n";
  }
  for (const OriginalThread& one : originals.threads) {
    text += "thread " + std::to_string(one.pid) + " " + std::to_string(one.tid) + " " + std::to_string(one.started) + " " + cpusText(one.cpus) + "\n";
  }
  return text;
}

Originals parseOriginals(const std::string& text, std::vector<std::string>* unread) {
  Originals originals;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !addLine(line, originals) && unread != nullptr) unread->push_back(line);
  }
  return originals;
}

Originals giveBack(const Originals& originals) {
  Originals left;
  const std::vector<Heirs> heirs = heirsOf(originals);
  for (const OriginalQuota& one : originals.quotas) {
    if (!giveBackQuota(one)) left.quotas.push_back(one);
  }
  for (const OriginalCpuset& one : originals.memories) {
    if (!giveBackSet(one, "/cpuset.mems", "/sys/devices/system/node/possible")) left.memories.push_back(one);
  }
  for (const OriginalCpuset& one : originals.cpusets) {
    if (!giveBackSet(one, "/cpuset.cpus", "/sys/devices/system/cpu/possible")) left.cpusets.push_back(one);
  }
  for (const OriginalThread& one : originals.threads) {
    if (!isAlive(one) || affinityOf(one.tid) == one.cpus) continue;
    static_cast<void>(executeWrite(affinityWrite(one.tid, one.cpus)));  // refused: a cpuset holds it, whose it is to say
  }
  for (const Heirs& one : heirs) {
    for (const int tid : one.threads) static_cast<void>(executeWrite(affinityWrite(tid, one.found)));
  }
  return left;
}

std::string leftText(const Originals& left) {
  std::string text;
  const auto add = [&](const std::string& file) { text += (text.empty() ? "" : ", ") + file; };
  for (const OriginalCpuset& one : left.cpusets) add(one.directory + "/cpuset.cpus");
  for (const OriginalCpuset& one : left.memories) add(one.directory + "/cpuset.mems");
  for (const OriginalQuota& one : left.quotas) add(one.where.directory + " (quota)");
  return text;
}

Status writeJournal(const std::string& path, const Originals& originals) {
  const std::string text = originalsText(originals);
  const std::string temporary = path + ".new";
  const UniqueFd file = createIn(std::filesystem::path(path).parent_path().string(), temporary);
  const bool written = file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  return Error{Code::Unavailable, "JournalUnwritable",
               "cannot write " + path + ": " + std::strerror(errno) + "; without it nothing could be given back after a crash"};
}

Undone undoJournal(const std::string& path) {
  Undone undone;
  const auto text = readText(path);
  if (!text) return undone;
  std::vector<std::string> unread;
  const Originals originals = parseOriginals(*text, &unread);
  undone.unread = unread.size();
  undone.left = giveBack(originals);
  undone.found = originals.threads.size() + originals.cpusets.size() + originals.memories.size() + originals.quotas.size();
  if (undone.unread > 0) undone.aside = keepAside(path);
  if (undone.left == Originals{}) {
    if (undone.unread == 0) ::unlink(path.c_str());
  } else if (!undone.aside.empty()) {
    static_cast<void>(writeJournal(path, undone.left));
  }
  return undone;
}

}  // namespace coterie::linux
