// `coterie plan node` as people call it; no server is there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "cli/cli.h"
#include "testing/xml_tree.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

constexpr const char* kGroups = "tenants:\n  - name: a\n  - name: b\ngroups:\n  - {name: a/x, tenant: a, instances: 2}\n  - {name: b/y, tenant: b}\n";
constexpr const char* kTooMuch = "tenants:\n  - name: a\ngroups:\n  - {name: x, tenant: a, minCpus: 3}\n  - {name: y, tenant: a, minCpus: 3}\n";
constexpr const char* kMachine = "synthetic:pack:2 core:2 pu:1";

struct Ran {
  int code;
  std::string out;
  std::string err;
};

Ran runAny(const std::vector<std::string>& arguments, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const Terminal terminal{in, out, err, false, false, 80, [](std::string_view) { return std::optional<std::string>("/nowhere"); }};
  const int code = runCli(arguments, terminal, {});
  return {code, out.str(), err.str()};
}
Ran run(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"plan", "node"});
  return runAny(arguments, input);
}

TEST(PlanCommand, PrintsPlacesReasonsAndSteps) {
  const Ran ran = run({"--machine", kMachine, "--groups", "-"}, kGroups);
  EXPECT_EQ(ran.code, kOk) << ran.err;
  for (const char* words : {"4 CPUs, 2 sockets", "policy drc", "cost J 0", "GROUP", "a/x", "b/y", "Reasons", "its weight entitles it to 2 CPUs",
                            "Steps, in order", "WidenHome"})
    EXPECT_NE(ran.out.find(words), std::string::npos) << words << "\n" << ran.out;
  EXPECT_EQ(ran.out.find("pending"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out, run({"--machine", kMachine, "--groups", "-"}, kGroups).out);
}

TEST(PlanCommand, PrintsJsonAndSvgThatParse) {
  const Ran json = run({"--machine", kMachine, "--groups", "-", "-o", "json"}, kGroups);
  EXPECT_EQ(json.code, kOk);
  const auto value = text::parseJson(json.out);
  ASSERT_TRUE(value.ok()) << json.out;
  EXPECT_EQ(value->find("groups")->asList()->size(), 2U);
  const Ran svg = run({"--machine", kMachine, "--groups", "-", "-o", "svg"}, kGroups);
  const auto root = testing::parseXml(svg.out);
  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(root->all("g", "cpu").size(), 4U);
}

TEST(PlanCommand, IdsThatTheMachineDoesNotHaveAreRefusedByField) {
  const std::string head = "tenants: [{name: a}]\n";
  const auto refused = [&](const std::string& yaml) {
    const Ran ran = run({"--machine", kMachine, "--groups", "-"}, head + yaml);
    EXPECT_EQ(ran.code, kFailed) << yaml;
    return ran.err;
  };
  EXPECT_NE(refused("pool: 99\ngroups: [{name: x, tenant: a}]\n").find("pool: the machine has no CPU 99; it has 0-3"), std::string::npos);
  const auto instance = [&](const std::string& fields) { return refused("groups:\n  - {name: x, tenant: a, instances: [{" + fields + "}]}\n"); };
  EXPECT_NE(instance("home: 0-4").find("3: groups[0].instances[0].home: the machine has no CPU 4; it has 0-3"), std::string::npos);
  EXPECT_NE(instance("home: 0, memoryNodes: 99").find("instances[0].memoryNodes: the machine has no memory node 99; it has 0"), std::string::npos);
  EXPECT_NE(instance("home: 0, loans: 7").find("instances[0].loans: the machine has no CPU 7"), std::string::npos);
}

TEST(PlanCommand, AReasonNamesTheDeviceThatIsNotThere) {
  const Ran ran = run({"--machine", kMachine, "--groups", "-"}, "tenants: [{name: a}]\ngroups: [{name: x, tenant: a, device: gpu9}]\n");
  EXPECT_NE(ran.out.find("no device \"gpu9\""), std::string::npos) << ran.out;
}

TEST(PlanCommand, WhoFloatsOverAPoolIsNotSaidToFloatOverAllCpus) {
  const std::string groups = "tenants: [{name: a}]\ngroups: [{name: x, tenant: a, minCpus: 2}, {name: y, tenant: a}]\n";
  const Ran kubelet = run({"--machine", kMachine, "--groups", "-", "--policy", "kubelet-static"}, groups);
  EXPECT_NE(kubelet.out.find("it floats over the pool, 2 CPUs"), std::string::npos) << kubelet.out;
  const Ran none = run({"--machine", kMachine, "--groups", "-", "--policy", "none-single"}, groups);
  EXPECT_NE(none.out.find("it floats over all CPUs"), std::string::npos) << none.out;
}

TEST(PlanCommand, PendingGroupsAreShownAndNoFailure) {
  const Ran table = run({"--machine", kMachine, "--groups", "-"}, kTooMuch);
  EXPECT_EQ(table.code, kOk);
  EXPECT_NE(table.out.find("1 group is pending: y"), std::string::npos) << table.out;
  const Ran json = run({"--machine", kMachine, "--groups", "-", "-o", "json"}, kTooMuch);
  EXPECT_EQ(json.code, kOk);
  EXPECT_TRUE(text::parseJson(json.out).ok()) << "the line goes to standard error";
  EXPECT_EQ(json.err, "coterie: 1 group is pending: y\n");
}

TEST(PlanCommand, FollowsPolicyAndReservation) {
  const Ran none = run({"--machine", kMachine, "--groups", "-", "--policy", "none-single"}, kGroups);
  EXPECT_NE(none.out.find("pool 0-3"), std::string::npos) << none.out;
  const Ran kubelet = run({"--machine", kMachine, "--groups", "-", "--policy", "cpu-manager-multi", "--reserved", "0"}, kGroups);
  EXPECT_EQ(kubelet.code, kOk) << kubelet.err;
  EXPECT_NE(kubelet.out.find("CPUs 1-3 may be owned"), std::string::npos) << kubelet.out;
}

TEST(PlanCommand, MistakesAreNamed) {
  struct Case {
    std::vector<std::string> arguments;
    const char* input;
    int code;
    const char* says;
  };
  const Case cases[] = {
      {{"--machine", kMachine}, "", kUsage, "--groups"},
      {{"--machine", kMachine, "--groups", "-", "--policy", "best"}, kGroups, kUsage, "none-single"},
      {{"--machine", kMachine, "--groups", "-", "--reserved", "x"}, kGroups, kUsage, "--reserved: \"x\" is not a CPU list"},
      {{"--machine", kMachine, "--groups", "-", "--reserved", "4-5"}, kGroups, kUsage, "the machine has no CPU 4-5; it has 0-3"},
      // What makes no sense and what is too large end alike: both are no machine.
      {{"--machine", "synthetic:pack:two", "--groups", "-"}, kGroups, kFailed, "pack:two"},
      {{"--machine", "synthetic:pack:2 core:50000", "--groups", "-"}, kGroups, kFailed, "core:50000"},
      {{"--machine", "synthetic:numa:2(memory=99999999999999999999GB) core:2", "--groups", "-"}, kGroups, kFailed, "memory=99999999999999999999GB"},
      {{"--machine", "nothing", "--groups", "-"}, kGroups, kNotFound, "coterie machine list"},
      {{"--machine", kMachine, "--groups", "/nowhere.yaml"}, "", kFailed, "/nowhere.yaml: cannot be read"},
      {{"--machine", kMachine, "--groups", "/"}, "", kFailed, "/: cannot be read: it is a folder"},
      {{"--machine", kMachine, "--groups", "-"},
       "tenants:\n  - name: a\ngroups:\n  - {name: x, tenant: b}\n",
       kFailed,
       "coterie: -:4: groups[0].tenant: no tenant \"b\" is listed"},
      {{"--machine", kMachine, "--groups", "-"}, "x", kFailed, "nothing was planned"},
  };
  for (const Case& one : cases) {
    const Ran ran = run(one.arguments, one.input);
    EXPECT_EQ(ran.code, one.code) << one.says << "\n" << ran.err;
    EXPECT_NE(ran.err.find(one.says), std::string::npos) << one.says << "\n" << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST(PlanCommand, IsCompleted) {
  EXPECT_EQ(runAny({"__complete", "plan", ""}, "").out, "node\n");
  EXPECT_EQ(runAny({"__complete", "plan", "node", "--policy", "none"}, "").out, "none-multi\nnone-single\n");
  EXPECT_EQ(runAny({"__complete", "plan", "node", "-o", ""}, "").out, "json\nsvg\ntable\n");
}

TEST(PlanCommand, PlansForTheLiveMachine) {
  const Ran ran = run({"--groups", "-", "-o", "json"}, "tenants: [{name: a}]\ngroups: [{name: x, tenant: a}]\n");
  EXPECT_EQ(ran.code, kOk) << ran.err;
}

// ---- examples/plan ----
// Words of a shell line: blanks part them, double quotes keep them together; what follows '>' is left out.
std::vector<std::string> wordsOf(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  bool any = false;
  for (const char c : line + " ") {
    if (c == '"') {
      quoted = !quoted, any = true;
    } else if (c == ' ' && !quoted) {
      if (word == ">") return words;
      if (any) words.push_back(word);
      word.clear(), any = false;
    } else {
      word += c, any = true;
    }
  }
  return words;
}

TEST(PlanExamples, TheMapsOfTheDocumentationAreThoseThatAreDrawn) {
  const std::string root = std::string(COTERIE_SOURCE_DIR) + "/";
  std::ifstream file(root + "docs/maps/README.md");
  ASSERT_TRUE(file.good());
  int maps = 0;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kPrompt = "    $ coterie plan node ";
    if (!line.starts_with(kPrompt)) continue;
    std::vector<std::string> words = wordsOf(line.substr(kPrompt.size()));
    for (std::string& word : words) {
      if (word.find(".yaml") != std::string::npos) word = root + word;
    }
    std::ifstream map(root + line.substr(line.rfind(' ') + 1));
    const std::string drawn((std::istreambuf_iterator<char>(map)), std::istreambuf_iterator<char>());
    EXPECT_TRUE(run(words).out == drawn) << "draw it anew: " << line;
    ++maps;
  }
  EXPECT_EQ(maps, 4);
}

TEST(PlanExamples, EveryCommandOfTheReadmeRunsAndPrintsWhatItShows) {
  const std::string root = std::string(COTERIE_SOURCE_DIR) + "/";
  std::ifstream file(root + "examples/plan/README.md");
  ASSERT_TRUE(file.good());
  int commands = 0;
  std::string shown;  // by the last command
  std::set<std::string> files;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kPrompt = "    $ coterie plan node ";
    if (line.starts_with(kPrompt)) {
      std::vector<std::string> words = wordsOf(line.substr(kPrompt.size()));
      for (std::string& word : words) {
        if (word.starts_with("examples/")) files.insert(word), word = root + word;
      }
      const Ran ran = run(words);
      EXPECT_EQ(ran.code, kOk) << line << "\n" << ran.err;
      EXPECT_FALSE(ran.out.empty()) << line;
      shown = ran.out;
      ++commands;
    } else if (line.starts_with("    ") && line != "    ...") {
      EXPECT_NE(("\n" + shown).find("\n" + line.substr(4) + "\n"), std::string::npos) << "not in the output any more: " << line << "\n" << shown;
    }
  }
  EXPECT_GE(commands, 3);
  EXPECT_EQ(files, (std::set<std::string>{"examples/plan/running.yaml", "examples/plan/two-teams.yaml"}));
}

}  // namespace
}  // namespace coterie::cli
