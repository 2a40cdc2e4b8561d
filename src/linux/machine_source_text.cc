#include "linux/machine_source_text.h"

#include <string_view>

#include "linux/live_machine.h"
#include "linux/machine_reader.h"

namespace coterie::linux {

Result<Machine> machineFromSource(const std::string& text) {
  constexpr std::string_view kSynthetic = "synthetic:";
  if (text == "live") return LiveMachine().read();
  if (text.starts_with(kSynthetic)) return readMachine({MachineOrigin::Synthetic, text.substr(kSynthetic.size()), ""});
  if (text.ends_with(".xml")) return readMachine({MachineOrigin::Xml, text, ""});
  return Error{Code::InvalidArgument, "UnknownMachine", "\"" + text + "\" names no machine: wanted live, FILE.xml or synthetic:DESCRIPTION"};
}

}  // namespace coterie::linux
