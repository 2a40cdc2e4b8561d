// A controller with everything around it made of fakes that a test steps by hand. For tests only.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/instance_reconciler.h"
#include "controller/tenant_reconciler.h"
#include "memory/event_table.h"
#include "memory/memory_object_store.h"
#include "model/owned_floor.h"
#include "objects/encode.h"
#include "testing/machine_generator.h"
#include "testing/manual_loop.h"

namespace coterie::controller {

struct FakePrepared final : PreparedModel {
  explicit FakePrepared(Bytes bytes) : bytes_(bytes) {}
  [[nodiscard]] Bytes size() const override { return bytes_; }

 private:
  Bytes bytes_;
};

// Workers that load and end when the test says so.
class FakeRuntime final : public ContainerRuntime {
 public:
  void setListener(Listener* listener) override { listener_ = listener; }
  Status start(const InstanceSpec& spec) override {
    if (refuse) return Error{Code::Unavailable, "NoProcess", "no more processes"};
    running[spec.id] = spec;
    starts.push_back(spec);
    return {};
  }
  void stop(InstanceId id, Millis) override { stops.push_back(id); }
  [[nodiscard]] Bytes residentMemory(InstanceId) const override { return Bytes(0); }

  void ready(InstanceId id, Bytes steady = Bytes(50 << 20), Bytes peak = Bytes(60 << 20)) {
    InstanceReady made;
    made.pid = 1000 + id.value;
    made.steadyMemory = steady;
    made.peakMemory = peak;
    made.missingSandbox = missingSandbox;
    made.signature = signature;
    const InstanceSpec& spec = running.at(id);
    made.width = spec.width;
    const auto timed = [&](int width) {
      if (const auto found = runTimes.find(width); found != runTimes.end()) made.speeds.push_back({width, found->second, found->second, {}});
    };
    timed(spec.width);
    for (const int width : spec.measureWidths) timed(width);
    if (spec.prepare && form.value > 0) made.prepared = std::make_shared<FakePrepared>(form);
    listener_->instanceReady(id, made);
  }
  void end(InstanceId id, EndReason reason = EndReason::Stopped, const std::string& message = "") {
    running.erase(id);
    listener_->instanceEnded(id, {reason, message});
  }
  Listener* listener() { return listener_; }

  std::map<InstanceId, InstanceSpec> running;
  std::vector<InstanceSpec> starts;
  std::vector<InstanceId> stops;
  std::vector<std::string> missingSandbox;
  ModelSignature signature;       // of every model
  std::map<int, Nanos> runTimes;  // of every model, by width
  Bytes form;                     // of what is prepared; 0: runs over it would not be worth it
  bool refuse{false};

 private:
  Listener* listener_{nullptr};
};

class FakeFiles final : public ModelFiles {
 public:
  explicit FakeFiles(EventLoop& loop) : loop_(loop) {}
  std::unique_ptr<ModelInspection> inspect(ModelQuestion question, std::function<void(Result<ModelFile>)> callback) override {
    ++asked;
    auto handle = std::make_unique<Handle>(open);
    auto given = [=, this, wanted = std::weak_ptr(handle->wanted)] {
      if (!wanted.expired()) callback(answer(question));
    };
    if (held) {
      waiting.push_back(given);
    } else {
      loop_.post(given);
    }
    return handle;
  }
  void release() {
    held = false;
    for (const auto& answerOne : std::exchange(waiting, {})) loop_.post(answerOne);
  }
  void put(const std::string& path, const std::string& sha256, Bytes size = Bytes(1 << 20), std::uint64_t externalMark = 0) {
    files["/models/" + path] = {"/models/" + path, sha256, size, Bytes(0), externalMark};
  }

  std::map<std::string, ModelFile> files;
  std::set<std::string> known;  // checksums that need no reading
  std::vector<std::function<void()>> waiting;
  bool held{false};
  int asked{0};
  int open{0};  // questions that somebody holds
  int read{0};  // answered with a checksum

 private:
  struct Handle final : ModelInspection {
    explicit Handle(int& count) : open(count) { ++open; }
    ~Handle() override { --open; }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    int& open;
    std::shared_ptr<int> wanted{std::make_shared<int>(0)};
  };
  Result<ModelFile> answer(const ModelQuestion& question) {
    const auto found = files.find(question.root + "/" + question.relativePath);
    if (found == files.end()) return Error{Code::NotFound, "ModelNotFound", question.relativePath + " does not exist below the tenant's model root"};
    ModelFile file = found->second;
    if (file.size > question.largest && !known.contains(file.sha256)) {
      file.sha256.clear();
    } else {
      ++read;
      known.insert(file.sha256);
    }
    return file;
  }
  EventLoop& loop_;
};

class FakeGateway final : public GatewayPort {
 public:
  void setTenant(const TenantName& tenant, const TenantSpec& spec) override { tenants[tenant.value] = spec; }
  void removeTenant(const TenantName& tenant) override { tenants.erase(tenant.value); }
  void setService(const GatewayService& service) override { services[service.service.serviceName()] = service; }
  void removeService(const ServiceName& service) override { removed += services.erase(service) == 1 ? 1 : 100; }
  void addInstance(const ServiceName& service, const std::string& version, InstanceId instance, const InstanceReady&) override {
    if (!services.contains(service)) ++errors;
    serving[instance] = version;
  }
  void drainInstance(InstanceId instance, std::function<void()> drained) override {
    if (serving.erase(instance) != 1) ++errors;
    draining[instance] = std::move(drained);
  }
  void suspendInstance(InstanceId instance) override {
    if (!serving.contains(instance) || !suspended.insert(instance).second) ++errors;
  }
  void resumeInstance(InstanceId instance) override {
    if (suspended.erase(instance) != 1) ++errors;
  }
  void instanceGone(InstanceId instance) override {
    suspended.erase(instance);
    serving.erase(instance);
    draining.erase(instance);
  }
  void drained(InstanceId instance) { draining.at(instance)(); }

  std::map<std::string, TenantSpec> tenants;
  std::map<ServiceName, GatewayService> services;
  std::map<InstanceId, std::string> serving;
  std::set<InstanceId> suspended;
  std::map<InstanceId, std::function<void()>> draining;
  int removed{0};
  int errors{0};  // calls out of order
};

class FakeAllocation final : public AllocationPort {
 public:
  explicit FakeAllocation(MilliCpu total) : capacity(total) {}
  [[nodiscard]] MilliCpu missingForFloor(const ServiceGroup& group) const override {
    MilliCpu sum = owned(group);
    for (const auto& [id, other] : groups) {
      if (id != group.id) sum += owned(other);
    }
    return std::max(MilliCpu(0), sum - capacity);
  }
  // Cores of two threads, in one node.
  [[nodiscard]] allocation::IsolationTerms isolationTerms(Isolation level) const override {
    const int all = static_cast<int>(capacity.value / 1000);
    return level == Isolation::Core ? allocation::IsolationTerms{2, all / 2, "cores", {"memory bandwidth stays shared"}}
                                    : allocation::IsolationTerms{all, 1, "NUMA nodes", {"nothing"}};
  }
  [[nodiscard]] std::optional<allocation::UnitShortage> unitShortage(const ServiceGroup& group) const override {
    const Machine machine = testing::regularMachine("cores", {1, 1, 0, static_cast<int>(capacity.value / 2000), 2});
    allocation::Snapshot snapshot;
    snapshot.machine = &machine;
    const auto stateOf = [](const ServiceGroup& one) {
      allocation::GroupState state;
      state.id = one.id;
      state.floor = one.floor;
      state.isolation = one.isolation;
      state.containers.resize(1);
      return state;
    };
    for (const auto& [id, other] : groups) {
      if (id != group.id) snapshot.groups.push_back(stateOf(other));
    }
    return allocation::unitShortage(snapshot, stateOf(group));
  }
  void setGroup(const ServiceGroup& group) override {
    groups[group.id] = group;
    ++sets;
  }
  void removeGroup(GroupId group) override {
    if (groups.erase(group) != 1) ++errors;
  }
  void instanceStarting(GroupId group, InstanceId instance, Bytes memory) override {
    expected[instance] = memory;
    if (!groups.contains(group) || !instances.insert(instance).second) ++errors;
  }
  void instanceReady(GroupId, InstanceId instance, const InstanceReady&) override {
    if (!instances.contains(instance)) ++errors;
  }
  void instanceEnded(GroupId group, InstanceId instance) override {
    if (!groups.contains(group) || instances.erase(instance) != 1) ++errors;
  }

  [[nodiscard]] std::optional<GroupLoad> loadOf(GroupId group) const override { return groups.contains(group) ? load : std::nullopt; }

  [[nodiscard]] MilliCpu owned(const ServiceGroup& group) const {
    return ownedFloor(group.floor, group.isolation == Isolation::None ? 0 : isolationTerms(group.isolation).unitCpus);
  }

  MilliCpu capacity;
  std::map<GroupId, ServiceGroup> groups;
  std::set<InstanceId> instances;
  std::map<InstanceId, Bytes> expected;  // of memory, as they were told
  std::optional<GroupLoad> load;         // of every group
  int sets{0};
  int errors{0};
};

// A store whose disk may be full: then it reads and writes nothing.
class FillingStore final : public ObjectStore {
 public:
  explicit FillingStore(EventLoop& loop) : store_(loop) {}
  [[nodiscard]] Result<StoredObject> get(const ObjectKey& key) const override { return store_.get(key); }
  [[nodiscard]] Result<ObjectList> list(const std::string& kind, const std::optional<std::string>& nameSpace) const override {
    return store_.list(kind, nameSpace);
  }
  [[nodiscard]] Result<StoredObject> create(StoredObject object) override { return full ? refused() : store_.create(std::move(object)); }
  [[nodiscard]] Result<StoredObject> update(StoredObject object) override { return full ? refused() : store_.update(std::move(object)); }
  [[nodiscard]] Result<StoredObject> updateStatus(StoredObject object) override { return full ? refused() : store_.updateStatus(std::move(object)); }
  [[nodiscard]] Status remove(const ObjectKey& key, std::uint64_t resourceVersion) override {
    return full ? Status(refused()) : store_.remove(key, resourceVersion);
  }
  [[nodiscard]] Result<std::unique_ptr<Watch>> watch(const std::string& kind, std::uint64_t afterVersion,
                                                     std::function<void(const Change&)> callback) override {
    return store_.watch(kind, afterVersion, std::move(callback));
  }

  bool full{false};
  int refusals{0};

 private:
  Error refused() {
    ++refusals;
    return {Code::Unavailable, "StoreFull", "no room"};
  }
  memory::MemoryObjectStore store_;
};

struct ControllerFixture {
  explicit ControllerFixture(Bytes memory = Bytes(4LL << 30), MilliCpu cpus = MilliCpu(4000)) : allocation(cpus) {
    config.modelRoot = [](const TenantName&) { return std::string("/models"); };
    config.machineMemory = memory;
    config.systemMemory = Bytes(256LL << 20);
    config.machineCpus = 2;
    make();
  }
  void make() {
    tenants = std::make_unique<TenantReconciler>(loop, store, events, gateway);
    services = std::make_unique<InstanceReconciler>(InstanceReconciler::Ports{loop, store, events, runtime, files, gateway, allocation}, config,
                                                    [this]() -> const TenantDirectory& { return tenants->directory(); });
    tenants->onChange([this] { services->tenantsChanged(); });
    tenants->askExcess([this](const TenantName& tenant) { return services->excessOf(tenant); });
    services->onExcess([this] { tenants->excessChanged(); });
  }
  void start() {
    (void)tenants->start();
    (void)services->start();
    loop.runUntilIdle();
  }

  // Objects.
  void putTenant(const std::string& name, const std::vector<std::string>& namespaces, const TenantQuota& quota = {}) {
    TenantSpec spec;
    spec.namespaces = namespaces;
    spec.quota = quota;
    put({std::string(kTenantKind), "", name}, objects::encodeSpec(spec));
  }
  void putService(const std::string& name, const std::function<void(ModelServiceSpec&)>& edit = {}) {
    ModelServiceSpec spec;
    spec.modelUri = "file:" + name + ".onnx";
    if (edit) edit(spec);
    const auto slash = name.find('/');
    const std::string nameSpace = slash == std::string::npos ? "n" : name.substr(0, slash);
    if (slash != std::string::npos) spec.modelUri = "file:" + name.substr(slash + 1) + ".onnx";
    put({std::string(kModelServiceKind), nameSpace, slash == std::string::npos ? name : name.substr(slash + 1)}, objects::encodeSpec(spec));
  }
  void remove(const std::string& name) {
    (void)store.remove({std::string(kModelServiceKind), "n", name}, 0);
    loop.runUntilIdle();
  }
  void put(const ObjectKey& key, const Value& spec) {
    Result<StoredObject> present = store.get(key);
    if (present.ok()) {
      present->spec = spec;
      (void)store.update(*present);
    } else {
      StoredObject fresh;
      fresh.key = key;
      fresh.spec = spec;
      (void)store.create(fresh);
    }
    loop.advance(Millis(1));
  }

  // The program ends without a word and another one begins on the same store.
  void restart() {
    services.reset();
    tenants.reset();
    runtime.running.clear();
    gateway = {};
    allocation.groups.clear();
    allocation.instances.clear();
    make();
    start();
  }

  // What is seen.
  [[nodiscard]] std::string condition(const std::string& name, const std::string& type, const std::string& kind = std::string(kModelServiceKind)) {
    const Result<StoredObject> object = store.get({kind, kind == kTenantKind ? "" : "n", name});
    if (!object.ok()) return "gone";
    const std::vector<Condition> conditions = objects::decodeConditions(object->status.find("conditions"));
    const Condition* found = objects::findCondition(conditions, type);
    return found == nullptr ? "none" : std::string(objects::conditionStatusName(found->status)) + "/" + found->reason;
  }
  [[nodiscard]] std::string message(const std::string& name, const std::string& type, const std::string& kind = std::string(kModelServiceKind)) {
    const Result<StoredObject> object = store.get({kind, kind == kTenantKind ? "" : "n", name});
    const std::vector<Condition> conditions = objects::decodeConditions(object->status.find("conditions"));
    const Condition* found = objects::findCondition(conditions, type);
    return found == nullptr ? "" : found->message;
  }
  [[nodiscard]] bool happened(const std::string& name, const std::string& reason, const std::string& kind = std::string(kModelServiceKind)) {
    const std::vector<Event> all = events.last({kind, kind == kTenantKind ? "" : "n", name}, 100);
    return std::any_of(all.begin(), all.end(), [&](const Event& event) { return event.reason == reason; });
  }
  [[nodiscard]] std::int64_t status(const std::string& name, const std::string& field) {
    const Result<StoredObject> object = store.get({std::string(kModelServiceKind), "n", name});
    const Value* value = object.ok() ? object->status.find(field) : nullptr;
    return value != nullptr && value->asInt() != nullptr ? *value->asInt() : -1;
  }
  [[nodiscard]] std::vector<InstanceId> instancesOf(const std::string& name) {
    std::vector<InstanceId> ids;
    for (const auto& [id, spec] : runtime.running) {
      if (spec.service.name == name) ids.push_back(id);
    }
    return ids;
  }
  // All that were started load, all that were drained or stopped end; until nothing moves.
  void settle() {
    for (bool moved = true; moved;) {
      loop.runUntilIdle();
      moved = false;
      for (const ServiceSummary& summary : services->summaries()) {
        for (const InstanceSummary& instance : summary.instances) {
          if (instance.state == InstanceState::Starting && runtime.running.contains(instance.id)) {
            runtime.ready(instance.id);
            moved = true;
          }
        }
      }
      for (const auto& [id, done] : std::map(gateway.draining)) {
        if (std::find(runtime.stops.begin(), runtime.stops.end(), id) == runtime.stops.end()) done(), moved = true;
      }
      for (const InstanceId id : std::exchange(runtime.stops, {})) {
        if (runtime.running.contains(id)) runtime.end(id), moved = true;
      }
    }
    loop.runUntilIdle();
  }

  testing::ManualLoop loop;
  FillingStore store{loop};
  memory::MemoryEventLog events{loop.clock()};
  FakeRuntime runtime;
  FakeFiles files{loop};
  FakeGateway gateway;
  FakeAllocation allocation;
  InstanceReconcilerConfig config;
  std::unique_ptr<TenantReconciler> tenants;
  std::unique_ptr<InstanceReconciler> services;
};

// The beginning and the end of most stories: two models, a tenant `team` that owns namespace n; and no call to a port was out of order.
class ControllerStory : public ::testing::Test, public ControllerFixture {
 protected:
  void SetUp() override {
    files.put("a.onnx", "sum-a");
    files.put("b.onnx", "sum-b");
    putTenant("team", {"n"});
    start();
  }
  void TearDown() override {
    EXPECT_EQ(gateway.errors, 0);
    EXPECT_EQ(allocation.errors, 0);
    EXPECT_LT(gateway.removed, 100);
  }
};

}  // namespace coterie::controller
