// The agent's report as `coterie top --node` prints it.
#include "cli/node_top.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/context.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

TEST(NodeTop, WhoWaitsForIsolationIsShownWithTheReasons) {
  const auto report = text::parseJson(R"({"mode": "enforce", "groups": [
    {"name": "a/x", "tenant": "a", "pending": false, "reasons": ["its weight entitles it"], "containers": [{"container": "c", "homeCpus": "0-1"}]},
    {"name": "b/y", "tenant": "b", "pending": true, "waitsForIsolation": "node", "reasons": ["isolation node cannot be had", "core would fit"],
     "containers": [{"container": "d"}]},
    {"name": "b/z", "tenant": "b", "pending": true, "waitsForIsolation": "none", "reasons": [], "containers": [{"container": "e"}]}]})");
  ASSERT_TRUE(report.ok());
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  const Terminal terminal{in, out, err, false, false, 80, [](std::string_view) { return std::optional<std::string>(); }};
  Context context{terminal, {}, nullptr};
  printNodeTop(context, *report);
  const std::string text = out.str();
  EXPECT_NE(text.find("waits (isolation node)"), std::string::npos) << text;
  EXPECT_NE(text.find("b/y waits: isolation node cannot be had\nb/y waits: core would fit\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("entitles"), std::string::npos) << "who runs: `coterie agent` prints that";
  EXPECT_EQ(text.find("isolation none"), std::string::npos) << text;
}

}  // namespace
}  // namespace coterie::cli
