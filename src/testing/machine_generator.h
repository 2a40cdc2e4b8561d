// The generator of machines under the names that tests use. It lies in model/, because the product plans for generated machines too.
#pragma once

#include "model/machine_generator.h"

namespace coterie::testing {

using coterie::bigMachine;
using coterie::CpuPlace;
using coterie::machineFrom;
using coterie::machineNamed;
using coterie::machineNames;
using coterie::MachineShape;
using coterie::regularMachine;
using coterie::shapeNamed;
using coterie::shapeNames;
using coterie::withOnline;

}  // namespace coterie::testing
