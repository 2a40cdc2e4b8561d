// Whole files as people write them, from text to typed objects: each kind of mistake with the message it must give, and the way back.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <type_traits>

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "objects/decode.h"
#include "objects/encode.h"
#include "objects/names.h"
#include "objects/quantity.h"
#include "text/text.h"

namespace coterie::objects {
namespace {

std::string faultsOf(std::string_view yaml) {
  const text::Documents documents = text::parseYaml(yaml);
  Faults faults = documents.faults;
  if (faults.empty()) faults = decodeDocuments(documents.values).faults;
  std::string all;
  for (const Fault& fault : faults) all += faultText(fault) + "\n";
  return all;
}

std::string service(std::string_view spec) {
  return "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: a, namespace: n}\nspec:\n  model: {uri: file:m.onnx}\n" +
         std::string(spec);
}
std::string tenant(std::string_view spec) {
  return "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t}\nspec:\n  namespaces: [n]\n" + std::string(spec);
}

struct Mistake {
  std::string name;
  std::string yaml;
  std::string says;  // the whole answer begins with this
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> cases = {
      {"unknown key", service("  objective: {latencyMs: 5, percentil: 99}\n"),
       "6: spec.objective.percentil: unknown field; did you mean percentile?\n"},
      {"unknown key, nothing near", service("  frobnicate: 1\n"), "6: spec.frobnicate: unknown field\n"},
      {"key at the wrong level", service("  latencyMs: 5\n"), "6: spec.latencyMs: unknown field\n"},
      {"wrong case", service("  mincpus: 1\n"), "6: spec.mincpus: unknown field; did you mean minCpus?\n"},
      {"duplicate key", service("  weight: 1\n  weight: 2\n"), "7: spec.weight: the key is there twice; first on line 6\n"},
      {"wrong type: text", service("  weight: heavy\n"), "6: spec.weight: wanted a whole number from 1 to 10000, found text\n"},
      {"wrong type: list", service("  objective: [1]\n"), "6: spec.objective: wanted a map of fields, found a list\n"},
      {"wrong type: number for text", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata:\n  name: 7\nspec: {namespaces: [n]}\n",
       "4: metadata.name: wanted text, found a whole number: quote it\n"},
      {"fraction for a whole number", service("  instances: 1.5\n"), "6: spec.instances: wanted a whole number from 0 to 1000, found a number\n"},
      {"out of range", service("  weight: 0\n"), "6: spec.weight: wanted a whole number from 1 to 10000, found 0\n"},
      {"percentile out of range", service("  objective: {latencyMs: 5, percentile: 100}\n"),
       "6: spec.objective.percentile: wanted a number from 50 to 99.9, found 100\n"},
      {"latency of zero", service("  objective:\n    latencyMs: 0\n"), "7: spec.objective.latencyMs: must be more than 0\n"},
      {"objective without a bound", service("  objective: {percentile: 99}\n"),
       "6: spec.objective.latencyMs: missing: the latency bound in milliseconds\n"},
      {"memory without a unit", service("  memory: 512\n"), "6: spec.memory: a number without a unit: write \"512Mi\" or \"2Gi\"\n"},
      {"unknown unit", service("  memory: 512MB\n"), "6: spec.memory: unknown unit \"MB\": use Ki, Mi, Gi, Ti, k, M, G, T or B\n"},
      {"too little memory", service("  memory: 1Mi\n"), "6: spec.memory: wanted at least 16Mi, found 1Mi\n"},
      {"CPUs in words", service("  minCpus: two\n"), "6: spec.minCpus: wanted CPUs as 2, 0.5 or \"500m\", found \"two\"\n"},
      {"CPUs below a thousandth", service("  minCpus: 0.0001\n"), "6: spec.minCpus: a thousandth of a CPU is the smallest step\n"},
      {"negative CPUs", service("  minCpus: -1\n"), "6: spec.minCpus: must not be negative\n"},
      {"ceiling below floor", service("  minCpus: 2\n  maxCpus: 500m\n"), "7: spec.maxCpus: 500m is less than minCpus, 2\n"},
      {"fixed instances outside the range", service("  instances: 5\n  maxInstances: 3\n"),
       "6: spec.instances: 5 lies outside minInstances..maxInstances, 1..3"},
      {"range upside down", service("  minInstances: 4\n  maxInstances: 2\n"), "7: spec.maxInstances: 2 is less than minInstances, 4\n"},
      {"quota of zero", tenant("  quota:\n    cpus: 0\n"), "7: spec.quota.cpus: 0 would let nothing run: leave the field out for no limit\n"},
      {"quota of zero requests", tenant("  quota: {requestsPerSecond: 0}\n"),
       "6: spec.quota.requestsPerSecond: 0 would let nothing run: leave the field out for no limit\n"},
      {"burst without a rate", tenant("  quota: {burstRequests: 5}\n"),
       "6: spec.quota.burstRequests: is a burst above requestsPerSecond: say requestsPerSecond, too, or leave both out for no limit\n"},
      {"no seconds to wait", service("  tenantLimits: {queuedSeconds: 0}\n"),
       "6: spec.tenantLimits.queuedSeconds: 0 would let nothing run: leave the field out for no limit\n"},
      {"seconds in words", tenant("  quota: {queuedSeconds: long}\n"), "6: spec.quota.queuedSeconds: wanted a number from 0 to 86400, found text\n"},
      {"too few bytes", service("  tenantLimits:\n    inFlightBytes: 5B\n"), "7: spec.tenantLimits.inFlightBytes: wanted at least 1Ki, found 5B\n"},
      {"mistyped limit", service("  tenantLimits: {requestPerSecond: 5}\n"),
       "6: spec.tenantLimits.requestPerSecond: unknown field; did you mean requestsPerSecond?\n"},
      {"tenant without namespaces", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t}\nspec: {}\n",
       "4: spec.namespaces: missing: at least one namespace that the tenant owns\n"},
      {"namespace twice", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t}\nspec: {namespaces: [a, b, a]}\n",
       "4: spec.namespaces[2]: a is there twice\n"},
      {"name in capitals", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: Team_A}\nspec: {namespaces: [a]}\n",
       "3: metadata.name: the name may hold lower-case letters, digits and '-' only\n"},
      {"name too long", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: " + std::string(64, 'a') + "}\nspec: {namespaces: [a]}\n",
       "3: metadata.name: the name is 64 bytes long, at most 63\n"},
      {"namespace on a tenant", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t, namespace: x}\nspec: {namespaces: [a]}\n",
       "3: metadata.namespace: a Tenant stands above namespaces"},
      {"no namespace on a service", "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata:\n  name: a\nspec: {model: {uri: 'file:m'}}\n",
       "3: metadata.namespace: missing: one of the tenant's namespaces\n"},
      {"label that is no text",
       "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata:\n  name: t\n  labels:\n    tier: 1\nspec: {namespaces: [a]}\n",
       "6: metadata.labels.tier: wanted text, found a whole number: quote it\n"},
      {"mistyped kind", "apiVersion: coterie.dev/v1alpha1\nkind: Tennant\nmetadata: {name: t}\n",
       "2: kind: unknown kind \"Tennant\"; did you mean Tenant?\n"},
      {"foreign kind", "apiVersion: coterie.dev/v1alpha1\nkind: Deployment\n",
       "2: kind: unknown kind \"Deployment\"; known are Tenant and ModelService\n"},
      {"wrong apiVersion", "apiVersion: coterie.dev/v1\nkind: Tenant\nmetadata: {name: t}\nspec: {namespaces: [a]}\n",
       "1: apiVersion: unknown version \"coterie.dev/v1\"; wanted coterie.dev/v1alpha1\n"},
      {"no kind", "apiVersion: coterie.dev/v1alpha1\n", "1: kind: missing: Tenant or ModelService\n"},
      {"no metadata", "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nspec: {namespaces: [a]}\n",
       "1: metadata: missing: metadata.name names the object\n"},
      {"not an object", "- 1\n- 2\n", "1: wanted an object with apiVersion, kind, metadata and spec, found a list\n"},
      {"model missing", "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: a, namespace: n}\nspec: {weight: 1}\n",
       "4: spec.model: missing: model.uri says which file to serve\n"},
      {"model by http",
       "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: a, namespace: n}\nspec: {model: {uri: 'https://x/m.onnx'}}\n",
       "4: spec.model.uri: only file: is supported"},
      {"absolute path",
       "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: a, namespace: n}\nspec: {model: {uri: 'file:///etc/passwd'}}\n",
       "4: spec.model.uri: the path must be relative"},
      {"path that climbs out",
       "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: a, namespace: n}\nspec: {model: {uri: 'file:a/../../b'}}\n",
       "4: spec.model.uri: the path must not leave the tenant's model root: no '..'\n"},
      {"short checksum",
       "apiVersion: coterie.dev/v1alpha1\nkind: ModelService\nmetadata: {name: a, namespace: n}\nspec: {model: {uri: 'file:a', sha256: abc}}\n",
       "4: spec.model.sha256: wanted 64 hexadecimal digits"},
      {"mistyped class", service("  serviceClass: latency-critcal\n"),
       "6: spec.serviceClass: unknown class \"latency-critcal\"; did you mean latency-critical?\n"},
      {"a consumer's name", service("  consumers: [good, No_Name]\n"),
       "6: spec.consumers[1]: the tenant may hold lower-case letters, digits and '-' only\n"},
      {"a consumer twice", service("  consumers: [blue, blue]\n"), "6: spec.consumers[1]: blue is there twice\n"},
      {"consumers that are everybody and some", service("  consumers: [\"*\", blue]\n"),
       "6: spec.consumers: \"*\" stands for every tenant: leave the names out, or the \"*\"\n"},
      {"consumers that are no list", service("  consumers: blue\n"), "6: spec.consumers: wanted a list, found text\n"},
      {"a band that there is not", tenant("  band: top\n"), "6: spec.band: unknown band \"top\"; known are high, normal and low\n"},
      {"mistyped isolation", service("  isolation: cor\n"), "6: spec.isolation: unknown isolation \"cor\"; did you mean core?\n"},
      {"an isolation that there is not", service("  isolation: socket\n"),
       "6: spec.isolation: unknown isolation \"socket\"; known are none, core, cache and node\n"},
      {"isolation as a number", service("  isolation: 1\n"), "6: spec.isolation: wanted text, found a whole number: quote it\n"},
      {"mistyped field of isolation", service("  isolaton: core\n"), "6: spec.isolaton: unknown field; did you mean isolation?\n"},
      {"batches of none", service("  batching: {maxRequests: 0}\n"), "6: spec.batching.maxRequests: wanted a whole number from 1 to 64, found 0\n"},
      {"batches too large", service("  batching:\n    maxRequests: 65\n"),
       "7: spec.batching.maxRequests: wanted a whole number from 1 to 64, found 65\n"},
      {"batching without its number", service("  batching: {}\n"),
       "6: spec.batching.maxRequests: missing: how many requests may run as one, 1 to 64\n"},
      {"batching as a word", service("  batching: on\n"), "6: spec.batching: wanted a map of fields, found text\n"},
      {"mistyped field of batching", service("  batching: {maxRequests: 4, maxRequest: 4}\n"),
       "6: spec.batching.maxRequest: unknown field; did you mean maxRequests?\n"},
      {"a stateful model without its states", service("  stateful: {}\n"),
       "6: spec.stateful.states: missing: which output is which input of the sequence's next request: {output: input}\n"},
      {"no states", service("  stateful: {states: {}}\n"), "6: spec.stateful.states: wanted 1 to 32 outputs, each with the input that it becomes\n"},
      {"a state that is no name", service("  stateful: {states: {hn: 1}}\n"),
       "6: spec.stateful.states.hn: wanted the name of the input that this output becomes\n"},
      {"states in two instances", service("  maxInstances: 2\n  stateful: {states: {hn: h}}\n"),
       "6: spec.maxInstances: a stateful service runs one instance"},
      {"sequences in batches", service("  stateful: {states: {hn: h}}\n  batching: {maxRequests: 4}\n"),
       "7: spec.batching: requests of sequences do not run as one"},
      {"one state larger than all", service("  stateful: {states: {hn: h}, stateMemory: 2Mi, memory: 1Mi}\n"),
       "6: spec.stateful.stateMemory: one sequence's is more than that of all, stateful.memory\n"},
      {"mistyped field of stateful", service("  stateful: {states: {hn: h}, idleSecond: 4}\n"),
       "6: spec.stateful.idleSecond: unknown field; did you mean idleSeconds?\n"},
      {"a truth as text", tenant("  sharesBatches: \"yes\"\n"), "6: spec.sharesBatches: wanted true or false, found text\n"},
      {"sharing said of a service", service("  sharesBatches: true\n"), "6: spec.sharesBatches: unknown field\n"},
      {"open dimension in a probe", service("  probe: {shapes: {x: [1, -1]}}\n"), "6: spec.probe.shapes.x[1]: wanted a whole number of at least 1"},
      {"probe too large", service("  probe: {shapes: {x: [65536, 65536]}}\n"), "6: spec.probe.shapes.x: has more than 2147483648 elements\n"},
      {"probe whose product overflows", service("  probe: {shapes: {x: [9223372036854775807, 9223372036854775807]}}\n"),
       "6: spec.probe.shapes.x: has more than 2147483648 elements\n"},
      {"tab", service("\tweight: 1\n"), "6: a tab in the indentation: use spaces\n"},
      {"bad indentation", service("   weight: 1\n"), "6: "},
      {"not UTF-8", service("  weight: \xff\n"), "6: not UTF-8: save the file as UTF-8\n"},
      {"anchor", service("  weight: &w 1\n"), "6: spec.weight: anchors (&name) are not accepted: write the value out\n"},
      {"unfilled template", service("  weight: {{ w }}\n"), "6: spec.weight: a key must be text"},
      {"octal", service("  weight: 010\n"), "6: spec.weight: 010: a number with a leading zero"},
      {"same object twice", tenant("") + "---\n" + tenant(""), "7: metadata.name: Tenant t is there twice\n"},
  };
  return cases;
}

TEST(Mistakes, EachIsNamedWithItsPathAndLine) {
  EXPECT_GE(mistakes().size(), 20u);
  for (const Mistake& mistake : mistakes()) {
    const std::string said = faultsOf(mistake.yaml);
    EXPECT_EQ(said.substr(0, mistake.says.size()), mistake.says) << mistake.name << "\n" << mistake.yaml << said;
  }
}

TEST(Mistakes, AllOfThemAreListedAtOnce) {
  EXPECT_EQ(faultsOf(tenant("  weight: 0\n  quota: {cpus: x, memory: 5}\n") + "---\n" + service("  instances: -1\n  probes: {}\n")),
            "6: spec.weight: wanted a whole number from 1 to 10000, found 0\n"
            "7: spec.quota.cpus: wanted CPUs as 2, 0.5 or \"500m\", found \"x\"\n"
            "7: spec.quota.memory: a number without a unit: write \"512Mi\" or \"2Gi\"\n"
            "14: spec.instances: wanted a whole number from 0 to 1000, found -1\n"
            "15: spec.probes: unknown field; did you mean probe?\n");
}

TEST(Mistakes, AMillionUnknownKeysCostLittle) {
  std::string json = "{\"apiVersion\":\"coterie.dev/v1alpha1\",\"kind\":\"Tenant\",\"metadata\":{\"name\":\"t\"},\"spec\":{\"namespaces\":[\"n\"]";
  for (int i = 0; i < 200000; ++i) json += ",\"k" + std::to_string(i) + "\":1";
  const Result<Value> value = text::parseJson(json + "}}");
  ASSERT_TRUE(value.ok());
  EXPECT_LE(decodeDocuments({*value}).faults.size(), 30u);
}

TEST(Decode, ExamplesAreSound) {
  for (const char* name : {"quickstart/tenants.yaml", "quickstart/services.yaml", "isolation/services.yaml", "batching/services.yaml"}) {
    std::ifstream file(std::string(COTERIE_SOURCE_DIR "/examples/") + name);
    const std::string yaml((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(faultsOf(yaml), "") << name;
    EXPECT_GE(decodeDocuments(text::parseYaml(yaml).values).objects.size(), 1u) << name;
  }
}

TEST(Decode, WhatGetPrintsCanBeAppliedAgain) {
  const text::Documents documents = text::parseYaml(
      "apiVersion: coterie.dev/v1alpha1\nkind: Tenant\nmetadata:\n  name: t\n  uid: x\n  resourceVersion: \"12\"\n  generation: 2\n  "
      "creationTimestamp: \"2026-01-01T00:00:00Z\"\n"
      "spec: {namespaces: [a]}\nstatus: {conditions: []}\n");
  const Decoded decoded = decodeDocuments(documents.values);
  ASSERT_TRUE(decoded.faults.empty()) << faultText(decoded.faults[0]);
  EXPECT_EQ(decoded.objects[0].resourceVersion, 12u);
}

TEST(Decode, AListIsOpenedAndTheNamespaceMayComeFromOutside) {
  const text::Documents documents = text::parseYaml(
      "kind: List\nitems:\n- apiVersion: coterie.dev/v1alpha1\n  kind: ModelService\n  metadata: {name: a}\n  spec: {model: {uri: 'file:m'}}\n"
      "- apiVersion: coterie.dev/v1alpha1\n  kind: ModelService\n  metadata: {name: b}\n  spec: {model: {uri: 'file:m'}, wait: 1}\n");
  const Decoded decoded = decodeDocuments(documents.values, {.defaultNamespace = "audio"});
  ASSERT_EQ(decoded.objects.size(), 1u);
  EXPECT_EQ(decoded.objects[0].title(), "ModelService audio/a");
  ASSERT_EQ(decoded.faults.size(), 1u);
  EXPECT_EQ(decoded.faults[0].path, "items[1].spec.wait");
}

TEST(Quantity, Table) {
  const auto milli = [](const Value& v) { return parseCpus(v).ok() ? parseCpus(v)->value : -1; };
  EXPECT_EQ(milli(2), 2000);
  EXPECT_EQ(milli(0.25), 250);
  EXPECT_EQ(milli(0.001), 1);
  EXPECT_EQ(milli("500m"), 500);
  EXPECT_EQ(milli("1.5"), 1500);
  for (const Value& bad : {Value(-1), Value(65537), Value(0.0005), Value("0.5m"), Value("m"), Value(""), Value("1e3"), Value(" 1"), Value(true),
                           Value("-1"), Value("99999999999999999999m")}) {
    EXPECT_EQ(milli(bad), -1) << text::printJson(bad);
  }
  const auto size = [](const Value& v) { return parseBytes(v).ok() ? parseBytes(v)->value : -1; };
  EXPECT_EQ(size("512Mi"), 512 << 20);
  EXPECT_EQ(size("1.5Gi"), 3LL << 29);
  EXPECT_EQ(size("1k"), 1000);
  EXPECT_EQ(size("7B"), 7);
  EXPECT_EQ(size("1024Ti"), 1LL << 50);
  for (const Value& bad : {Value("1025Ti"), Value("1.0001k"), Value("0.3B"), Value("Mi"), Value("1 Gi"), Value("1gi"), Value(1.5), Value("-1Gi"),
                           Value("999999999999Ti"), Value(".5Gi")}) {
    EXPECT_EQ(size(bad), -1) << text::printJson(bad);
  }
  for (const char* huge : {"1025Ti", "99999999999999999999Gi", "99999999999999999999.5k", "99999999999999999999"})
    EXPECT_EQ(parseBytes(Value(huge)).error().message, "wanted at most 1024Ti") << huge;
  EXPECT_EQ(bytesText(Bytes(1LL << 30)), "1Gi");
  EXPECT_EQ(bytesText(Bytes(1000000000)), "1G");
  EXPECT_EQ(bytesText(Bytes(1001)), "1001B");
}

TEST(Time, Table) {
  EXPECT_EQ(timeText(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(timeText(1709164800000001), "2024-02-29T00:00:00.000001Z");
  EXPECT_EQ(parseTime("2024-02-29T00:00:00.000001Z"), 1709164800000001);
  EXPECT_EQ(parseTime("2024-02-29T00:00:00Z"), 1709164800000000);
  for (const char* bad :
       {"", "2024-02-29", "2024-13-01T00:00:00Z", "2024-02-29T00:00:00", "2024-02-29T25:00:00Z", "2024-02-29T00:00:00.Z", "2024x02-29T00:00:00Z"})
    EXPECT_FALSE(parseTime(bad)) << bad;
}

RC_GTEST_PROP(Time, RoundTrip, ()) {
  const std::int64_t micros = *rc::gen::inRange<std::int64_t>(0, 253402300800000000);
  RC_ASSERT(parseTime(timeText(micros)) == micros);
}
RC_GTEST_PROP(Quantity, BytesRoundTrip, ()) {
  const std::int64_t value = *rc::gen::inRange<std::int64_t>(1, 1 << 20) << *rc::gen::inRange(0, 30);
  RC_ASSERT(parseBytes(Value(bytesText(Bytes(value))))->value == value);
}
RC_GTEST_PROP(Quantity, CpusRoundTrip, ()) {
  const std::int64_t value = *rc::gen::inRange<std::int64_t>(0, kMostMilliCpus + 1);
  RC_ASSERT(parseCpus(encodeCpus(MilliCpu(value)))->value == value);
  RC_ASSERT(parseCpus(Value(cpusText(MilliCpu(value))))->value == value);
}

std::string randomName() {
  static const std::string letters = "abcxyz019";
  const int size = *rc::gen::inRange(1, 20);
  std::string name;
  for (int i = 0; i < size; ++i) name += *rc::gen::elementOf(letters);
  return name;
}

RequestLimits randomLimits() {
  const auto maybe = [](std::int64_t low, std::int64_t high) { return *rc::gen::arbitrary<bool>() ? 0 : *rc::gen::inRange<std::int64_t>(low, high); };
  RequestLimits limits;
  limits.requestsPerSecond = maybe(1, 1000000);
  if (limits.requestsPerSecond > 0) limits.burstRequests = maybe(1, 1000000);
  limits.concurrentRequests = maybe(1, 1000000);
  limits.queuedBytes = Bytes(maybe(1024, 1LL << 40));
  limits.inFlightBytes = Bytes(maybe(1024, 1LL << 40));
  limits.queuedRequests = maybe(1, 1000000);
  limits.queuedTime = Millis(maybe(1, 86'400'000));
  return limits;
}

ModelService randomService() {
  ModelService object;
  object.metadata = {randomName(), randomName(), {}};
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) object.metadata.labels.emplace_back("k" + std::to_string(i), randomName());
  std::sort(object.metadata.labels.begin(), object.metadata.labels.end());
  ModelServiceSpec& spec = object.spec;
  spec.modelUri = "file:" + randomName() + "/" + randomName();
  if (*rc::gen::arbitrary<bool>()) spec.sha256 = std::string(64, *rc::gen::elementOf(std::string("0123456789abcdef")));
  if (*rc::gen::arbitrary<bool>()) {
    spec.objective = Objective{Nanos(*rc::gen::inRange<std::int64_t>(1, 3600000000000)), static_cast<double>(*rc::gen::inRange(500, 1000)) / 10};
  }
  spec.minInstances = *rc::gen::inRange(1, 1000);
  spec.maxInstances = *rc::gen::inRange(spec.minInstances, 1001);
  if (*rc::gen::arbitrary<bool>()) spec.instances = *rc::gen::inRange(spec.minInstances, spec.maxInstances + 1);
  spec.minCpus = MilliCpu(*rc::gen::inRange<std::int64_t>(0, 100000));
  spec.maxCpus =
      *rc::gen::arbitrary<bool>() ? MilliCpu(0) : MilliCpu(*rc::gen::inRange<std::int64_t>(std::max<std::int64_t>(1, spec.minCpus.value), 200000));
  spec.memory = *rc::gen::arbitrary<bool>() ? Bytes(0) : Bytes(*rc::gen::inRange<std::int64_t>(16 << 20, 1LL << 40));
  spec.weight = *rc::gen::inRange(1, 10001);
  spec.maxBatch = *rc::gen::inRange(1, 65);
  if (*rc::gen::inRange(0, 3) == 0) {
    spec.minInstances = spec.maxInstances = spec.maxBatch = 1;
    if (spec.instances) spec.instances = 1;
    StatefulSpec& stateful = spec.stateful.emplace();
    for (int i = *rc::gen::inRange(1, 4); i > 0; --i) stateful.states.emplace_back("out:" + std::to_string(i), "in:" + randomName());
    std::sort(stateful.states.begin(), stateful.states.end());
    stateful.maxSequences = *rc::gen::inRange(1, 1'000'001);
    stateful.maxIdle = Seconds(*rc::gen::inRange(1, 86'401));
    stateful.maxWaiting = *rc::gen::inRange(1, 10'001);
    stateful.memory = Bytes(*rc::gen::inRange<std::int64_t>(1, 1LL << 40));
    stateful.stateMemory = Bytes(*rc::gen::inRange<std::int64_t>(0, stateful.memory.value + 1));
  }
  spec.latencyCritical = *rc::gen::arbitrary<bool>();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) spec.consumers.push_back(randomName() + std::to_string(i));
  if (*rc::gen::inRange(0, 8) == 0) spec.consumers = {"*"};
  if (*rc::gen::arbitrary<bool>()) spec.tenantLimits = randomLimits();
  spec.isolation = *rc::gen::element(Isolation::None, Isolation::Core, Isolation::Cache, Isolation::Node);
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i)
    spec.probeShapes.emplace_back("in:" + std::to_string(i), *rc::gen::container<Shape>(rc::gen::inRange<std::int64_t>(1, 3)));
  for (auto& [name, shape] : spec.probeShapes) shape.resize(std::min<std::size_t>(shape.size(), 16));
  std::sort(spec.probeShapes.begin(), spec.probeShapes.end());
  return object;
}

Tenant randomTenant() {
  Tenant object;
  object.metadata.name = randomName();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) object.spec.namespaces.push_back(randomName() + std::to_string(i));
  object.spec.weight = *rc::gen::inRange(1, 10001);
  object.spec.band = *rc::gen::element(Band::High, Band::Normal, Band::Low);
  object.spec.sharesBatches = *rc::gen::arbitrary<bool>();
  const auto maybe = [](std::int64_t low, std::int64_t high) { return *rc::gen::arbitrary<bool>() ? 0 : *rc::gen::inRange<std::int64_t>(low, high); };
  object.spec.quota = {randomLimits(), MilliCpu(maybe(1, 100000)), Bytes(maybe(1 << 20, 1LL << 45)), maybe(1, 1000)};
  return object;
}

// decode(encode(x)) == x, through both texts. Equality by the canonical tree: encode is injective on sound specs.
template <typename Object>
void roundTrip(const Object& object) {
  const Value tree = encodeObject(object);
  for (const Value& parsed : {*text::parseJson(text::printJson(tree)), text::parseYaml(text::printYaml(tree)).values.at(0)}) {
    const Decoded decoded = decodeDocuments({parsed});
    if (!decoded.faults.empty()) RC_FAIL(faultText(decoded.faults[0]) + "\n" + text::printYaml(tree));
    const AnyObject& back = decoded.objects.at(0);
    Object again{back.metadata, std::get<decltype(object.spec)>(back.spec)};
    RC_ASSERT(encodeObject(again) == tree);
    if constexpr (std::is_same_v<Object, ModelService>) {
      RC_ASSERT(again.spec.objective.has_value() == object.spec.objective.has_value());
      if (object.spec.objective) RC_ASSERT(again.spec.objective->latency == object.spec.objective->latency);
      RC_ASSERT(again.spec.instances == object.spec.instances && again.spec.memory == object.spec.memory &&
                again.spec.minCpus == object.spec.minCpus);
      RC_ASSERT(again.spec.probeShapes == object.spec.probeShapes && again.spec.latencyCritical == object.spec.latencyCritical);
      RC_ASSERT(again.spec.isolation == object.spec.isolation && again.spec.maxBatch == object.spec.maxBatch);
      RC_ASSERT(again.spec.tenantLimits == object.spec.tenantLimits);
      RC_ASSERT(again.spec.stateful == object.spec.stateful);
    } else {
      RC_ASSERT(again.spec.namespaces == object.spec.namespaces && again.spec.weight == object.spec.weight);
      RC_ASSERT(again.spec.band == object.spec.band && again.spec.sharesBatches == object.spec.sharesBatches);
      RC_ASSERT(static_cast<const RequestLimits&>(again.spec.quota) == object.spec.quota);
    }
    RC_ASSERT(again.metadata.labels == object.metadata.labels);
  }
}
RC_GTEST_PROP(RoundTrip, ModelService, ()) { roundTrip(randomService()); }
RC_GTEST_PROP(RoundTrip, Tenant, ()) { roundTrip(randomTenant()); }

TEST(Conditions, TransitionTimeMovesOnlyWithTheStatus) {
  std::vector<Condition> conditions;
  EXPECT_TRUE(setCondition(conditions, {"Ready", ConditionStatus::False, 1, 0, "Loading", "x"}, 10));
  EXPECT_FALSE(setCondition(conditions, {"Ready", ConditionStatus::False, 1, 0, "Loading", "x"}, 20));
  EXPECT_TRUE(setCondition(conditions, {"Ready", ConditionStatus::False, 1, 0, "Crashed", "y"}, 30));
  EXPECT_EQ(conditions[0].lastTransitionMicros, 10);
  EXPECT_TRUE(setCondition(conditions, {"Ready", ConditionStatus::True, 1, 0, "Ready", ""}, 40));
  EXPECT_EQ(conditions[0].lastTransitionMicros, 40);
  const Value encoded = encodeConditions(conditions);
  EXPECT_EQ(decodeConditions(&encoded), conditions);
}

}  // namespace
}  // namespace coterie::objects
