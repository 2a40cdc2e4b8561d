#include "worker/measure_widths.h"

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace coterie::worker {

namespace {
constexpr int kFlatInARow = 2;

Nanos monotonic() { return std::chrono::steady_clock::now().time_since_epoch(); }

bool gained(const WidthSpeed& before, const WidthSpeed& now) { return now.mean * 20 <= before.mean * 19; }
}  // namespace

Result<std::vector<WidthSpeed>> measureWithin(const std::vector<std::int32_t>& widths, Nanos time, const TimeOneWidth& one,
                                              const std::function<Nanos()>& now) {
  const auto clock = now ? now : monotonic;
  std::vector<WidthSpeed> speeds;
  const Nanos begin = clock();
  Nanos longest{};
  int flat = 0;
  for (const int width : widths) {
    const Nanos began = clock();
    if (!speeds.empty() && (began - begin + longest > time || flat >= kFlatInARow)) break;
    auto speed = one(width);
    if (!speed.ok()) return speed.error();
    if (!*speed) break;
    longest = std::max(longest, clock() - began);
    flat = speeds.empty() || gained(speeds.back(), **speed) ? 0 : flat + 1;
    speeds.push_back(**speed);
  }
  return speeds;
}

Nanos waitedForCpus() {
  Nanos sum{};
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return sum;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const std::string path = std::string("/proc/self/task/") + entry->d_name + "/schedstat";
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) continue;
    long long ran = 0;
    long long waited = 0;
    if (std::fscanf(file, "%lld %lld", &ran, &waited) == 2) sum += Nanos(waited);
    std::fclose(file);
  }
  ::closedir(folder);
  return sum;
}

bool disturbed(Nanos waited, Nanos ran, int width) { return waited * 16 > ran * width; }

}  // namespace coterie::worker
