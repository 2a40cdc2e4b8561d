#include "linux/machine_source_text.h"

#include <filesystem>
#include <string_view>

#include "linux/machine_reader.h"
#include "model/machine_generator.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSynthetic = "synthetic:";

Error unknown(const std::string& text) {
  return {Code::NotFound, "UnknownMachine",
          "there is no machine \"" + text +
              "\": it is none of the generated ones (coterie machine list), no folder with a recorded machine, no .xml file, not live, and does not "
              "start with synthetic:"};
}

}  // namespace

Result<Machine> machineFromSource(const std::string& text) {
  if (text == "live") return readMachine();
  if (text.starts_with(kSynthetic)) return readMachine({MachineOrigin::Synthetic, text.substr(kSynthetic.size())});
  if (auto shape = shapeNamed(text)) return *std::move(shape);
  if (text.ends_with(".xml")) return readMachine({MachineOrigin::Xml, text});
  std::error_code fault;
  if (!fs::is_directory(text, fault)) return unknown(text);
  const fs::path recorded = fs::path(text) / "machine.xml";
  if (!fs::exists(fs::path(text) / "sys", fault) && fs::exists(recorded, fault)) return readMachine({MachineOrigin::Xml, recorded.string()});
  return readMachine({MachineOrigin::Recorded, text});
}

}  // namespace coterie::linux
