// Audit logs from anybody: no bytes may crash whoever checks or prints them; a line that is read is written as the same bytes again, and with the
// hashes that belong to it is taken; whatever is told of becomes a line; a log that a server finds in its folder, whatever it holds, is gone on with,
// and what is added is sound.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "audit/chain.h"
#include "audit/changes.h"
#include "audit/trail.h"
#include "base/log.h"
#include "testing/fake_log_folder.h"
#include "testing/manual_loop.h"

namespace {

using namespace coterie;

// The lines that can be read, as a log of their own.
void sealAnew(std::string_view bytes) {
  audit::ChainCheck check;
  check.startFile("anew");
  audit::Entry begins;
  begins.begins = audit::Begins{1, audit::noHash()};
  std::uint64_t sequence = 1;
  audit::Sealed last = audit::encode(sequence, begins, audit::noHash());
  if (!check.take(last.text)) std::abort();
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    if (auto line = audit::decode(bytes.substr(0, end)); line.ok() && !line->entry.begins) {
      last = audit::encode(++sequence, line->entry, last.hash);
      if (!check.take(last.text)) std::abort();
    }
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
}

// Any text, in every place for text.
void tellOf(const std::string& text) {
  audit::Entry entry;
  entry.actor = {audit::Actor::Kind::Key, text, TenantName(text), Role::Infer};
  entry.verb = entry.kind = entry.object = entry.reason = text;
  entry.tenant = TenantName(text);
  entry.changes = {text, audit::withoutSecrets(text)};
  const std::string line = audit::encode(1, entry, audit::noHash()).text;
  const auto read = audit::decode(line);
  if (!read.ok() || audit::encode(1, read->entry, audit::noHash()).text != line) std::abort();
  if (audit::withoutSecrets(text).find("ctk_") != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::setLevel(log::Level::Error);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  audit::ChainCheck check;
  const bool sound = check.takeFile("fuzz", bytes);
  if (sound != !check.fault()) std::abort();
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    if (const auto line = audit::decode(text); line.ok()) {
      // The hash apart, which is of the line before.
      const std::string again = audit::encode(line->sequence, line->entry, "").text;
      if (again.size() != text.size() || again.substr(0, again.size() - 66) != text.substr(0, text.size() - 66)) std::abort();
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  sealAnew(bytes);
  tellOf(bytes);
  testing::FakeLogFolder folder;
  testing::ManualClock clock;
  folder.bytes(audit::fileName(1)) = bytes;
  audit::Trail trail(folder, clock);
  if (!trail.begin({}).ok()) std::abort();
  audit::ChainCheck added;
  const std::string newest = folder.names().back();
  if (!added.takeFile(newest, folder.bytes(newest))) std::abort();
  for (std::uint64_t at = 0;;) {
    const auto page = trail.read(at, {});
    if (!page.ok()) std::abort();
    if (page->last) break;
    if (page->next <= at) std::abort();
    at = page->next;
  }
  return 0;
}
