#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "channel/answer_check.h"
#include "channel/arena.h"
#include "channel/control_messages.h"
#include "channel/lane_messages.h"
#include "channel/seqpacket.h"

namespace coterie::channel {
namespace {

TensorPlace place(Rng& rng) {
  TensorPlace result;
  result.index = static_cast<std::uint16_t>(rng());
  result.rank = static_cast<std::uint16_t>(rng.between(0, kMaxRank));
  result.offset = rng();
  result.length = rng();
  for (std::size_t i = 0; i < result.rank; ++i) result.dims[i] = static_cast<std::int64_t>(rng());
  return result;
}

TEST(LaneMessages, ComeBackAsTheyWereAndNotWhenCutOrExtended) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Rng rng(seed);
    RunMessage run;
    run.generation = rng();
    run.cellOffset = rng();
    run.cellBytes = rng();
    run.memberCount = static_cast<std::uint16_t>(rng.between(1, 6));
    run.inputCount = static_cast<std::uint16_t>(rng.between(0, static_cast<std::int64_t>(std::min(kMaxTensors, kMaxPlaces / run.memberCount))));
    run.outputCount = static_cast<std::uint16_t>(rng.between(0, kMaxTensors));
    for (std::size_t i = 0; i < std::size_t{run.memberCount} * run.inputCount; ++i) run.inputs[i] = place(rng);
    for (std::size_t i = 0; i < run.outputCount; ++i) run.outputs[i] = static_cast<std::uint16_t>(rng());
    std::vector<std::byte> buffer(kMaxLaneMessage + 1);
    const std::size_t size = encode(run, buffer);
    RC_ASSERT(size > 0U);
    const std::span<const std::byte> bytes = std::span<const std::byte>(buffer).first(size);
    RunMessage back;
    RC_ASSERT(decode(bytes, back));
    std::vector<std::byte> again(kMaxLaneMessage);
    RC_ASSERT(encode(back, again) == size);
    RC_ASSERT(std::equal(bytes.begin(), bytes.end(), again.begin()));
    RC_ASSERT(!decode(bytes.first(static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(size) - 1))), back));
    RC_ASSERT(!decode(std::span<const std::byte>(buffer).first(size + 1), back));
    AnswerMessage other;
    RC_ASSERT(!decode(bytes, other));
  }));
}

TEST(LaneMessages, TheLargestRunFitsAndLargerOnesAreRefused) {
  RunMessage run;
  run.memberCount = kMaxMembers;
  run.inputCount = kMaxPlaces / kMaxMembers;
  run.outputCount = kMaxTensors;
  for (TensorPlace& place : run.inputs) place.rank = kMaxRank;
  std::vector<std::byte> buffer(kMaxLaneMessage);
  const std::size_t size = encode(run, buffer);
  ASSERT_GT(size, 0U);
  RunMessage back;
  ASSERT_TRUE(decode(std::span<const std::byte>(buffer).first(size), back));
  EXPECT_EQ(back.inputsOf(kMaxMembers - 1).data(), &back.inputs[kMaxPlaces - run.inputCount]);
  // The numbers of members and of inputs follow the kind.
  const auto changed = [&](std::size_t at, std::uint16_t to) {
    std::vector<std::byte> other(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
    std::memcpy(other.data() + at, &to, sizeof to);
    return decode(other, back);
  };
  EXPECT_FALSE(changed(2, kMaxMembers + 1));
  EXPECT_FALSE(changed(4, kMaxPlaces / kMaxMembers + 1));
  // Without inputs the length is right for any number of members.
  run.inputCount = 0;
  buffer.resize(encode(run, buffer));
  const auto ofMembers = [&](std::uint16_t members) {
    std::memcpy(buffer.data() + 2, &members, sizeof members);
    return decode(buffer, back);
  };
  EXPECT_TRUE(ofMembers(2));
  EXPECT_FALSE(ofMembers(1)) << "one has a form of its own";
  EXPECT_FALSE(ofMembers(0));
  EXPECT_FALSE(ofMembers(kMaxMembers + 1));
}

TEST(LaneMessages, ASequencesPartComesBackAndOnlyThere) {
  RunMessage run;
  run.outputCount = 3;
  run.outputs = {4, 1, 2};
  run.sequence = 77;
  run.end = run.takesBack = true;
  run.stateBytes = 1 << 20;
  run.stateCount = 2;
  run.stateInputs[0] = 5;
  run.stateInputs[1] = 9;
  std::vector<std::byte> buffer(kMaxLaneMessage);
  const std::size_t size = encode(run, buffer);
  ASSERT_GT(size, 0U);
  RunMessage back;
  ASSERT_TRUE(decode(std::span<const std::byte>(buffer).first(size), back));
  EXPECT_EQ(back.sequence, 77U);
  EXPECT_TRUE(back.end && back.takesBack && !back.fresh);
  EXPECT_EQ(back.stateBytes, 1U << 20U);
  EXPECT_EQ(back.answerCount(), 1U);
  EXPECT_EQ(back.stateInputs[1], 9);
  for (std::size_t cut = 0; cut < size; ++cut) EXPECT_FALSE(decode(std::span<const std::byte>(buffer).first(cut), back)) << cut;
  run.stateCount = 4;
  EXPECT_FALSE(decode(std::span<const std::byte>(buffer).first(encode(run, buffer)), back)) << "more states than outputs";
  run.stateCount = 0;
  run.memberCount = 2;
  EXPECT_EQ(encode(run, buffer), 0U) << "a batch is of no sequence";
  run.memberCount = 1;
  run.sequence = 0;
  ASSERT_TRUE(decode(std::span<const std::byte>(buffer).first(encode(run, buffer)), back));
  EXPECT_EQ(back.sequence, 0U);
  EXPECT_EQ(back.stateCount, 0U) << "nothing is left of the message before";
  ForgetMessage forget;
  TerminateMessage terminate;
  const std::size_t small = encode(ForgetMessage{9}, buffer);
  ASSERT_TRUE(decode(std::span<const std::byte>(buffer).first(small), forget));
  EXPECT_EQ(forget.sequence, 9U);
  EXPECT_FALSE(decode(std::span<const std::byte>(buffer).first(small), terminate));
}

TEST(LaneMessages, AFailuresTextIsCutAndItsCodeIsChosenByUs) {
  AnswerMessage answer;
  answer.failed = true;
  answer.error = {Code::Unauthenticated, "Reason\x1b", std::string(5000, 'x') + "\n"};
  std::vector<std::byte> buffer(kMaxLaneMessage);
  const std::size_t size = encode(answer, buffer);
  AnswerMessage back;
  ASSERT_TRUE(decode(std::span<const std::byte>(buffer).first(size), back));
  EXPECT_EQ(back.error.message.size(), kMaxErrorText);
  const Error shown = presentable(back.error);
  EXPECT_EQ(shown.code, Code::Internal) << "a worker cannot pretend that credentials are wrong";
  EXPECT_EQ(shown.reason, "Reason?");
  EXPECT_EQ(shown.message.size(), 512U);
}

TEST(ControlMessages, ComeBackAsTheyWere) {
  SetupMessage setup;
  setup.modelName = "m.onnx";
  setup.sha256 = std::string(64, 'a');
  setup.ownLanes = 3;
  setup.probe = {{"x", {1, 2}}};
  setup.measureWidths = {2, 4};
  setup.measureNanos = 5;
  setup.preparedBytes = 7;
  setup.judge = false;
  const auto back = decodeSetup(encode(setup));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->modelName, "m.onnx");
  EXPECT_EQ(back->probe.at(0).shape, (Shape{1, 2}));
  EXPECT_EQ(back->measureWidths, (std::vector<std::int32_t>{2, 4}));
  EXPECT_EQ(back->measureNanos, 5);
  EXPECT_FALSE(back->prepare);
  EXPECT_FALSE(back->judge);
  EXPECT_EQ(back->preparedBytes, 7U);
  EXPECT_TRUE(back->bringsMemoryFile());

  ReadyMessage ready;
  ready.signature.outputs = {{"y", ElementType::Int64, {-1}, false}};
  ready.speeds = {{1, Nanos(5), Nanos(6), Nanos(7)}};
  ready.ownLaneThreads = {10, 11};
  ready.prepared = true;
  ASSERT_TRUE(decodeReady(encode(ready)).ok());
  EXPECT_TRUE(decodeReady(encode(ready))->prepared);
  EXPECT_EQ(decodeReady(encode(ready))->ownLaneThreads, (std::vector<std::int32_t>{10, 11}));
  ready.speeds[0].mean = Nanos(-1);
  EXPECT_FALSE(decodeReady(encode(ready)).ok());
  ready.speeds.clear();
  ready.signature.outputs[0].shape = {-2};
  EXPECT_FALSE(decodeReady(encode(ready)).ok());
  EXPECT_FALSE(decodeProgress(encodeProgress(101)).ok());
  EXPECT_EQ(kindOf(encodePlain(ControlKind::Stop)), ControlKind::Stop);
  EXPECT_FALSE(kindOf({}).has_value());
}

struct PlaceCase {
  const char* name;
  std::uint64_t offset;
  std::uint64_t length;
  std::vector<std::int64_t> dims;
  bool good;
};

TEST(AnswerCheck, PlacesMustLieInTheCellAndFitTheShape) {
  const ModelSignature signature{{}, {{"y", ElementType::Fp32, {kDynamic, 4}, false}}};
  constexpr std::uint64_t kCell = 8192;
  const int wanted[] = {0};
  for (const PlaceCase& c : std::vector<PlaceCase>{{"fits", 8192, 32, {2, 4}, true},
                                                   {"empty", 8192, 0, {0, 4}, true},
                                                   {"ends at the cell's end", 8192 + 4096 - 64, 64, {4, 4}, true},
                                                   {"before the cell", 8128, 32, {2, 4}, false},
                                                   {"beyond the cell", 8192 + 4096 - 64, 128, {8, 4}, false},
                                                   {"offset wraps", ~0ULL - 63, 32, {2, 4}, false},
                                                   {"length wraps", 8192, ~0ULL, {2, 4}, false},
                                                   {"not aligned", 8196, 32, {2, 4}, false},
                                                   {"other fixed dimension", 8192, 40, {2, 5}, false},
                                                   {"other rank", 8192, 32, {8}, false},
                                                   {"negative", 8192, 32, {-2, 4}, false},
                                                   {"overflow", 8192, 0, {1LL << 60, 4}, false},
                                                   {"length of another shape", 8192, 36, {2, 4}, false}}) {
    AnswerMessage answer;
    answer.outputCount = 1;
    answer.outputs[0].offset = c.offset;
    answer.outputs[0].length = c.length;
    answer.outputs[0].rank = static_cast<std::uint16_t>(c.dims.size());
    std::copy(c.dims.begin(), c.dims.end(), answer.outputs[0].dims.begin());
    EXPECT_EQ(checkPlaces(answer, signature, wanted, kCell, 4096).ok(), c.good) << c.name;
  }
}

TEST(AnswerCheck, ByteStringsAreWalked) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  const std::int64_t two[] = {2};
  const std::int64_t none[] = {0};
  const std::int64_t huge[] = {1LL << 62, 1LL << 62};
  using namespace std::string_view_literals;
  EXPECT_TRUE(wellFormedByteStrings(bytes("\1\0\0\0a\0\0\0\0"sv), two));
  EXPECT_FALSE(wellFormedByteStrings(bytes("\2\0\0\0a\0\0\0\0"sv), two));
  EXPECT_FALSE(wellFormedByteStrings(bytes("\1\0\0\0a\0\0\0"sv), two));
  EXPECT_FALSE(wellFormedByteStrings(bytes("\1\0\0\0a\0\0\0\0x"sv), two));
  EXPECT_TRUE(wellFormedByteStrings({}, none));
  EXPECT_FALSE(wellFormedByteStrings({}, huge));
}

TEST(Arena, CellsReturnWhenReleasedAndKeepTheArenaAlive) {
  std::shared_ptr<RequestArena> arena = RequestArena::create({Bytes(1 << 20), Bytes(1 << 18)}).value();
  EXPECT_EQ(RequestArena::allocate(arena, (1 << 18) + 1).error().reason, "RequestTooLarge");
  auto cell = RequestArena::allocate(arena, 100).value();
  EXPECT_EQ(cell->bytes().size(), 100U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cell->bytes().data()) % kTensorAlignment, 0U);
  const std::weak_ptr<RequestArena> watched = arena;
  arena.reset();
  cell->bytes()[99] = std::byte{1};
  cell.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Arena, AMappingOfAnotherSizeIsRefused) {
  auto answers = ResponseArena::create(2, Bytes(5000));
  ASSERT_TRUE(answers.ok());
  EXPECT_EQ(answers->cellBytes(), 8192U);
  EXPECT_EQ(answers->size(), 4 * 8192U);
  EXPECT_EQ(answers->cellOffset(1, 1), 3 * 8192U);
  EXPECT_FALSE(mapShared(answers->fd(), answers->size() * 2, Access::ReadWrite).ok());
}

// The gateway's way of telling a request that a dead worker never took from one that was in its run.
TEST(Seqpacket, ADeadPeerWithUnreadMessagesResetsOneWithoutClosesQuietly) {
  const std::byte message[] = {std::byte{1}};
  std::byte buffer[8];
  auto unread = seqpacketPair().value();
  ASSERT_TRUE(send(unread.first.get(), message, Wait::No));
  unread.second.reset();
  EXPECT_EQ(receive(unread.first.get(), buffer, Wait::No).outcome, ReceiveOutcome::Reset);
  auto taken = seqpacketPair().value();
  ASSERT_TRUE(send(taken.first.get(), message, Wait::No));
  ASSERT_EQ(receive(taken.second.get(), buffer, Wait::No).size, 1U);
  taken.second.reset();
  EXPECT_EQ(receive(taken.first.get(), buffer, Wait::No).outcome, ReceiveOutcome::Closed);
  EXPECT_FALSE(send(taken.first.get(), message, Wait::No));
}

TEST(Seqpacket, AMessageLongerThanTheBufferIsMarked) {
  auto pair = seqpacketPair().value();
  const std::vector<std::byte> message(100);
  ASSERT_TRUE(send(pair.first.get(), message, Wait::No));
  std::byte buffer[10];
  const Received received = receive(pair.second.get(), buffer, Wait::No);
  EXPECT_TRUE(received.truncated);
  EXPECT_EQ(received.size, 10U);
}

}  // namespace
}  // namespace coterie::channel
