#include "serve/log_book.h"

#include <algorithm>
#include <utility>

namespace coterie::serve {

void LogBook::append(InstanceId instance, std::string_view text, WallTime now) {
  const auto found = writers_.find(instance);
  if (found == writers_.end()) return;
  auto& [service, partial] = found->second;
  for (const char c : text) {
    if (c == '\n' || partial.size() >= kMaxLine) keep(service, instance, std::exchange(partial, {}), now);
    if (c != '\n') partial += c;
  }
}

void LogBook::ended(InstanceId instance, WallTime now) {
  auto gone = writers_.extract(instance);
  if (gone.empty() || gone.mapped().partial.empty()) return;
  keep(gone.mapped().service, instance, std::move(gone.mapped().partial), now);
}

void LogBook::forget(const ServiceName& service) {
  lines_.erase(service);
  std::erase_if(writers_, [&](const auto& entry) { return entry.second.service == service; });
}

void LogBook::keep(const ServiceName& service, InstanceId instance, std::string text, WallTime now) {
  auto& lines = lines_[service];
  lines.push_back({++sequence_, {now, instance, std::move(text)}});
  if (lines.size() > kLinesPerService) lines.pop_front();
}

admin::LogPage LogBook::read(const ServiceName& service, std::optional<std::uint64_t> after, std::size_t most) const {
  admin::LogPage page;
  page.next = after.value_or(sequence_);
  const auto found = lines_.find(service);
  if (found == lines_.end()) return page;
  const auto& lines = found->second;
  auto from = lines.begin();
  if (after) {
    from = std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return line.sequence > *after; });
  } else if (lines.size() > most) {
    from = lines.end() - static_cast<std::ptrdiff_t>(most);
  }
  for (; from != lines.end() && page.lines.size() < most; ++from) {
    page.lines.push_back(from->line);
    page.next = from->sequence;
  }
  return page;
}

}  // namespace coterie::serve
