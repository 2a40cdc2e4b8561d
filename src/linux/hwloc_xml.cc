#include "linux/hwloc_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/cpu_set.h"

namespace coterie::linux {
namespace {

using View = std::string_view;

// hwloc 3: the classes that a device of the operating system belongs to, by bit.
constexpr unsigned kStorage = 1U << 0;
constexpr unsigned kMemory = 1U << 1;
constexpr unsigned kGpu = 1U << 2;
constexpr unsigned kCoprocessor = 1U << 3;
constexpr unsigned kNetwork = 1U << 4;
constexpr unsigned kFabric = 1U << 5;
constexpr unsigned kDma = 1U << 6;
constexpr unsigned kHops = 1U << 5;  // of a matrix: the values count hops

constexpr std::array kObjectTypes{View("Machine"),  View("Package"),  View("Die"),      View("Core"),     View("PU"),
                                  View("Group"),    View("NUMANode"), View("MemCache"), View("L1Cache"),  View("L2Cache"),
                                  View("L3Cache"),  View("L4Cache"),  View("L5Cache"),  View("L1iCache"), View("L2iCache"),
                                  View("L3iCache"), View("Bridge"),   View("PCIDev"),   View("OSDev"),    View("Misc")};
constexpr std::array kCopied{View("object"), View("distances2"), View("distances2hetero"), View("support"), View("memattr"), View("cpukind")};
constexpr std::array kDropped{View("pci_locality"), View("memtier")};

template <typename List>
bool has(const List& list, View word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

Error unreadable(const std::string& what) { return {Code::InvalidArgument, "MachineUnreadable", "hwloc XML: " + what}; }

struct Attribute {
  View name;
  View value;  // as written: with entities
};

struct Tag {
  View name;
  std::vector<Attribute> attributes;
  bool closing{false};  // </name>
  bool empty{false};    // <name/>
  [[nodiscard]] View valueOf(View wanted) const {
    const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& one) { return one.name == wanted; });
    return found == attributes.end() ? View() : found->value;
  }
};

// Splits a text into tags and what stands between them. Declarations and comments are passed over.
class Reader {
 public:
  explicit Reader(View text) : rest_(text) {}

  // The text before the next tag, and the tag; nothing at the end. A failure is remembered.
  std::optional<Tag> next(View& before) {
    for (;;) {
      const std::size_t begin = rest_.find('<');
      if (begin == View::npos) return std::nullopt;
      before = rest_.substr(0, begin);
      rest_.remove_prefix(begin);
      if (rest_.starts_with("<!--")) {
        if (!skipBehind("-->")) return std::nullopt;
      } else if (rest_.starts_with("<?") || rest_.starts_with("<!")) {
        if (!skipBehind(">")) return std::nullopt;
      } else {
        return tag();
      }
    }
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] const char* position() const { return rest_.data(); }  // behind the last tag

 private:
  static constexpr View kBlanks = " \t\r\n";

  bool skipBehind(View end) {
    const std::size_t found = rest_.find(end);
    failed_ = found == View::npos;
    rest_.remove_prefix(failed_ ? rest_.size() : found + end.size());
    return !failed_;
  }
  void skipBlanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }
  View word() {
    const std::size_t end = std::min(rest_.find_first_of(" \t\r\n/>=\"<"), rest_.size());
    const View found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found;
  }
  bool take(View expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  std::optional<Tag> fail() {
    failed_ = true;
    return std::nullopt;
  }

  std::optional<Tag> tag() {
    rest_.remove_prefix(1);
    Tag found;
    found.closing = take("/");
    found.name = word();
    if (found.name.empty()) return fail();
    for (;;) {
      skipBlanks();
      if (take(">")) return found;
      if (take("/>")) return found.empty = true, found;
      Attribute attribute{word(), {}};
      if (attribute.name.empty() || !take("=\"")) return fail();
      const std::size_t end = rest_.find('"');
      if (end == View::npos) return fail();
      attribute.value = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      found.attributes.push_back(attribute);
    }
  }

  View rest_;
  bool failed_{false};
};

void write(std::string& out, const Tag& tag) {
  out += tag.closing ? "</" : "<";
  out += tag.name;
  for (const Attribute& attribute : tag.attributes) {
    out += ' ';
    out += attribute.name;
    out += "=\"";
    out += attribute.value;
    out += '"';
  }
  out += tag.empty ? "/>" : ">";
}

std::optional<unsigned> numberOf(View text) {
  unsigned number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// The number by which hwloc 2 names the class: of several the one that says most.
std::optional<View> oldDeviceType(unsigned bits) {
  if ((bits & ~(kStorage | kMemory | kGpu | kCoprocessor | kNetwork | kFabric | kDma)) != 0) return std::nullopt;
  if ((bits & kFabric) != 0) return "3";
  if ((bits & kNetwork) != 0) return "2";
  if ((bits & kCoprocessor) != 0) return "5";
  if ((bits & kGpu) != 0) return "1";
  if ((bits & kDma) != 0) return "4";
  if ((bits & (kStorage | kMemory)) != 0) return "0";
  return std::nullopt;
}

class Rewriter {
 public:
  explicit Rewriter(View xml) : reader_(xml) {}

  Result<std::string> run() {
    out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n";
    View before;
    while (auto tag = reader_.next(before)) {
      if (const auto fault = one(*tag, before)) return *fault;
    }
    if (reader_.failed() || !path_.empty() || rootInfosAt_ == 0) return unreadable("the text is cut off or malformed");
    out_.insert(rootInfosAt_, infos_);
    return out_ + "\n";
  }

 private:
  std::optional<Error> one(Tag& tag, View before) {
    if (tag.closing) return close(tag, before);
    if (path_.empty()) {
      if (tag.name != "topology" || tag.empty || rootInfosAt_ != 0)
        return unreadable("the root is <" + std::string(tag.name) + ">, not one <topology>");
      out_ += "<topology version=\"2.0\">";
      path_.push_back(tag.name);
      return std::nullopt;
    }
    const View parent = path_.back();
    if (!tag.empty) path_.push_back(tag.name);
    if (dropBelow_ != 0) return std::nullopt;
    const std::size_t depth = path_.size() - (tag.empty ? 0 : 1);  // of the parent; topology is 1
    if (tag.name == "info" && depth == 1) return info(tag);
    const bool remark = tag.name == "info" && parent != "object" && parent != "cpukind";
    if (remark || (depth == 1 && has(kDropped, tag.name)) || countsHops(tag)) {
      if (!tag.empty) dropBelow_ = path_.size();
      return std::nullopt;
    }
    if (depth == 1 && !has(kCopied, tag.name)) return unreadable("<" + std::string(tag.name) + "> is not known, and hwloc 2 has nothing like it");
    if (tag.name == "object") {
      if (const auto fault = object(tag)) return fault;
    }
    out_ += before;
    write(out_, tag);
    if (tag.name == "object" && depth == 1 && rootInfosAt_ == 0 && !tag.empty) rootInfosAt_ = out_.size();
    return std::nullopt;
  }

  std::optional<Error> close(const Tag& tag, View before) {
    if (path_.empty() || path_.back() != tag.name) return unreadable("</" + std::string(tag.name) + "> closes nothing");
    const bool dropped = dropBelow_ != 0;
    if (dropBelow_ == path_.size()) dropBelow_ = 0;
    path_.pop_back();
    if (dropped) return std::nullopt;
    out_ += before;
    write(out_, tag);
    return std::nullopt;
  }

  std::optional<Error> info(const Tag& tag) {
    if (!tag.empty) return unreadable("an <info> with content is not known");
    infos_ += "\n    ";
    write(infos_, tag);
    return std::nullopt;
  }

  static bool countsHops(const Tag& tag) {
    const auto kind = tag.name.starts_with("distances2") ? numberOf(tag.valueOf("kind")) : std::nullopt;
    return kind && (*kind & kHops) != 0;
  }

  static std::optional<Error> object(Tag& tag) {
    if (!has(kObjectTypes, tag.valueOf("type"))) return unreadable("objects of type \"" + std::string(tag.valueOf("type")) + "\" are not known");
    std::erase_if(tag.attributes, [](const Attribute& attribute) { return attribute.name == "id"; });
    for (Attribute& attribute : tag.attributes) {
      if (attribute.name != "osdev_type") continue;
      const auto bits = numberOf(attribute.value);
      const auto old = bits ? oldDeviceType(*bits) : std::nullopt;
      if (!old) return unreadable("devices of osdev_type \"" + std::string(attribute.value) + "\" are not known");
      attribute.value = *old;
    }
    return std::nullopt;
  }

  Reader reader_;
  std::string out_;
  std::string infos_;
  std::vector<View> path_;      // open elements
  std::size_t dropBelow_{0};    // length of the path down to what is dropped; 0: nothing
  std::size_t rootInfosAt_{0};  // where the infos of the topology go
};

// A set as hwloc writes it: words of 32 bits, the highest first, as "0x1,,0xff" or "0xf...f,0x0"; an empty word is 0.
bool isBitmap(View text) {
  constexpr View kEndless = "0xf...f";
  if (text.starts_with(kEndless)) {
    text.remove_prefix(kEndless.size());
    if (!text.empty() && text.front() != ',') return false;
    text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  }
  while (!text.empty()) {
    View word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.starts_with("0x")) word.remove_prefix(2);
    unsigned bits = 0;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    if (!word.empty() && (fault != std::errc{} || end != word.data() + word.size())) return false;
  }
  return true;
}

// What hwloc reads as far as it makes sense and takes for another machine: numbers and sets of the objects. It must be one that is.
class NumberCheck {
 public:
  [[nodiscard]] std::optional<Error> check(const Tag& tag) {
    if (tag.name != "object" || tag.closing) return std::nullopt;
    for (const Attribute& attribute : tag.attributes) {
      const char* const wanted = wantedOf(tag, attribute);
      if (wanted == nullptr) continue;
      return unreadable("object " + std::string(tag.valueOf("type")) + ": " + std::string(attribute.name) + "=\"" + std::string(attribute.value) +
                        "\": wanted " + wanted);
    }
    return std::nullopt;
  }

 private:
  // nullptr: it is right.
  const char* wantedOf(const Tag& tag, const Attribute& attribute) {
    if (attribute.name.ends_with("cpuset") || attribute.name.ends_with("nodeset"))
      return isBitmap(attribute.value) ? nullptr : "a set as hwloc writes it, as 0x000000ff,0xffffffff";
    if (attribute.name == "os_index") {
      const View type = tag.valueOf("type");
      const auto index = numberOf(attribute.value);
      if (!index) return "a number, 0 or more";
      return (type == "PU" || type == "NUMANode") && *index >= CpuSet::kMaxId ? "an id below 65536" : nullptr;
    }
    return attribute.name == "local_memory" ? memory(attribute.value) : nullptr;
  }

  const char* memory(View text) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60;  // far from where sums overflow
    std::uint64_t bytes = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (fault == std::errc{} && end == text.data() + text.size() && bytes <= kMost - memory_) return memory_ += bytes, nullptr;
    return "bytes, 1 EiB on the whole machine at most";
  }

  std::uint64_t memory_{0};
};

std::optional<Error> wrongNumber(View xml) {
  Reader reader(xml);
  NumberCheck numbers;
  View before;
  while (const auto tag = reader.next(before)) {
    if (auto fault = numbers.check(*tag)) return fault;
  }
  return std::nullopt;  // whether the text ends well is seen by who reads it
}

bool identifies(View name) {
  constexpr std::array kWords{View("HostName"),     View("ProcessName"),  View("Address"),  View("NodeGUID"),
                              View("SysImageGUID"), View("SerialNumber"), View("OSVersion")};
  if (has(kWords, name)) return true;
  return name.find("Serial") != View::npos || name.find("UUID") != View::npos || name.find("AssetTag") != View::npos ||
         (name.starts_with("Port") && name.find("GID") != View::npos);
}

}  // namespace

Result<std::string> hwloc2Xml(std::string_view xml) {
  Reader reader(xml);
  View before;
  const auto root = reader.next(before);
  if (!root || root->name != "topology") return unreadable("this is no hwloc topology");
  const View version = root->valueOf("version");
  const auto major = numberOf(version.substr(0, version.find('.')));
  if (const auto fault = wrongNumber(xml)) return *fault;
  if (!version.empty() && !major) return unreadable("the version \"" + std::string(version) + "\" is not known");
  if (!major || *major <= 2) return std::string(xml);  // hwloc's own matter
  if (*major > 3) return unreadable("version " + std::string(version) + " is newer than 3");
  return Rewriter(xml).run();
}

std::string withoutIdentity(std::string_view xml) {
  std::string out;
  out.reserve(xml.size());
  Reader reader(xml);
  View before;
  const char* copied = xml.data();
  while (const auto tag = reader.next(before)) {
    if (tag->name != "info" || !tag->empty || !identifies(tag->valueOf("name"))) continue;
    out.append(copied, before.data() + before.size());
    copied = reader.position();
  }
  out.append(copied, xml.data() + xml.size());
  return out;
}

}  // namespace coterie::linux
