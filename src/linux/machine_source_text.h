// A machine from what people write on a command line: "live" (this machine), a path that ends in .xml (hwloc's), or "synthetic:pack:2 core:4"
// (hwloc's description behind the first colon). Errors: InvalidArgument/UnknownMachine (names the forms), and those of machine_reader.h and
// live_machine.h. Thread-safe.
#pragma once

#include <string>

#include "base/result.h"
#include "model/machine.h"

namespace coterie::linux {

[[nodiscard]] Result<Machine> machineFromSource(const std::string& text);

}  // namespace coterie::linux
