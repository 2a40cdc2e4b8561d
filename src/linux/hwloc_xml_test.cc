#include "linux/hwloc_xml.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/rng.h"

namespace coterie::linux {
namespace {

std::string version3(const std::string& root, const std::string& behind = "") {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"3.0\">\n  <object "
         "type=\"Machine\" id=\"obj1\">" +
         root + "</object>\n" + behind + "</topology>\n";
}

TEST(HwlocXml, VersionTwoIsLeftAlone) {
  for (const char* text : {"<topology version=\"2.0\"><object type=\"Quark\"/></topology>", "<topology version=\"2.9\"/>", "<topology></topology>"})
    EXPECT_EQ(hwloc2Xml(text).value(), text);
}

struct Rewrite {
  const char* what;
  std::string from;
  const char* present;
  const char* absent;
};

TEST(HwlocXml, VersionThreeBecomesTwo) {
  const Rewrite cases[] = {
      {"version", version3(""), "<topology version=\"2.0\">", "3.0"},
      {"ids", version3("<object type=\"PU\" gp_index=\"7\" id=\"obj7\"/>"), "<object type=\"PU\" gp_index=\"7\"/>", "id=\"obj"},
      {"storage", version3("<object type=\"OSDev\" name=\"sda\" osdev_type=\"1\"/>"), "name=\"sda\" osdev_type=\"0\"/>", "osdev_type=\"1\""},
      {"network", version3("<object type=\"OSDev\" name=\"eth0\" osdev_type=\"16\"/>"), "osdev_type=\"2\"", "\"16\""},
      {"fabric and network", version3("<object type=\"OSDev\" name=\"mlx4_0\" osdev_type=\"48\"/>"), "osdev_type=\"3\"", "\"48\""},
      {"GPU that computes", version3("<object type=\"OSDev\" name=\"cuda0\" osdev_type=\"12\"/>"), "osdev_type=\"5\"", "\"12\""},
      {"infos of the topology", version3("<object type=\"PU\"/>", "<info name=\"Backend\" value=\"Linux\"/>"),
       "<object type=\"Machine\">\n    <info name=\"Backend\" value=\"Linux\"/><object type=\"PU\"/>", "</object>\n<info"},
      {"tiers and PCI", version3("", "<memtier kinds=\"1\" nodeset=\"0x1\"/><pci_locality domain=\"0x0\"></pci_locality>"), "</object>", "memtier"},
      {"hops", version3("", "<distances2 type=\"OSDev\" kind=\"33\"><indexes length=\"2\">1 </indexes></distances2>"), "</object>", "indexes"},
      {"latencies",
       version3("", "<distances2 type=\"NUMANode\" kind=\"5\"><info name=\"a\" value=\"b\"/><indexes length=\"2\">1 </indexes></distances2>"),
       "kind=\"5\"><indexes length=\"2\">1 </indexes></distances2>", "info"},
      {"kinds of core", version3("", "<cpukind cpuset=\"0x1\"><info name=\"a\" value=\"b\"/></cpukind>"), "<info name=\"a\" value=\"b\"/></cpukind>",
       "3.0"},
      {"comments", version3("<!-- <object type=\"Quark\"/> -->"), "</object>", "Quark"},
  };
  for (const Rewrite& one : cases) {
    const auto text = hwloc2Xml(one.from);
    ASSERT_TRUE(text) << one.what << ": " << text.error().message;
    EXPECT_NE(text->find(one.present), std::string::npos) << one.what << "\n" << *text;
    EXPECT_EQ(text->find(one.absent), std::string::npos) << one.what << "\n" << *text;
  }
}

TEST(HwlocXml, WhatCannotBeRewrittenIsNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {version3("<object type=\"Quark\"/>"), "Quark"},
      {version3("<object type=\"OSDev\" osdev_type=\"256\"/>"), "256"},
      {version3("<object type=\"OSDev\" osdev_type=\"x\"/>"), "osdev_type"},
      {version3("", "<wormhole/>"), "<wormhole>"},
      {"<topology version=\"4.0\"></topology>", "4.0"},
      {"<topology version=\"x\"></topology>", "\"x\""},
      {"<root></root>", "no hwloc topology"},
      {"", "no hwloc topology"},
      {"hello", "no hwloc topology"},
  };
  for (const auto& [text, word] : cases) {
    const auto rewritten = hwloc2Xml(text);
    ASSERT_FALSE(rewritten) << text;
    EXPECT_EQ(rewritten.error().reason, "MachineUnreadable");
    EXPECT_NE(rewritten.error().message.find(word), std::string::npos) << rewritten.error().message;
  }
}

// hwloc reads "0xzz" as 0 and "-5" as 4294967291: a machine without these CPUs, or an id that no set has room for.
TEST(HwlocXml, NumbersAndSetsThatAreNoneAreRefusedByFieldInBothVersions) {
  const std::pair<const char*, const char*> bad[] = {
      {"type=\"NUMANode\" os_index=\"-5\"", "NUMANode: os_index=\"-5\""},
      {"type=\"PU\" os_index=\"65536\"", "os_index=\"65536\""},
      {"type=\"Core\" os_index=\"x\"", "os_index=\"x\""},
      {"type=\"NUMANode\" cpuset=\"0xzz\"", "cpuset=\"0xzz\""},
      {"type=\"NUMANode\" complete_nodeset=\"0x1,-1\"", "complete_nodeset=\"0x1,-1\""},
      {"type=\"PU\" cpuset=\"0x123456789\"", "cpuset=\"0x123456789\""},
      {"type=\"NUMANode\" local_memory=\"99999999999999999999999\"", "local_memory"},
      {"type=\"NUMANode\" local_memory=\"-1\"", "local_memory"},
      {"type=\"NUMANode\" local_memory=\"1000000000000000000\"/><object type=\"NUMANode\" local_memory=\"1000000000000000000\"", "1 EiB"},
  };
  for (const auto& [attributes, named] : bad) {
    const std::string object = "<object " + std::string(attributes) + "/>";
    for (const std::string& text : {version3(object), "<topology version=\"2.0\">" + object + "</topology>"}) {
      const auto read = hwloc2Xml(text);
      ASSERT_FALSE(read) << text;
      EXPECT_EQ(read.error().code, Code::InvalidArgument);
      EXPECT_NE(read.error().message.find(named), std::string::npos) << read.error().message;
    }
  }
  for (const char* good : {"0x0", "0x000000ff,0xffffffff", "0x1,,0xff", "0xf...f", "0xf...f,0x0"})
    EXPECT_TRUE(hwloc2Xml(version3("<object type=\"Group\" os_index=\"4294967290\" cpuset=\"" + std::string(good) + "\"/>"))) << good;
}

TEST(HwlocXml, EveryTextThatIsCutOffIsRefused) {
  const std::string whole = version3("<object type=\"PU\" id=\"obj2\"/>", "<info name=\"a\" value=\"b\"/><!-- c -->");
  ASSERT_TRUE(hwloc2Xml(whole));
  for (std::size_t length = 0; length < whole.find("</topology>") + 11; ++length) EXPECT_FALSE(hwloc2Xml(whole.substr(0, length))) << length;
  for (const char* bad : {"</object>", "<object type='PU'/>", "<object type=\"PU/>", "<object type/>", "< object/>", "<object type=\"PU\">"})
    EXPECT_FALSE(hwloc2Xml(version3(bad))) << bad;
}

TEST(HwlocXml, AnyBytesAreRewrittenOrRefused) {
  const std::string whole =
      version3("<object type=\"OSDev\" name=\"eth0\" osdev_type=\"16\"/><info name=\"HostName\" value=\"a\"/>",
               "<distances2 type=\"NUMANode\" kind=\"5\"><indexes length=\"2\">1 </indexes></distances2><memtier kinds=\"1\"/>");
  const std::string_view bytes = "<>/\"=!-? a1\0";
  Rng rng(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole;
    for (std::int64_t edits = rng.between(1, 6); edits > 0; --edits) {
      const auto at = static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(text.size()) - 1));
      const char byte = bytes[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(bytes.size()) - 1))];
      if (rng.chance(40)) {
        text[at] = byte;
      } else if (rng.chance(50)) {
        text.insert(at, 1, byte);
      } else {
        text.erase(at, static_cast<std::size_t>(rng.between(1, 9)));
      }
      if (text.empty()) text = "<";
    }
    const auto rewritten = hwloc2Xml(text);
    EXPECT_TRUE(rewritten.ok() || rewritten.error().reason == "MachineUnreadable");
    EXPECT_LE(withoutIdentity(text).size(), text.size());
  }
}

TEST(HwlocXml, WhatNamesTheHostIsLeftOut) {
  const std::string text =
      "<topology version=\"2.0\"><object type=\"Machine\"><info name=\"HostName\" value=\"a/>b\"/><info name=\"CPUModel\" value=\"X\"/>"
      "<info name=\"DMIProductSerial\" value=\"1\"/></object></topology>";
  EXPECT_EQ(withoutIdentity(text), "<topology version=\"2.0\"><object type=\"Machine\"><info name=\"CPUModel\" value=\"X\"/></object></topology>");
}

}  // namespace
}  // namespace coterie::linux
