// Records of stations from anybody: no bytes may crash the reader or be played as misuse of a station; what is read is written as the same bytes
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dispatch/record.h"
#include "dispatch/replay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coterie::dispatch;
  std::string bytes(kRecordMagic);
  bytes.append(reinterpret_cast<const char*>(data), size);
  RecordReader reader(bytes);
  RecordWriter writer;
  std::string again;
  while (const auto frame = reader.next()) {
    again.clear();
    writer.append(again, *frame);
    if (again != reader.bytesOfLast()) std::abort();
  }
  static_cast<void>(replay(bytes));
  static_cast<void>(freeRun(bytes));
  return 0;
}
