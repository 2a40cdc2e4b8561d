// The contract of ObjectStore and EventLog as tests: each adapter instantiates them with a factory.
//
//   INSTANTIATE_TEST_SUITE_P(Memory, ObjectStoreContract, ::testing::Values(StoreUnderTest{"memory", makeMemory}), storeName);
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ports/event_log.h"
#include "ports/object_store.h"
#include "testing/manual_loop.h"

namespace coterie::contract {

struct StoreUnderTest {
  std::string name;
  std::function<std::unique_ptr<ObjectStore>(EventLoop&)> makeStore;
  std::function<std::unique_ptr<EventLog>(EventLoop&)> makeLog;
  friend void PrintTo(const StoreUnderTest& store, std::ostream* out) { *out << store.name; }
};
inline std::string storeName(const ::testing::TestParamInfo<StoreUnderTest>& info) { return info.param.name; }

inline StoredObject object(const std::string& nameSpace, const std::string& name, int spec = 1) {
  StoredObject made;
  made.key = {"ModelService", nameSpace, name};
  made.labels = Value::emptyMap();
  made.spec.set("n", spec);
  return made;
}

class ObjectStoreContract : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  testing::ManualLoop loop;
  std::unique_ptr<ObjectStore> store{GetParam().makeStore(loop)};

  struct Seen {
    std::vector<std::string> lines;
    std::unique_ptr<Watch> watch;
  };
  std::unique_ptr<Seen> follow(std::uint64_t after) {
    auto seen = std::make_unique<Seen>();
    Result<std::unique_ptr<Watch>> watch = store->watch("ModelService", after, [lines = &seen->lines](const Change& change) {
      const char* type = change.type == ChangeType::Added ? "+" : change.type == ChangeType::Modified ? "~" : "-";
      lines->push_back(type + change.object.key.name + "@" + std::to_string(change.object.resourceVersion));
    });
    EXPECT_TRUE(watch.ok());
    if (watch.ok()) seen->watch = std::move(*watch);
    return seen;
  }
};

TEST_P(ObjectStoreContract, CreateGivesVersionGenerationUidAndTime) {
  const Result<StoredObject> a = store->create(object("n", "a"));
  const Result<StoredObject> b = store->create(object("n", "b"));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->generation, 1);
  EXPECT_LT(a->resourceVersion, b->resourceVersion);
  EXPECT_NE(a->uid, b->uid);
  EXPECT_FALSE(a->uid.empty());
  EXPECT_EQ(a->creationTimeMicros, loop.clock().wall().micros);
  EXPECT_EQ(store->get(a->key)->spec, a->spec);
}

TEST_P(ObjectStoreContract, CreateTwiceIsAConflict) {
  ASSERT_TRUE(store->create(object("n", "a")).ok());
  const Result<StoredObject> again = store->create(object("n", "a"));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::Conflict);
  EXPECT_EQ(again.error().reason, "AlreadyExists");
  EXPECT_TRUE(store->create(object("m", "a")).ok()) << "another namespace is another object";
}

TEST_P(ObjectStoreContract, WhatIsNotThereIsNotFound) {
  const ObjectKey key{"ModelService", "n", "a"};
  EXPECT_EQ(store->get(key).error().code, Code::NotFound);
  EXPECT_EQ(store->update(object("n", "a")).error().code, Code::NotFound);
  EXPECT_EQ(store->updateStatus(object("n", "a")).error().code, Code::NotFound);
  EXPECT_EQ(store->remove(key, 0).error().code, Code::NotFound);
}

TEST_P(ObjectStoreContract, UpdateKeepsTheStatusAndCountsGenerations) {
  StoredObject a = *store->create(object("n", "a"));
  a.status.set("ready", true);
  a = *store->updateStatus(a);
  EXPECT_EQ(a.generation, 1) << "a status is no change of the spec";
  StoredObject changed = a;
  changed.spec.set("n", 2);
  changed.status.set("ready", false);
  changed.generation = 99;
  changed.uid = "forged";
  const StoredObject after = *store->update(changed);
  EXPECT_EQ(after.generation, 2);
  EXPECT_EQ(after.uid, a.uid);
  EXPECT_EQ(*after.status.find("ready"), Value(true));
  EXPECT_GT(after.resourceVersion, a.resourceVersion);
  StoredObject labelled = after;
  labelled.labels.set("x", "y");
  EXPECT_EQ(store->update(labelled)->generation, 2) << "a label is no change of the spec";
}

TEST_P(ObjectStoreContract, UpdateStatusKeepsTheSpec) {
  StoredObject a = *store->create(object("n", "a"));
  a.spec.set("n", 7);
  a.status.set("ready", true);
  EXPECT_EQ(*store->updateStatus(a)->spec.find("n"), Value(1));
}

TEST_P(ObjectStoreContract, AStaleVersionIsAConflictAndChangesNothing) {
  const StoredObject a = *store->create(object("n", "a"));
  StoredObject first = a;
  first.spec.set("n", 2);
  ASSERT_TRUE(store->update(first).ok());
  StoredObject second = a;
  second.spec.set("n", 3);
  const Result<StoredObject> lost = store->update(second);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().reason, "ResourceVersionConflict");
  second.resourceVersion = 0;
  EXPECT_EQ(store->update(second).error().reason, "ResourceVersionConflict") << "no unconditional update of a spec";
  EXPECT_EQ(store->updateStatus(a).error().reason, "ResourceVersionConflict");
  EXPECT_EQ(store->remove(a.key, a.resourceVersion).error().reason, "ResourceVersionConflict");
  EXPECT_EQ(*store->get(a.key)->spec.find("n"), Value(2));
  StoredObject unconditional = a;
  unconditional.resourceVersion = 0;
  unconditional.status.set("x", 1);
  EXPECT_TRUE(store->updateStatus(unconditional).ok());
  EXPECT_TRUE(store->remove(a.key, 0).ok());
}

TEST_P(ObjectStoreContract, AWriteThatChangesNothingGivesNoVersion) {
  const StoredObject a = *store->create(object("n", "a"));
  EXPECT_EQ(store->update(a)->resourceVersion, a.resourceVersion);
  EXPECT_EQ(store->updateStatus(a)->resourceVersion, a.resourceVersion);
  EXPECT_EQ(store->list("ModelService", std::nullopt)->resourceVersion, a.resourceVersion);
}

TEST_P(ObjectStoreContract, ListsByKindAndNamespaceInOrder) {
  for (const char* name : {"b", "a"}) {
    ASSERT_TRUE(store->create(object("n", name)).ok());
    ASSERT_TRUE(store->create(object("m", name)).ok());
  }
  StoredObject tenant;
  tenant.key = {"Tenant", "", "t"};
  ASSERT_TRUE(store->create(tenant).ok());
  const auto names = [&](const std::string& kind, const std::optional<std::string>& nameSpace) {
    std::string all;
    const ObjectList list = *store->list(kind, nameSpace);
    for (const StoredObject& o : list.objects) all += o.key.nameSpace + "/" + o.key.name + " ";
    return all;
  };
  EXPECT_EQ(names("ModelService", std::nullopt), "m/a m/b n/a n/b ");
  EXPECT_EQ(names("ModelService", "n"), "n/a n/b ");
  EXPECT_EQ(names("Tenant", std::nullopt), "/t ");
  EXPECT_EQ(names("Nothing", std::nullopt), "");
}

TEST_P(ObjectStoreContract, DeletionTimeIsSetOnceByAnUpdate) {
  StoredObject a = *store->create(object("n", "a"));
  a.deletionTimeMicros = 5;
  a = *store->update(a);
  EXPECT_EQ(a.deletionTimeMicros, 5);
  a.deletionTimeMicros.reset();
  a.spec.set("n", 2);
  EXPECT_EQ(store->update(a)->deletionTimeMicros, 5);
}

TEST_P(ObjectStoreContract, WatchDeliversEveryChangeInOrderAndNeverFromInsideAWrite) {
  const std::uint64_t from = store->list("ModelService", std::nullopt)->resourceVersion;
  const auto seen = follow(from);
  StoredObject a = *store->create(object("n", "a"));
  StoredObject tenant;
  tenant.key = {"Tenant", "", "t"};
  ASSERT_TRUE(store->create(tenant).ok());
  a.spec.set("n", 2);
  a = *store->update(a);
  ASSERT_TRUE(store->remove(a.key, 0).ok());
  EXPECT_TRUE(seen->lines.empty());
  loop.runUntilIdle();
  const auto at = [&](std::uint64_t n) { return std::to_string(from + n); };
  EXPECT_EQ(seen->lines, (std::vector<std::string>{"+a@" + at(1), "~a@" + at(3), "-a@" + at(4)}));
  const auto later = follow(from + 1);
  loop.runUntilIdle();
  EXPECT_EQ(later->lines, (std::vector<std::string>{"~a@" + at(3), "-a@" + at(4)})) << "a watch from the past replays";
}

TEST_P(ObjectStoreContract, AWatchEndsWithItsHandle) {
  auto seen = follow(store->list("ModelService", std::nullopt)->resourceVersion);
  ASSERT_TRUE(store->create(object("n", "a")).ok());
  seen->watch.reset();
  loop.runUntilIdle();
  EXPECT_TRUE(seen->lines.empty());
}

TEST_P(ObjectStoreContract, ACallbackMayWriteAndEndItsOwnWatch) {
  std::unique_ptr<Watch> watch;
  int calls = 0;
  watch = std::move(*store->watch("ModelService", store->list("ModelService", std::nullopt)->resourceVersion, [&](const Change& change) {
    if (++calls == 1) {
      EXPECT_TRUE(store->create(object("n", change.object.key.name + "x")).ok());
    } else {
      watch.reset();
    }
  }));
  ASSERT_TRUE(store->create(object("n", "a")).ok());
  ASSERT_TRUE(store->create(object("n", "b")).ok());
  loop.runUntilIdle();
  EXPECT_EQ(calls, 2);
}

TEST_P(ObjectStoreContract, AWatchFromTooLongAgoIsToldToListAgain) {
  const std::uint64_t from = store->list("ModelService", std::nullopt)->resourceVersion;
  StoredObject a = *store->create(object("n", "a"));
  for (int i = 0; i < 1500; ++i) {
    a.status.set("i", i);
    a = *store->updateStatus(a);
  }
  EXPECT_EQ(store->watch("ModelService", from, [](const Change&) {}).error().reason, "ResourceVersionTooOld");
  EXPECT_EQ(store->watch("ModelService", a.resourceVersion + 1, [](const Change&) {}).error().reason, "ResourceVersionTooOld");
  EXPECT_TRUE(store->watch("ModelService", a.resourceVersion - 1000, [](const Change&) {}).ok());
}

TEST_P(ObjectStoreContract, StoryOfASlowWatcherThatLostChanges) {
  const auto seen = follow(store->list("ModelService", std::nullopt)->resourceVersion);
  StoredObject a = *store->create(object("n", "a"));
  for (int i = 0; i < 3000; ++i) {
    a.status.set("i", i);
    a = *store->updateStatus(a);
  }
  loop.runUntilIdle();
  EXPECT_EQ(seen->lines.size(), 3001u);
}

TEST_P(ObjectStoreContract, AStoreMayGoBeforeItsWatches) {
  auto seen = follow(store->list("ModelService", std::nullopt)->resourceVersion);
  ASSERT_TRUE(store->create(object("n", "a")).ok());
  store.reset();
  loop.runUntilIdle();
  EXPECT_TRUE(seen->lines.empty());
}

class EventLogContract : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  Event event(const std::string& name, const std::string& reason, int n = 0) {
    Event made;
    made.object = {"ModelService", "n", name};
    made.reason = reason;
    made.message = "because";
    made.fields.set("n", n);
    return made;
  }
  testing::ManualLoop loop;
  std::unique_ptr<EventLog> log{GetParam().makeLog(loop)};
};

TEST_P(EventLogContract, LastAndSinceInOrder) {
  ASSERT_TRUE(log->append(event("a", "Started")).ok());
  loop.advance(Seconds(1));
  ASSERT_TRUE(log->append(event("b", "Started")).ok());
  ASSERT_TRUE(log->append(event("a", "Stopped")).ok());
  const std::vector<Event> all = log->since(0, 100);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_LT(all[0].sequence, all[1].sequence);
  EXPECT_LT(all[0].lastMicros, all[1].lastMicros);
  const std::vector<Event> last = log->last({"ModelService", "n", "a"}, 1);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].reason, "Stopped");
  EXPECT_EQ(log->since(all[1].sequence, 100).size(), 1u);
  EXPECT_TRUE(log->last({"ModelService", "n", "c"}, 9).empty());
}

TEST_P(EventLogContract, ARepetitionIsCounted) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(log->append(event("a", "Pending", 7)).ok());
    loop.advance(Seconds(1));
  }
  ASSERT_TRUE(log->append(event("a", "Pending", 8)).ok());
  const std::vector<Event> all = log->last({"ModelService", "n", "a"}, 9);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].count, 3);
  EXPECT_EQ(all[0].lastMicros - all[0].firstMicros, 2000000);
}

TEST_P(EventLogContract, KeepsABoundedNumberOfEachAndOfAll) {
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(log->append(event("a", "R", i)).ok());
  const std::vector<Event> ofA = log->last({"ModelService", "n", "a"}, 1000);
  ASSERT_EQ(ofA.size(), kEventsPerObject);
  EXPECT_EQ(*ofA.front().fields.find("n"), Value(10));
  for (int i = 0; i < 300; ++i) {
    for (int j = 0; j < 40; ++j) ASSERT_TRUE(log->append(event("s" + std::to_string(i), "R", j)).ok());
  }
  EXPECT_EQ(log->since(0, 1000000).size(), kEventsInAll);
  EXPECT_TRUE(log->last({"ModelService", "n", "a"}, 1000).empty());
}

}  // namespace coterie::contract
