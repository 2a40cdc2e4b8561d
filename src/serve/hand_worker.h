// A worker without a process, for tests: it takes requests and answers them when the test says so, over the sockets and arenas of a real one. It
// answers with its input times its factor, so that a test sees who answered.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "channel/arena.h"
#include "channel/lane_messages.h"
#include "channel/local_backend.h"
#include "channel/seqpacket.h"

namespace coterie::serve {

class HandWorker {
 public:
  HandWorker(int id, ModelSignature signature, const channel::RequestArena& arena, int lanes = 1, float factor = 1)
      : HandWorker(id, std::move(signature), arena.fd(), arena.size(), lanes, factor) {}
  HandWorker(int id, ModelSignature signature, int arena, std::uint64_t arenaSize, int lanes, float factor = 1) : factor_(factor) {
    endpoint_.id = InstanceId(id);
    endpoint_.signature = std::move(signature);
    endpoint_.answers = std::make_shared<channel::ResponseArena>(channel::ResponseArena::create(lanes, Bytes(4096)).value());
    requests_ = channel::mapShared(arena, arenaSize, channel::Access::Read).value();
    answers_ = channel::mapShared(endpoint_.answers->fd(), endpoint_.answers->size(), channel::Access::ReadWrite).value();
    for (int i = 0; i < lanes; ++i) {
      auto [here, there] = channel::seqpacketPair().value();
      endpoint_.ownLanes.push_back(std::move(here));
      lanes_.push_back(std::move(there));
    }
    auto [signals, ours] = channel::seqpacketPair().value();
    endpoint_.signals = std::move(signals);
    signals_ = std::move(ours);
    int life[2];
    EXPECT_EQ(::pipe(life), 0);
    endpoint_.process.reset(life[0]);  // readable once the other end is closed, as a pidfd is once the process is dead
    life_.reset(life[1]);
  }

  channel::InstanceEndpoint endpoint() { return std::move(endpoint_); }
  // Takes a request if one is there.
  bool take(int lane = 0) {
    const channel::Received received = channel::receive(lanes_[at(lane)].get(), buffer_, channel::Wait::No);
    if (received.outcome != channel::ReceiveOutcome::Message) return false;
    taken_.emplace();
    return channel::decode(std::span<const std::byte>(buffer_).first(received.size), *taken_);
  }
  // Answers what was taken last.
  void answer(int lane = 0) {
    const channel::RunMessage request = *std::exchange(taken_, std::nullopt);
    channel::AnswerMessage message;
    message.generation = request.generation;
    message.outputCount = 1;
    message.outputs[0] = request.inputs[0];
    message.outputs[0].index = request.outputs[0];
    message.outputs[0].offset = request.cellOffset;
    for (std::uint64_t i = 0; i < request.inputs[0].length; i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, requests_.bytes().data() + request.inputs[0].offset + i, sizeof value);
      value *= factor_;
      std::memcpy(answers_.bytes().data() + request.cellOffset + i, &value, sizeof value);
    }
    const std::size_t size = encode(message, buffer_);
    EXPECT_TRUE(channel::send(lanes_[at(lane)].get(), std::span<const std::byte>(buffer_).first(size), channel::Wait::No));
  }
  void die() {
    lanes_.clear();
    life_.reset();
  }

 private:
  static std::size_t at(int lane) { return static_cast<std::size_t>(lane); }

  float factor_;
  channel::InstanceEndpoint endpoint_;
  channel::Mapping requests_;
  channel::Mapping answers_;
  std::vector<UniqueFd> lanes_;
  UniqueFd signals_;
  UniqueFd life_;
  std::optional<channel::RunMessage> taken_;
  std::array<std::byte, channel::kMaxLaneMessage> buffer_{};
};

}  // namespace coterie::serve
