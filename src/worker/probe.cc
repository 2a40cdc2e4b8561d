#include "worker/probe.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace coterie::worker {

namespace {

constexpr std::uint64_t kLargestInput = 1ULL << 30;

std::int64_t nanos(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

struct ProbeInput {
  Shape shape;
  std::unique_ptr<void, Free> memory;
  std::size_t bytes{0};
};

Error failed(std::string what) { return {Code::InvalidArgument, "ProbeFailed", std::move(what)}; }

Result<ProbeInput> makeInput(const TensorSpec& spec, const std::vector<ProbeShape>& shapes) {
  ProbeInput input;
  input.shape = spec.shape;
  for (std::int64_t& dim : input.shape) dim = dim == kDynamic ? 1 : dim;
  for (const ProbeShape& given : shapes) {
    if (given.input == spec.name) input.shape = given.shape;
  }
  const auto elements = elementCount(input.shape);
  if (!elements) return failed("cannot be probed: shape " + shapeText(input.shape) + " of \"" + spec.name + "\" is impossible");
  // Four zero bytes are an empty BYTES element.
  const std::size_t size = spec.type == ElementType::ByteString ? 4 : elementSize(spec.type);
  if (static_cast<std::uint64_t>(*elements) > kLargestInput / size) {
    return failed("cannot be probed: \"" + spec.name + "\" of shape " + shapeText(input.shape) + " is larger than 1 GiB; set probe.shapes");
  }
  input.bytes = static_cast<std::size_t>(*elements) * size;
  input.memory.reset(std::aligned_alloc(64, (std::max<std::size_t>(input.bytes, 1) + 63) / 64 * 64));
  if (!input.memory) return Error{Code::ResourceExhausted, "OutOfMemory", "does not fit in the memory limit"};
  std::memset(input.memory.get(), 0, input.bytes);
  return input;
}

// A shape for an input that the model lacks would do nothing, and nobody would know.
Status checkNames(const ModelSignature& signature, const std::vector<ProbeShape>& shapes) {
  for (const ProbeShape& given : shapes) {
    std::string known;
    bool found = false;
    for (const TensorSpec& spec : signature.inputs) {
      found = found || spec.name == given.input;
      known += (known.empty() ? "\"" : ", \"") + spec.name + "\"";
    }
    if (!found) return failed("has no input \"" + given.input + "\", which probe.shapes names; it has " + known);
  }
  return {};
}

// "probe: {shapes: {x: [1, 3]}}" of the inputs whose shape is open; of all where none is.
std::string exampleOf(const ModelSignature& signature, const std::vector<ProbeInput>& made) {
  const auto open = [](const TensorSpec& spec) { return std::find(spec.shape.begin(), spec.shape.end(), kDynamic) != spec.shape.end(); };
  const bool any = std::any_of(signature.inputs.begin(), signature.inputs.end(), open);
  std::string shapes;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (any && !open(signature.inputs[i])) continue;
    shapes += (shapes.empty() ? "" : ", ") + signature.inputs[i].name + ": " + shapeText(made[i].shape);
  }
  return "probe: {shapes: {" + shapes + "}}, with other numbers";
}

}  // namespace

Result<WidthSpeed> probe(const onnx::Session& session, const std::vector<ProbeShape>& shapes, std::span<std::byte> memory, int width) {
  if (const Status named = checkNames(session.signature(), shapes); !named.ok()) return named.error();
  std::vector<ProbeInput> made;
  std::vector<onnx::Input> inputs;
  std::string text;
  for (const TensorSpec& spec : session.signature().inputs) {
    auto input = makeInput(spec, shapes);
    if (!input.ok()) return input.error();
    text += (text.empty() ? "" : ", ") + spec.name + shapeText(input->shape);
    made.push_back(std::move(input).value());
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    inputs.push_back({static_cast<int>(i), made[i].shape, {static_cast<const std::byte*>(made[i].memory.get()), made[i].bytes}});
  }
  std::vector<int> outputs;
  for (std::size_t i = 0; i < session.signature().outputs.size(); ++i) outputs.push_back(static_cast<int>(i));

  onnx::Runner runner(session);
  std::vector<onnx::Output> answers;
  WidthSpeed speed;
  speed.width = width;
  Nanos sum{};
  Nanos cpu{};
  for (int run = 0; run <= kProbeRuns; ++run) {
    const std::int64_t wallBefore = nanos(CLOCK_MONOTONIC);
    const std::int64_t cpuBefore = nanos(CLOCK_PROCESS_CPUTIME_ID);
    if (Status s = runner.run(inputs, outputs, memory, answers); !s.ok()) {
      if (s.error().reason == "OutOfMemory") return Error{Code::ResourceExhausted, "OutOfMemory", "does not fit in the memory limit"};
      return failed("loads, but a run with " + text + " fails: " + s.error().message +
                    "; set probe.shapes to shapes that it takes, in the service's spec: " + exampleOf(session.signature(), made));
    }
    if (run == 0) continue;
    const Nanos wall(nanos(CLOCK_MONOTONIC) - wallBefore);
    sum += wall;
    cpu += Nanos(nanos(CLOCK_PROCESS_CPUTIME_ID) - cpuBefore);
    speed.p99 = std::max(speed.p99, wall);
  }
  speed.mean = sum / kProbeRuns;
  speed.cpu = cpu / kProbeRuns;
  return speed;
}

}  // namespace coterie::worker
