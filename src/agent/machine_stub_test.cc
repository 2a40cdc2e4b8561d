// The stub that the DRC's stories run on keeps the contract of what it stands for, on each of the odd machines.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "agent/drc_rig.h"
#include "ports/machine_source_contract.h"
#include "testing/machine_generator.h"

namespace coterie::contract {
namespace {

std::vector<SourceUnderTest> stubs() {
  std::vector<SourceUnderTest> made;
  for (const std::string_view name : testing::machineNames()) {
    std::string identifier;
    for (const char c : name) identifier += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    made.push_back({identifier, [name] { return std::make_unique<agent::MachineStub>(testing::machineNamed(name)); }});
  }
  return made;
}
INSTANTIATE_TEST_SUITE_P(Stub, MachineSourceContract, ::testing::ValuesIn(stubs()), sourceName);

}  // namespace
}  // namespace coterie::contract
