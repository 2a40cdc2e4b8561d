// A server that nobody told Coterie about, for the agent's tests: so many threads run one piece of work together, again and again, as a model
// server's do, and wait for each other at the end of each (busily for a moment, then asleep).
//
// usage: coterie_busy THREADS PROGRESS [HINT]. PROGRESS is a file of eight bytes: pieces done, in the machine's order. HINT is a file of the agent's
// ({"threads": N, ...}): looked at when SIGUSR1 comes; without it, or where it is not there, the server runs THREADS threads. A piece is the same
// amount of work whatever the number of threads.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kPiece = 4'000'000;  // steps; a few milliseconds of one CPU
constexpr int kBusyLooks = 20'000;

std::atomic<bool> askedToLook{true};

std::uint64_t work(std::uint64_t steps, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < steps; ++i) seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return seed;
}

int hinted(const char* path, int otherwise) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t at = text.find("\"threads\":");
  const int threads = at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 10);
  return threads > 0 ? threads : otherwise;
}

// Thread 0 opens a round for each helper below `width`, does its own part, and waits until they have counted down `open`.
struct Team {
  static constexpr int kMostThreads = 256;
  std::array<std::atomic<std::uint64_t>, kMostThreads> rounds{};  // of each helper
  std::atomic<int> open{0};
  std::atomic<std::uint64_t> sink{0};
  std::atomic<int> width{1};

  template <typename T>
  static void await(std::atomic<T>& value, T old) {
    for (int look = 0; look < kBusyLooks; ++look) {
      if (value.load(std::memory_order_acquire) != old) return;
    }
    value.wait(old, std::memory_order_acquire);
  }
  void part(std::uint64_t seed) { sink.fetch_add(work(kPiece / static_cast<std::uint64_t>(width.load()), seed), std::memory_order_relaxed); }
  void help(std::size_t index) {
    for (std::uint64_t seen = 0;; ++seen) {
      while (rounds[index].load(std::memory_order_acquire) == seen) await(rounds[index], seen);
      part(seen);
      if (open.fetch_sub(1, std::memory_order_acq_rel) == 1) open.notify_all();
    }
  }
  void lead(int wanted) {
    width.store(wanted);
    open.store(wanted - 1, std::memory_order_release);
    for (std::size_t i = 1; i < static_cast<std::size_t>(wanted); ++i) {
      rounds[i].fetch_add(1, std::memory_order_acq_rel);
      rounds[i].notify_all();
    }
    part(static_cast<std::uint64_t>(wanted));
    for (int left = open.load(std::memory_order_acquire); left != 0; left = open.load(std::memory_order_acquire)) await(open, left);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: %s THREADS PROGRESS [HINT]\n", argv[0]), 2;
  const int threads = std::clamp(std::atoi(argv[1]), 1, Team::kMostThreads);
  const int file = ::open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::ftruncate(file, sizeof(std::uint64_t)) != 0) return std::perror(argv[2]), 1;
  void* const shared = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) return std::perror("mmap"), 1;
  auto* const progress = static_cast<volatile std::uint64_t*>(shared);
  ::signal(SIGUSR1, [](int) { askedToLook.store(true); });

  static Team team;
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < static_cast<std::size_t>(threads); ++i) helpers.emplace_back([i] { team.help(i); });
  int width = threads;
  for (;;) {
    if (argc > 3 && askedToLook.exchange(false)) width = std::min(threads, hinted(argv[3], threads));
    team.lead(width);
    *progress = *progress + 1;
  }
}
