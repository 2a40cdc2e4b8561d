// Requests per CPU-second of LocalBackend and a worker together, closed loop over the lanes: what the channel costs beside the model. usage:
// worker-channel [MODEL] [LANES] [SECONDS]
#include <cstdio>
#include <cstdlib>

#include "base/cpu_clock.h"
#include "base/histogram.h"
#include "rig.h"

namespace coterie::worker_test {
namespace {

double cpuSeconds(pid_t pid) { return static_cast<double>(cpuTimeOf(pid).value_or(Nanos{}).count()) * 1e-9; }

struct Load {
  Rig& rig;
  Shape shape;
  std::size_t bytes;
  bool stop{false};
  std::int64_t completed{0};
  int running{0};
  Histogram held;

  void next(LaneRef lane) {
    ++running;
    auto cell = rig.backend->allocate(bytes);
    RunRequest request;
    request.members.push_back({std::move(cell).value(), {{0, shape, 0, bytes}}});
    request.outputs.push_back(0);
    request.maxRun = Seconds(10);
    rig.backend->run(lane, std::move(request), [this, lane](RunOutcome outcome) {
      --running;
      ++completed;
      held.record(outcome.held.count());
      if (!outcome.answer.ok()) std::printf("failed: %s\n", outcome.answer.error().message.c_str());
      if (!stop) next(lane);
    });
  }
};

int measure(const std::string& model, int lanes, int seconds) {
  const Folder folder;
  Rig rig;
  InstanceSpec spec = rig.spec(1, folder.model(model));
  spec.ownLanes = lanes;
  if (!rig.startAndWait(spec)) {
    std::printf("%s\n", rig.ends[1].message.c_str());
    return 1;
  }
  Shape shape = rig.ready[1].signature.inputs[0].shape;
  for (auto& dim : shape) dim = dim < 0 ? 1 : dim;
  Load load{rig, shape, static_cast<std::size_t>(*tensorBytes(rig.ready[1].signature.inputs[0].type, shape)), false, 0, 0, {}};
  for (int i = 0; i < lanes; ++i) load.next(Rig::lane(1, i));
  const double gatewayBefore = cpuSeconds(::getpid());
  const double workerBefore = cpuSeconds(rig.ready[1].pid);
  (void)rig.loop.runUntil([] { return false; }, Seconds(seconds));
  const double gateway = cpuSeconds(::getpid()) - gatewayBefore;
  const double worker = cpuSeconds(rig.ready[1].pid) - workerBefore;
  load.stop = true;
  (void)rig.waitFor([&] { return load.running == 0; });
  const auto n = static_cast<double>(load.completed);
  std::printf("%s, %d lanes: %.0f requests/s, %.0f per CPU-second (gateway %.2f us, worker %.2f us a request), held p50 %.1f us, p99 %.1f us\n",
              model.c_str(), lanes, n / seconds, n / (gateway + worker), gateway / n * 1e6, worker / n * 1e6,
              static_cast<double>(load.held.quantile(0.5)) / 1e3, static_cast<double>(load.held.quantile(0.99)) / 1e3);
  return 0;
}

}  // namespace
}  // namespace coterie::worker_test

int main(int argc, char** argv) {
  return coterie::worker_test::measure(argc > 1 ? argv[1] : "identity_fp32", argc > 2 ? std::atoi(argv[2]) : 2, argc > 3 ? std::atoi(argv[3]) : 2);
}
