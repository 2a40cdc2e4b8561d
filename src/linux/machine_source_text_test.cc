#include "linux/machine_source_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "linux/machine_checks.h"
#include "linux/machine_reader.h"
#include "model/machine_generator.h"
#include "testing/sysfs_tree.h"

namespace coterie::linux {
namespace {

TEST(MachineSource, EveryFormNamesAMachine) {
  const Scratch scratch;
  testing::writeSysfs(machineNamed("smt-8"), scratch / "root");
  std::filesystem::create_directories(scratch / "recorded");
  std::ofstream(scratch / "recorded/machine.xml") << recordMachine({MachineOrigin::Synthetic, "pack:2 core:4"}).value();
  const std::pair<std::string, int> forms[] = {
      {"live", readMachine()->online.count()}, {"synthetic:pack:2 core:4 pu:1", 8}, {"flat-2", 2}, {"64-nodes-4096", 4096}, {scratch / "root", 8},
      {scratch / "recorded/machine.xml", 8},   {scratch / "recorded", 8},
  };
  for (const auto& [text, cpus] : forms) {
    const auto machine = machineFromSource(text);
    ASSERT_TRUE(machine) << text << ": " << machine.error().message;
    EXPECT_EQ(machine->online.count(), cpus) << text;
  }
}

TEST(MachineSource, WhatIsNoMachineIsNamed) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "empty");
  std::ofstream(scratch / "bad.xml") << "<topology version=\"3.0\"><object type=\"Quark\"></object></topology>";
  const std::pair<std::string, const char*> cases[] = {
      {"nothing", "coterie machine list"}, {"", "there is no machine"},    {"synthetic:what", "what"},
      {scratch / "none.xml", "none.xml"},  {scratch / "bad.xml", "Quark"}, {scratch / "empty", "no recorded machine"},
  };
  for (const auto& [text, word] : cases) {
    const auto machine = machineFromSource(text);
    ASSERT_FALSE(machine) << text;
    EXPECT_NE(machine.error().message.find(word), std::string::npos) << machine.error().message;
  }
}

}  // namespace
}  // namespace coterie::linux
