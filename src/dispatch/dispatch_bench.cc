// bench/dispatch: CPU nanoseconds of one request's way through a station (enqueue + select + complete), at two numbers of tenants and two depths of queue.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/station.h"

namespace {

using namespace coterie;
using namespace coterie::dispatch;

double cpuNanos() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Figure {
  int tenants;
  int queued;
  double nanos;
};

// Every tenant backlogged, four slots; each step completes one request, which its tenant replaces.
Figure measure(int tenants, int perTenant, int steps) {
  Station station({.caps = {1'000'000, {}}});
  const ServiceId service = station.addService({.initialRun = Micros(100)});
  for (int i = 0; i < 4; ++i) station.addSlot(service, SlotClass::Own, 0);
  for (int i = 0; i < tenants; ++i) station.setTenant(TenantId(i), {});
  Instant now{Seconds(1)};
  Rng rng(1);
  const auto put = [&](TenantId tenant) {
    const Request request{tenant, service, 1, now + Seconds(3600) + Nanos(rng.between(0, 1'000'000'000)), 1, Bytes(1000), static_cast<std::uint64_t>(tenant.value)};
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
  return {tenants, tenants * perTenant, (cpuNanos() - before) / steps};
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const int steps = quick ? 50'000 : 500'000;
  std::printf("%8s %8s %26s\n", "tenants", "queued", "CPU ns a request");
  std::string figures;
  for (const auto& [tenants, perTenant] : {std::pair{10, 8}, std::pair{10, 800}, std::pair{1000, 8}, std::pair{1000, 80}}) {
    std::vector<double> nanos;
    for (int i = 0; i < (quick ? 1 : 5); ++i) nanos.push_back(measure(tenants, perTenant, steps).nanos);
    std::sort(nanos.begin(), nanos.end());
    std::printf("%8d %8d %26.0f\n", tenants, tenants * perTenant, nanos[nanos.size() / 2]);
    char figure[200];
    std::snprintf(figure, sizeof figure, "%s{\"name\": \"request_cpu\", \"unit\": \"ns\", \"value\": %.0f, \"case\": {\"tenants\": %d, \"queued\": %d}}", figures.empty() ? "" : ", ",
                  nanos[nanos.size() / 2], tenants, tenants * perTenant);
    figures += figure;
  }
  std::printf("{\"bench\": \"dispatch\", \"seed\": 1, \"repetitions\": %d, \"figures\": [%s]}\n", quick ? 1 : 5, figures.c_str());
  return 0;
}
