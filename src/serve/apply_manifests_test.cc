// What a server does with the manifests that it is started with, and what its audit log says of it.
#include "serve/apply_manifests.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "audit/chain.h"
#include "memory/memory_object_store.h"
#include "model/objects.h"
#include "testing/fake_log_folder.h"
#include "testing/manual_loop.h"
#include "text/text.h"

namespace coterie::serve {
namespace {

class ApplyManifests : public ::testing::Test {
 protected:
  Status apply(const std::string& yaml) {
    const auto documents = text::parseYaml(yaml);
    EXPECT_TRUE(documents.faults.empty());
    auto decoded = objects::decodeDocuments(documents.values, {});
    EXPECT_TRUE(decoded.faults.empty());
    return applyObjects(decoded.objects, store_, {[](const ServiceName&) { return Bytes(1); }, [](Isolation) { return 1; }}, trail_);
  }
  // "verb object result" of each line but those that begin files.
  std::vector<std::string> told() {
    std::vector<std::string> out;
    audit::ChainCheck check;
    for (const std::string& name : folder_.names()) {
      check.takeFile(name, folder_.bytes(name), [&](const audit::Line& line) {
        EXPECT_EQ(line.entry.actor.kind, audit::Actor::Kind::Server);
        if (!line.entry.begins) out.push_back(line.entry.verb + " " + line.entry.object + " " + std::string(audit::outcomeName(line.entry.outcome)));
      });
    }
    return out;
  }

  testing::ManualLoop loop_;
  memory::MemoryObjectStore store_{loop_};
  testing::FakeLogFolder folder_;
  audit::Trail trail_{folder_, loop_.clock()};
};
using Told = std::vector<std::string>;

const std::string kTenant = "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: audio}\nspec: {namespaces: [audio]";

TEST_F(ApplyManifests, WhatChangesIsToldAndWhatIsThereAlreadyIsNot) {
  ASSERT_TRUE(apply(kTenant + "}\n").ok());
  EXPECT_EQ(told(), (Told{"create audio begun", "create audio done"}));
  ASSERT_TRUE(apply(kTenant + "}\n").ok());
  EXPECT_EQ(told().size(), 2U);
  ASSERT_TRUE(apply(kTenant + ", weight: 7}\n").ok());
  EXPECT_EQ(told().back(), "update audio done");
  EXPECT_FALSE(
      apply("apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {namespace: none, name: a}\nspec: {model: {uri: \"file:a.onnx\"}}\n")
          .ok());
  EXPECT_EQ(told().size(), 4U) << "what is not admitted is no change";
}

TEST_F(ApplyManifests, WhileItCannotBeToldNothingIsChanged) {
  ASSERT_TRUE(apply(kTenant + "}\n").ok());
  folder_.room = 0;
  EXPECT_TRUE(apply(kTenant + "}\n").ok()) << "a server on a full disk starts with what it has";
  const Status refused = apply(kTenant + ", weight: 7}\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "AuditUnavailable");
  EXPECT_EQ(store_.get({std::string(kTenantKind), "", "audio"})->spec.find("weight"), nullptr);
}

}  // namespace
}  // namespace coterie::serve
