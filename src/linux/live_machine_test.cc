#include "linux/live_machine.h"

#include <gtest/gtest.h>

#include <memory>

#include "ports/machine_source_contract.h"

namespace coterie::contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Live, MachineSourceContract,
                         ::testing::Values(SourceUnderTest{"live", [] { return std::make_unique<linux::LiveMachine>(); }}), sourceName);

}  // namespace
}  // namespace coterie::contract
