#include "audit/trail.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "audit/chain.h"
#include "base/log.h"

namespace coterie::audit {

namespace {

constexpr std::string_view kPrefix = "audit-";
constexpr std::string_view kSuffix = ".jsonl";
constexpr std::size_t kMostFile = std::size_t{1} << 30;  // that is read at once, whatever size it was written with
constexpr std::int64_t kMostNumber = std::int64_t{1} << 30;
constexpr unsigned kOffsetBits = 32;  // of a place in the log: number of the file, offset in it

std::optional<std::int64_t> numberOf(std::string_view name) {
  if (name.size() <= kPrefix.size() + kSuffix.size() || name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  if (name.substr(name.size() - kSuffix.size()) != kSuffix) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || stop != digits.data() + digits.size() || number < 1 || number > kMostNumber || fileName(number) != name)
    return std::nullopt;
  return number;
}

// Of a file whose chain is broken: what the next line must be beyond, so that no number comes twice.
std::uint64_t highestIn(std::string_view bytes) {
  std::uint64_t highest = 0;
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    if (const auto line = decode(bytes.substr(0, end)); line.ok()) highest = std::max(highest, line->sequence);
    bytes.remove_prefix(end + 1);
  }
  return highest;
}

}  // namespace

std::string fileName(std::int64_t number) { return fmt::format("{}{:08}{}", kPrefix, number, kSuffix); }

Trail::Trail(LogFolder& folder, const Clock& clock, Options options) : folder_(folder), clock_(clock), options_(options) {
  if (const Status ready = recover(); !ready.ok()) (void)unavailable(ready.error());
}

Entry Trail::noteOf(std::string verb, std::string kind, std::string object, std::string reason) const {
  Entry entry;
  entry.time = clock_.wall();
  entry.verb = std::move(verb);
  entry.kind = std::move(kind);
  entry.object = std::move(object);
  entry.reason = std::move(reason);
  return entry;
}

Error Trail::unavailable(const Error& error) {
  Error refused{Code::Unavailable, "AuditUnavailable", "the audit log cannot be written, so no change is made (requests go on): " + error.message};
  if (!std::exchange(said_, true)) log::error("audit", refused.message);
  return refused;
}

void Trail::keep(Entry entry) {
  if (pending_.size() < kMostPending)
    pending_.push_back(std::move(entry));
  else
    ++lost_;
}

// False: it waits to be written already.
bool Trail::keepOnce(Entry entry) {
  const auto same = [&](const Entry& other) { return other.verb == entry.verb && other.object == entry.object && other.outcome == entry.outcome; };
  if (std::any_of(pending_.begin(), pending_.end(), same)) return false;
  keep(std::move(entry));
  return true;
}

// --- What is on the disk ---

Status Trail::recover() {
  const auto listed = folder_.list();
  if (!listed.ok()) return listed.error();
  files_.clear();
  for (const LogFolder::File& file : *listed) {
    if (const auto number = numberOf(file.name)) files_.push_back({*number, file.size});
  }
  std::sort(files_.begin(), files_.end(), [](const File& a, const File& b) { return a.number < b.number; });
  if (!files_.empty()) lastNumber_ = std::max(lastNumber_, files_.back().number);
  mustRoll_ = false;
  if (const Status read = readNewest(); !read.ok()) return read;
  sound_ = true;
  return {};
}

// Finds the last line of the chain, and leaves the newest file so that lines may be added to it, or mustRoll_.
Status Trail::readNewest() {
  const std::uint64_t known = sequence_;
  while (!files_.empty()) {
    File& file = files_.back();
    const std::string name = fileName(file.number);
    const auto bytes = folder_.read(name, 0, kMostFile);
    if (!bytes.ok()) return bytes.error();
    ChainCheck check;
    const bool whole = check.takeFile(name, *bytes);
    if (check.cutOff()) {
      file.size = bytes->size() - check.cutOffBytes();
      if (const Status cut = folder_.cut(name, file.size); !cut.ok()) return cut;
      log::warning("audit", fmt::format("{} bytes of a line that was not finished were cut off {}: the server was killed while it wrote",
                                        check.cutOffBytes(), name));
      keep(noteOf("cut", "File", name, "NotFinished"));
    }
    if (whole && check.lines() == 0) {  // made, and then the server was killed
      if (const Status removed = folder_.remove(name); !removed.ok()) return removed;
      lastNumber_ = std::min(lastNumber_, file.number - 1);  // nobody ever saw it
      files_.pop_back();
      continue;
    }
    if (!whole) {
      if (keepOnce(noteOf("break", "File", name, check.fault()->text())))
        log::error("audit", "the audit log is broken, and goes on in a new file: " + check.fault()->text());
      mustRoll_ = true;
      if (known == 0 && check.lines() > 0) head_ = check.last().hash;
      sequence_ = std::max({known, highestIn(*bytes), check.last().sequence});
      return {};
    }
    if (check.last().sequence < known) break;
    sequence_ = check.last().sequence;
    head_ = check.last().hash;
    return {};
  }
  mustRoll_ = true;
  if (known == 0) return {};
  // Written, acknowledged, and not there any more: somebody took it away. The chain goes on from what we know, so that the gap shows.
  if (keepOnce(noteOf("miss", "Line", std::to_string(known), "Removed")))
    log::error("audit", fmt::format("lines of the audit log, the last of them {}, are not there any more; it goes on in a new file", known));
  return {};
}

// --- Writing ---

Status Trail::appendTo(File& file, const std::vector<Entry>& entries, Durable durable) {
  std::string text;
  std::string head = head_;
  std::uint64_t sequence = sequence_;
  for (const Entry& entry : entries) {
    Sealed line = encode(++sequence, entry, head);
    text += line.text + "\n";
    head = std::move(line.hash);
  }
  const std::string name = fileName(file.number);
  if (const Status appended = folder_.append(name, text, durable); !appended.ok()) {
    // Where more may be wrong than a half line, recover() looks at what is there.
    const bool taken = folder_.cut(name, file.size).ok();
    sound_ = taken && appended.error().reason == "NoRoom";
    return appended;
  }
  file.size += text.size();
  sequence_ = sequence;
  head_ = std::move(head);
  return {};
}

Status Trail::roll() {
  File file{lastNumber_ + 1, 0};
  const std::string name = fileName(file.number);
  if (const Status created = folder_.create(name); !created.ok()) {
    sound_ = created.error().reason == "NoRoom";  // else it may be there after all
    return created;
  }
  lastNumber_ = file.number;
  Entry entry = noteOf("begin", "File", name, "");
  entry.begins = Begins{file.number, head_};
  if (const Status begun = appendTo(file, {std::move(entry)}, Durable::Yes); !begun.ok()) {
    sound_ = folder_.remove(name).ok();
    if (sound_) --lastNumber_;
    return begun;
  }
  mustRoll_ = false;
  files_.push_back(file);
  while (files_.size() > static_cast<std::size_t>(std::max(1, options_.files))) {
    const std::string oldest = fileName(files_.front().number);
    if (const Status removed = folder_.remove(oldest); !removed.ok() && removed.error().code != Code::NotFound) {
      log::warning("audit", "the oldest file of the audit log stays: " + removed.error().message);
      break;
    }
    files_.pop_front();
  }
  return {};
}

// A file that lines of so many bytes may be added to.
Status Trail::prepare(std::size_t bytes) {
  if (!sound_) {
    if (const Status recovered = recover(); !recovered.ok()) return recovered;
  }
  const bool full = !files_.empty() && files_.back().size + bytes > static_cast<std::uint64_t>(options_.fileSize.value);
  return mustRoll_ || full ? roll() : Status();
}

Status Trail::writePending() {
  if (pending_.empty()) return {};
  std::vector<Entry> late = pending_;
  if (lost_ > 0) {
    late.push_back(noteOf("drop", "Line", "", "AuditUnavailable"));
    late.back().count = lost_;
  }
  if (const Status written = appendTo(files_.back(), late, Durable::No); !written.ok()) return written;
  pending_.clear();
  lost_ = 0;
  return {};
}

Status Trail::write(const std::vector<Entry>& entries, Durable durable) {
  std::size_t bytes = 0;
  for (const Entry& entry : entries) bytes += encode(kMostSequence, entry, head_).text.size() + 1;
  Status done = prepare(bytes);
  if (done.ok()) done = writePending();
  if (done.ok()) done = appendTo(files_.back(), entries, durable);
  if (!done.ok()) return unavailable(done.error());
  if (std::exchange(said_, false)) log::warning("audit", "the audit log can be written again");
  return {};
}

Result<Begun> Trail::begin(Entry change) {
  change.time = clock_.wall();
  change.outcome = Outcome::Begun;
  if (const Status written = write({change}, Durable::Yes); !written.ok()) return written.error();
  return Begun{sequence_, std::move(change)};
}

void Trail::end(Begun begun, const Status& how) {
  Entry& entry = begun.entry;
  entry.time = clock_.wall();
  entry.of = begun.sequence;
  entry.outcome = how.ok() ? Outcome::Done : Outcome::Failed;
  entry.reason = how.ok() ? "" : how.error().reason;
  entry.changes.clear();
  note({std::move(entry)});
}

void Trail::note(std::vector<Entry> lines) {
  for (Entry& line : lines) {
    if (line.time.micros == 0) line.time = clock_.wall();
  }
  if (write(lines, Durable::No).ok()) return;
  for (Entry& line : lines) keep(std::move(line));
}

// --- Reading ---

Result<Page> Trail::read(std::uint64_t from, const std::function<bool(const Line&)>& wanted) const {
  Page page;
  const auto number = static_cast<std::int64_t>(from >> kOffsetBits);
  std::uint64_t offset = from & ((std::uint64_t{1} << kOffsetBits) - 1);
  auto file = std::find_if(files_.begin(), files_.end(), [&](const File& each) { return each.number >= number; });
  if (file == files_.end()) return Page{"", {}, from, true};
  if (file->number != number) offset = 0;  // rotation took what would have come
  if (offset >= file->size && file + 1 != files_.end()) {
    ++file;
    offset = 0;
  }
  page.file = fileName(file->number);
  // Not what an append that failed may have left behind it.
  const std::uint64_t there = file->size > offset ? file->size - offset : 0;
  const auto bytes = folder_.read(page.file, offset, static_cast<std::size_t>(std::min<std::uint64_t>(kPageBytes, there)));
  if (!bytes.ok()) return bytes.error();
  std::string_view rest = *bytes;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    if (end == std::string_view::npos && rest.size() < bytes->size()) break;  // the next page has it whole
    if (end == std::string_view::npos) end = rest.size();                     // no line of ours is as long
    const std::string_view text = rest.substr(0, end);
    const auto isWanted = [&] {
      const auto line = decode(text);
      return line.ok() && wanted(*line);
    };
    if (!wanted || isWanted()) page.lines.emplace_back(text);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  offset += bytes->size() - rest.size();
  page.next = (static_cast<std::uint64_t>(file->number) << kOffsetBits) | offset;
  page.last = file + 1 == files_.end() && offset >= file->size;
  return page;
}

}  // namespace coterie::audit
