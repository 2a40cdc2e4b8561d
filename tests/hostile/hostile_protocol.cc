// The hostile worker's tries on the protocol: a worker that starts like ours and then lies.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "channel/lane_messages.h"
#include "channel/seqpacket.h"
#include "hostile.h"

namespace coterie::hostile {

namespace {

using channel::AnswerMessage;
using channel::RunMessage;
using channel::Wait;

[[noreturn]] void hang() {
  while (true) ::sleep(1000);
}

std::int32_t ownThread() { return static_cast<std::int32_t>(::syscall(SYS_gettid)); }

channel::ReadyMessage goodReady() {
  channel::ReadyMessage ready;
  ready.signature.inputs = {{"INPUT0", ElementType::Fp32, {-1, -1}, false}};
  ready.signature.outputs = {{"OUTPUT0", ElementType::Fp32, {-1, -1}, false}};
  ready.speeds = {{1, Nanos(1000), Nanos(1000), Nanos(1000)}};
  ready.ownLaneThreads = {ownThread()};
  ready.serviceThreads = {ownThread()};
  return ready;
}
void say(const channel::ReadyMessage& ready) { (void)channel::send(channel::kControlFd, encode(ready), Wait::Yes); }

RunMessage nextRequest(const Loot& loot) {
  std::array<std::byte, channel::kMaxLaneMessage> buffer{};
  const channel::Received received = channel::receive(loot.lane, buffer, Wait::Yes);
  RunMessage request;
  if (received.outcome != channel::ReceiveOutcome::Message || !decode(std::span<const std::byte>(buffer).first(received.size), request)) std::exit(4);
  return request;
}
AnswerMessage rightAnswer(const RunMessage& request) {
  AnswerMessage answer;
  answer.generation = request.generation;
  answer.outputCount = 1;
  answer.outputs[0] = request.inputs[0];
  answer.outputs[0].index = request.outputs[0];
  answer.outputs[0].offset = request.cellOffset;
  return answer;
}
void reply(const Loot& loot, const AnswerMessage& answer) {
  std::array<std::byte, channel::kMaxLaneMessage> buffer{};
  const std::size_t size = encode(answer, buffer);
  (void)channel::send(loot.lane, std::span<const std::byte>(buffer).first(size), Wait::Yes);
}

// Ready, then one answer with one lie in it.
void lie(const Loot& loot, const std::function<void(AnswerMessage&, const RunMessage&)>& change) {
  say(goodReady());
  const RunMessage request = nextRequest(loot);
  AnswerMessage answer = rightAnswer(request);
  change(answer, request);
  reply(loot, answer);
  hang();
}

void sendRaw(int fd, std::size_t size, int fill) {
  const std::vector<std::byte> bytes(size, static_cast<std::byte>(fill));
  (void)channel::send(fd, bytes, Wait::Yes);
}

void passDescriptors(const Loot& loot) {
  say(goodReady());
  const RunMessage request = nextRequest(loot);
  std::array<std::byte, channel::kMaxLaneMessage> buffer{};
  const std::size_t size = encode(rightAnswer(request), buffer);
  std::vector<int> fds(32, loot.answers);
  (void)channel::sendWithFds(loot.lane, std::span<const std::byte>(buffer).first(size), fds, Wait::Yes);
  hang();
}

void eatMemory() {
  for (int i = 0; i < 10240; ++i) {  // 10 GB, touched
    void* data = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) std::abort();
    std::memset(data, 1, 1 << 20);
  }
  hang();
}

// Rewrites its answer while the gateway reads it.
void scribble(const Loot& loot) {
  say(goodReady());
  void* data = ::mmap(nullptr, loot.setup.responseBytes, PROT_READ | PROT_WRITE, MAP_SHARED, loot.answers, 0);
  const RunMessage request = nextRequest(loot);
  reply(loot, rightAnswer(request));
  for (int i = 0;; ++i) std::memset(data, i, 65536);
}

// Works for what it is asked, and says that it only waited: its tenant would be charged nothing, and others pay for its share.
void waitsOnly(const Loot& loot) {
  say(goodReady());
  const RunMessage request = nextRequest(loot);
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  const auto before = used();
  while (used() - before < 20'000'000) continue;
  AnswerMessage answer = rightAnswer(request);
  answer.queuedNanos = 3'600'000'000'000;
  answer.cpuNanos = 3'600'000'000'000;
  reply(loot, answer);
  hang();
}

using Play = std::function<void(const Loot&)>;

const std::map<std::string, Play>& plays() {
  static const std::map<std::string, Play> kPlays = {
      {"wrong-generation", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { ++a.generation; }); }},
      {"double-answer", [](const Loot& l) { lie(l, [&](AnswerMessage& a, const RunMessage&) { reply(l, a); }); }},
      {"unasked-answer", [](const Loot& l) { say(goodReady()), reply(l, AnswerMessage{}), hang(); }},
      {"offset-in-another-cell",
       [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage& r) { a.outputs[0].offset = r.cellOffset + r.cellBytes; }); }},
      {"offset-overflow", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].offset = ~0ULL - 63; }); }},
      {"offset-unaligned", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].offset += 4; }); }},
      {"length-beyond-the-cell", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage& r) { a.outputs[0].length = r.cellBytes + 1; }); }},
      {"ten-gigabyte-answer",
       [](const Loot& l) {
         lie(l, [](AnswerMessage& a, const RunMessage&) {
           a.outputs[0].length = 10ULL << 30;
           a.outputs[0].dims = {1, (10LL << 30) / 4};
         });
       }},
      {"length-of-another-shape", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].length += 4; }); }},
      {"shape-overflow", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].dims = {1LL << 62, 16}; }); }},
      {"negative-dimension", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].dims = {-1, -1}; }); }},
      {"another-rank", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].rank = 3; }); }},
      {"another-output", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputs[0].index = 9; }); }},
      {"too-many-outputs", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputCount = 64; }); }},
      {"no-outputs", [](const Loot& l) { lie(l, [](AnswerMessage& a, const RunMessage&) { a.outputCount = 0; }); }},
      {"garbage", [](const Loot& l) { say(goodReady()), (void)nextRequest(l), sendRaw(l.lane, 300, 0xA5), hang(); }},
      {"endless-message", [](const Loot& l) { say(goodReady()), (void)nextRequest(l), sendRaw(l.lane, 150'000, 0), hang(); }},
      {"silence", [](const Loot& l) { say(goodReady()), (void)nextRequest(l), hang(); }},
      {"closes-its-lane", [](const Loot& l) { say(goodReady()), (void)nextRequest(l), ::close(l.lane), hang(); }},
      {"half-closes-its-lane", [](const Loot& l) { say(goodReady()), (void)nextRequest(l), ::shutdown(l.lane, SHUT_WR), hang(); }},
      {"others-threads",
       [](const Loot&) {
         auto ready = goodReady();
         ready.ownLaneThreads = {1};
         say(ready), hang();
       }},
      {"more-lanes-than-given",
       [](const Loot&) {
         auto ready = goodReady();
         ready.ownLaneThreads.assign(100, ownThread());
         say(ready), hang();
       }},
      {"no-signature",
       [](const Loot&) {
         auto ready = goodReady();
         ready.signature = {};
         say(ready), hang();
       }},
      {"control-characters",
       [](const Loot&) {
         auto ready = goodReady();
         ready.signature.outputs[0].name = "\x1b[2J";
         say(ready), hang();
       }},
      {"ready-twice", [](const Loot&) { say(goodReady()), say(goodReady()), hang(); }},
      {"control-garbage", [](const Loot&) { sendRaw(channel::kControlFd, 1000, 0xFF), hang(); }},
      {"progress-beyond-all", [](const Loot&) { (void)channel::send(channel::kControlFd, channel::encodeProgress(1 << 30), Wait::Yes), hang(); }},
      {"ends-at-once", [](const Loot&) { ::_exit(0); }},
      {"crashes-in-its-run", [](const Loot& l) { say(goodReady()), (void)nextRequest(l), std::abort(); }},
      {"passes-descriptors", passDescriptors},
      {"says-it-only-waited", waitsOnly},
      {"ten-gigabytes-of-memory", [](const Loot&) { eatMemory(); }},
      {"rewrites-its-answer", scribble},
      {"floods-standard-error",
       [](const Loot&) {
         say(goodReady());
         const std::string line(4096, 'x');
         while (::write(2, line.data(), line.size()) != 0) continue;
       }},
  };
  return kPlays;
}

}  // namespace

void breakProtocol(const std::string& name, const Loot& loot) {
  if (const auto found = plays().find(name); found != plays().end()) found->second(loot);
}

}  // namespace coterie::hostile
