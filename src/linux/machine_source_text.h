// How people name a machine on the command line, one syntax for all commands (`--machine SOURCE`):
//   live                         this machine
//   synthetic:pack:2 core:4      hwloc's synthetic description, behind the colon
//   NAME                         a generated shape (machine_generator.h); `coterie machine list` shows them
//   FILE.xml                     hwloc XML, also what `coterie machine record` wrote
//   FOLDER                       a recorded root (it has a folder sys), or a folder with machine.xml
// A name of a shape wins over a folder of that name: ./NAME is the folder. Errors: NotFound/UnknownMachine names the forms; else those of
// machine_reader.h. Thread rule: as readMachine(): one thread only where a recorded root is read.
#pragma once

#include <string>

#include "base/result.h"
#include "model/machine.h"

namespace coterie::linux {

[[nodiscard]] Result<Machine> machineFromSource(const std::string& text);

}  // namespace coterie::linux
