#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

class MachineCommand : public testing::Test {
 protected:
  struct Ran {
    int code;
    std::string out;
    std::string err;
  };

  MachineCommand() {
    std::string name = testing::TempDir() + "coterie_machine_XXXXXX";
    folder_ = std::string(::mkdtemp(name.data())) + "/";
  }
  ~MachineCommand() override { std::filesystem::remove_all(folder_); }

  static Ran run(const std::vector<std::string>& arguments) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    const Terminal terminal{in, out, err, false, false, 80, [](std::string_view) { return std::optional<std::string>(); }};
    const int code = runCli(arguments, terminal, {});
    return {code, out.str(), err.str()};
  }

  std::string folder_;
};

TEST_F(MachineCommand, ShowsAndRecordsWithoutAServer) {
  const auto shown = run({"machine", "show", "--machine", "cxl-2s-64"});
  EXPECT_EQ(shown.code, kOk) << shown.err;
  EXPECT_EQ(shown.out.rfind("cxl-2s-64\n  64 CPUs online in 2 sockets, 2 nodes, 2 cache groups, 32 cores; 288.0Gi of memory\n", 0), 0U) << shown.out;
  for (const char* part : {"SOCKET  NODE  CACHE", "0-15,32-47", "2     slow", "24 34 10 48"}) {
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << "\n" << shown.out;
  }
  const auto json = text::parseJson(run({"machine", "show", "--machine", "power9-gpu-memory-160", "-o", "json"}).out);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->find("cpus")->asList()->size(), 160U);
  EXPECT_EQ(*json->find("memoryNodes")->asList()->back().find("kind")->asString(), "device");
  EXPECT_EQ(json->find("devices")->asList()->size(), 6U);
  for (const char* place : {"recorded/here", "recorded.xml"}) {
    const std::string path = folder_ + place;
    EXPECT_EQ(run({"machine", "record", "-o", path}).code, kOk);
    const auto again = run({"machine", "show", "--machine", path, "-o", "json"});
    EXPECT_EQ(again.out, run({"machine", "show", "-o", "json"}).out) << again.err;
  }
  EXPECT_EQ(run({"machine", "record", "-o", folder_ + "none/of/it.xml"}).code, kFailed);
  EXPECT_EQ(run({"machine", "record", "-o", "-"}).out.rfind("<?xml", 0), 0U);
  EXPECT_FALSE(std::filesystem::exists("-"));
  EXPECT_EQ(run({"machine", "show", "--machine", folder_}).code, kFailed);  // a folder without sys is no machine: unreadable, as a broken file is
  EXPECT_NE(run({"machine", "list"}).out.find("epyc-2s-nps4-12-caches-384"), std::string::npos);
  const auto unknown = run({"machine", "show", "--machine", "nothing"});
  EXPECT_EQ(unknown.code, kNotFound);
  EXPECT_NE(unknown.err.find("coterie machine list"), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace coterie::cli
