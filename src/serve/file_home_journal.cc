#include "serve/file_home_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/unique_fd.h"
#include "model/value.h"
#include "text/text.h"

namespace coterie::serve {

namespace {
std::string textOf(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  const std::string* text = member != nullptr ? member->asString() : nullptr;
  return text != nullptr ? *text : std::string();
}

// Not flushed: what a machine that lost its power forgets of this are hints, and the control loop would wait some milliseconds for each.
bool writeWhole(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}
}  // namespace

std::vector<agent::HomeHint> FileHomeJournal::load() {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return {};
  const auto parsed = text::parseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  const Value::List* rows = parsed ? parsed->asList() : nullptr;
  if (rows == nullptr) {
    log::warning("serve", path_ + " is damaged: services may start on other CPUs than before");
    return {};
  }
  std::vector<agent::HomeHint> hints;
  for (const Value& row : *rows) {
    const auto home = CpuSet::parse(textOf(row, "cpus"));
    const Value* ordinal = row.find("instance");
    const Value* pool = row.find("pool");
    if (!home || ordinal == nullptr || ordinal->asInt() == nullptr) continue;
    hints.push_back({{textOf(row, "namespace"), textOf(row, "name")},
                     static_cast<int>(*ordinal->asInt()),
                     *home,
                     pool != nullptr && pool->asBool() != nullptr && *pool->asBool()});
  }
  last_ = hints;
  return hints;
}

void FileHomeJournal::save(const std::vector<agent::HomeHint>& hints) {
  if (hints == last_) return;
  Value rows = Value::emptyList();
  for (const auto& hint : hints) {
    Value row;
    row.set("namespace", hint.service.nameSpace);
    row.set("name", hint.service.name);
    row.set("instance", hint.ordinal);
    row.set("cpus", hint.home.toString());
    row.set("pool", hint.inPool);
    rows.push(std::move(row));
  }
  const std::string temporary = path_ + ".new";
  if (!writeWhole(temporary, text::printJson(rows, text::JsonStyle::Indented)) || ::rename(temporary.c_str(), path_.c_str()) != 0) {
    log::warning("serve", "cannot write " + path_ + ": " + std::strerror(errno) + "; after a restart services may sit on other CPUs");
    return;
  }
  last_ = hints;
}

}  // namespace coterie::serve
