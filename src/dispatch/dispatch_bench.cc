// CPU time of one request's way through a station (enqueue + select + complete), at two numbers of tenants and two depths of queue. low and high:
// least and most of the repetitions. usage: dispatch [--quick] [--json PATH]
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "dispatch/station.h"
#include "testing/bench_report.h"

namespace {

using namespace coterie;
using namespace coterie::dispatch;

double cpuNanos() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Every tenant backlogged, four slots; each step completes one request, which its tenant replaces.
double measure(int tenants, int perTenant, int steps) {
  Station station({.caps = {1'000'000, {}}});
  const ServiceId service = station.addService({.initialRun = Micros(100)});
  for (int i = 0; i < 4; ++i) station.addSlot(service, SlotClass::Own, 0);
  for (int i = 0; i < tenants; ++i) station.setTenant(TenantId(i), {});
  Instant now{Seconds(1)};
  Rng rng(1);
  const auto put = [&](TenantId tenant) {
    const Request request{
        tenant, service, 1, now + Seconds(3600) + Nanos(rng.between(0, 1'000'000'000)), 1, Bytes(1000), static_cast<std::uint64_t>(tenant.value)};
    if (!station.enqueue(request, now).accepted()) std::abort();
  };
  for (int k = 0; k < perTenant; ++k) {
    for (int i = 0; i < tenants; ++i) put(TenantId(i));
  }
  Decisions decisions;
  std::vector<Dispatch> running;
  const auto play = [&](int count) {
    for (int i = 0; i < count; ++i) {
      decisions.clear();
      station.next(now, decisions);
      running.insert(running.end(), decisions.dispatches.begin(), decisions.dispatches.end());
      const Dispatch first = running.front();
      running.erase(running.begin());
      now += Micros(25);
      const Nanos held = Micros(rng.between(50, 150));
      station.completed(first.request, {held, {}, held}, Outcome::Succeeded, now);
      put(TenantId(static_cast<int>(first.cookie)));
    }
  };
  play(steps / 4);
  const double before = cpuNanos();
  play(steps);
  return (cpuNanos() - before) / steps;
}

}  // namespace

int main(int argc, char** argv) {
  if (!testing::benchArguments(argc, argv, {"quick"}, {"json"})) return 2;
  const bool quick = testing::benchFlag(argc, argv, "quick");
  const int steps = quick ? 50'000 : 300'000;
  const int repetitions = quick ? 1 : 5;
  testing::BenchReport report("dispatch", 1, repetitions);
  for (const auto& [tenants, perTenant] : {std::pair{10, 8}, std::pair{10, 800}, std::pair{1000, 8}, std::pair{1000, 80}}) {
    std::vector<double> nanos;
    for (int i = 0; i < repetitions; ++i) nanos.push_back(measure(tenants, perTenant, steps));
    report.add({"request_cpu",
                "ns",
                testing::quantile(nanos, .5),
                {{"tenants", tenants}, {"queued", tenants * perTenant}},
                testing::quantile(nanos, 0),
                testing::quantile(nanos, 1)});
  }
  std::fputs(report.table().c_str(), stdout);
  const Status written = report.write(testing::benchOption(argc, argv, "json", "build/bench/dispatch.json"));
  if (!written) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written ? 0 : 1;
}
