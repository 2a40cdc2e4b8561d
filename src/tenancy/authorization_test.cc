#include "tenancy/authorization.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace coterie::tenancy {
namespace {

using Cell = std::tuple<std::string, std::string, std::string>;  // kind, verb, role
using Cells = std::map<Cell, Reach>;

// Per kind, and per verb in the order of kAllVerbs, how far observe, infer, tenant-admin and platform-admin reach:
// '.' that is not done, '-' not at all, 'o' their own, 'a' all. Written by hand: this is what was decided, not what the code does.
struct Line {
  const char* kind;
  std::vector<std::string> verbs;
};
const std::vector<Line> kDecided{
    //                get     list    watch   create  update  report  delete  infer   rotate  revoke
    {"Tenant", {"o-oa", "o-oa", "o-oa", "---a", "---a", "---a", "---a", "....", "....", "...."}},
    {"ModelService", {"o-oa", "o-oa", "o-oa", "--oa", "--oa", "---a", "--oa", "....", "....", "...."}},
    {"Key", {"....", "--oa", "....", "--oa", "....", "....", "....", "....", "--oa", "--oa"}},
    {"Model", {"ooo-", "ooo-", "....", "....", "....", "....", "....", "-oo-", "....", "...."}},
    {"Statistics", {"ooo-", "ooo-", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Instance", {"....", "o-oa", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Explanation", {"o-oa", "....", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Event", {"....", "o-oa", "o-oa", "....", "....", "....", "....", "....", "....", "...."}},
    {"Log", {"o-oa", "....", "o-oa", "....", "....", "....", "....", "....", "....", "...."}},
    {"Usage", {"o-oa", "....", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Audit", {"....", "--oa", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Limit", {"....", "o-oa", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Metrics", {"o-oa", "....", "....", "....", "....", "....", "....", "....", "....", "...."}},
    {"Controller", {"---a", "....", "....", "....", "---a", "....", "....", "....", "....", "...."}},
    {"Version", {"aaaa", "....", "....", "....", "....", "....", "....", "....", "....", "...."}},
};

Cells decided() {
  static const std::map<char, Reach> kSigns{{'.', Reach::Senseless}, {'-', Reach::Nothing}, {'o', Reach::Own}, {'a', Reach::All}};
  Cells cells;
  for (const Line& line : kDecided) {
    for (std::size_t verb = 0; verb < line.verbs.size(); ++verb) {
      for (std::size_t role = 0; role < line.verbs[verb].size(); ++role) {
        cells[{line.kind, std::string(verbName(kAllVerbs.at(verb))), std::string(roleName(kAllRoles.at(role)))}] = kSigns.at(line.verbs[verb][role]);
      }
    }
  }
  return cells;
}

// The rows "| KIND | VERB VERB | observe | infer | tenant-admin | platform-admin |" of docs/security.md.
Cells documented() {
  static const std::map<std::string, Reach> kWords{{"-", Reach::Nothing}, {"own", Reach::Own}, {"all", Reach::All}};
  std::ifstream file(COTERIE_SOURCE_DIR "/docs/security.md");
  Cells cells;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> columns;
    std::istringstream in(line);
    for (std::string column; std::getline(in, column, '|');) {
      const std::size_t begin = column.find_first_not_of(' ');
      columns.push_back(begin == std::string::npos ? "" : column.substr(begin, column.find_last_not_of(' ') - begin + 1));
    }
    if (columns.size() != 7 || !kindNamed(columns[1])) continue;
    std::istringstream verbs(columns[2]);
    for (std::string verb; verbs >> verb;) {
      for (std::size_t role = 0; role < kAllRoles.size(); ++role) {
        const auto word = kWords.find(columns[3 + role]);
        EXPECT_NE(word, kWords.end()) << line;
        if (word == kWords.end()) continue;
        const bool first = cells.emplace(Cell{columns[1], verb, std::string(roleName(kAllRoles.at(role)))}, word->second).second;
        EXPECT_TRUE(first) << "twice in the table: " << line;
      }
    }
  }
  return cells;
}

TEST(Authorization, EveryCellIsAsDecided) {
  const Cells cells = decided();
  ASSERT_EQ(cells.size(), kAllKinds.size() * kAllVerbs.size() * kAllRoles.size()) << "a combination is missing: decide it in kDecided";
  for (const Kind kind : kAllKinds) {
    for (const Verb verb : kAllVerbs) {
      for (const Role role : kAllRoles) {
        const Cell cell{kindName(kind), verbName(verb), roleName(role)};
        const std::string title = std::get<2>(cell) + " " + std::get<1>(cell) + " " + std::get<0>(cell);
        ASSERT_TRUE(cells.contains(cell)) << title << ": not decided";
        const Reach wanted = cells.at(cell);
        EXPECT_EQ(reach(role, verb, kind), wanted) << title;
        const Answer own = decide(role, verb, kind, Whose::Own);
        const Answer foreign = decide(role, verb, kind, Whose::Foreign);
        EXPECT_EQ(own == Answer::Allowed, wanted == Reach::Own || wanted == Reach::All) << title;
        EXPECT_NE(own, Answer::Hidden) << title;
        EXPECT_EQ(foreign, wanted == Reach::All ? Answer::Allowed : wanted == Reach::Own ? Answer::Hidden : Answer::Forbidden) << title;
      }
    }
  }
}

TEST(Authorization, TheDocumentedTableIsTheOneInForce) {
  const Cells shown = documented();
  for (const Kind kind : kAllKinds) {
    for (const Verb verb : kAllVerbs) {
      for (const Role role : kAllRoles) {
        const auto found = shown.find({std::string(kindName(kind)), std::string(verbName(verb)), std::string(roleName(role))});
        EXPECT_EQ(found == shown.end() ? Reach::Senseless : found->second, reach(role, verb, kind))
            << "docs/security.md: " << kindName(kind) << " " << verbName(verb) << " " << roleName(role);
      }
    }
  }
  EXPECT_FALSE(shown.empty());
}

TEST(Authorization, NobodyMakesKeysAboveTheirOwnRole) {
  std::set<std::string> may;
  for (const Role by : kAllRoles) {
    for (const Role granted : kAllRoles) {
      if (mayGrant(by, granted)) may.insert(std::string(roleName(by)) + " " + std::string(roleName(granted)));
    }
  }
  EXPECT_EQ(may, (std::set<std::string>{"tenant-admin observe", "tenant-admin infer", "tenant-admin tenant-admin", "platform-admin observe",
                                        "platform-admin infer", "platform-admin tenant-admin"}));
}

TEST(Authorization, ARefusalNamesTheRoleAndTheFix) {
  const Error refused = refusal(Role::Observe, Verb::Infer, Kind::Model);
  EXPECT_EQ(refused.code, Code::PermissionDenied);
  EXPECT_EQ(refused.reason, "RoleForbids");
  EXPECT_EQ(refused.message,
            "role observe may not infer Model: needed is role infer or tenant-admin; `coterie key create TENANT --role infer` makes such a key");
  EXPECT_EQ(refusal(Role::TenantAdmin, Verb::Delete, Kind::Tenant).message, "role tenant-admin may not delete Tenant: needed is role platform-admin");
  EXPECT_EQ(refusal(Role::PlatformAdmin, Verb::Infer, Kind::Log).message, "infer Log: there is no such right; docs/security.md lists them");
}

TEST(Authorization, NamesAreReadAsTheyArePrinted) {
  for (const Verb verb : kAllVerbs) EXPECT_EQ(verbNamed(verbName(verb)), verb);
  for (const Kind kind : kAllKinds) EXPECT_EQ(kindNamed(kindName(kind)), kind);
  for (const Role role : kAllRoles) EXPECT_EQ(roleNamed(roleName(role)), role);
  EXPECT_EQ(kindNamed("modelservices"), Kind::ModelService);
  EXPECT_EQ(kindNamed("statistics"), Kind::Statistics);
  EXPECT_EQ(kindNamed("limits"), Kind::Limit);
  EXPECT_EQ(kindNamed("keyss"), std::nullopt);
  EXPECT_EQ(kindNamed(""), std::nullopt);
  EXPECT_EQ(verbNamed("GET"), std::nullopt);
  EXPECT_EQ(roleNamed("admin"), std::nullopt);
}

}  // namespace
}  // namespace coterie::tenancy
