// Answers that go on: what a client hears while nothing is to be said, and when they end.
#include "admin/streams.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "testing/manual_loop.h"

namespace coterie::admin {
namespace {

// A client that keeps what it is sent, and may have left.
class Listener final : public http::RequestContext {
 public:
  [[nodiscard]] const http::RequestHead& head() const override { return head_; }
  [[nodiscard]] std::uint64_t bodyRemaining() const override { return 0; }
  void readInto(std::span<const std::span<std::byte>>, Done done) override { done({}); }
  void readAll(std::size_t, std::function<void(Result<std::string>)> done) override { done(std::string()); }
  void readCounted(std::size_t, MayHold, std::function<void(Result<std::string>)> done) override { done(std::string()); }
  void onClientGone(std::function<void()> callback) override { gone = std::move(callback); }
  [[nodiscard]] bool clientGone() const override { return false; }
  [[nodiscard]] const http::Peer& peer() const override { return peer_; }
  void respond(http::Response, Done) override {}
  void startStream(http::Response) override {}
  bool write(std::string_view piece) override { return heard.append(piece), takes; }
  void endStream() override { ended = true; }

  std::string heard;
  bool takes{true}, ended{false};
  std::function<void()> gone;

 private:
  http::RequestHead head_;
  http::Peer peer_{http::Peer::Kind::Local, {}, false, 0};
};

// Before another word, and within a moment if nothing is to be said; a follower and a watch alike.
TEST(StreamsTest, WhoMayNotBeToldAnyMoreIsCutOff) {
  testing::ManualLoop loop;
  Streams streams(loop);
  bool valid = true;
  const auto told = std::make_shared<Listener>();
  const auto silent = std::make_shared<Listener>();
  const auto follower = std::make_shared<Listener>();
  const auto free = std::make_shared<Listener>();
  const auto stream = streams.open(told, [&] { return valid; });
  static_cast<void>(streams.open(silent, [&] { return valid; }));
  streams.follow(follower, [] { return std::string("f"); }, [&] { return valid; });
  static_cast<void>(streams.open(free));
  streams.push(stream, "a");
  valid = false;
  streams.push(stream, "b");
  EXPECT_EQ(told->heard, "a");
  EXPECT_TRUE(told->ended);
  EXPECT_FALSE(silent->ended);
  loop.advance(Streams::kFollowInterval);
  EXPECT_TRUE(silent->ended);
  EXPECT_TRUE(follower->ended);
  EXPECT_EQ(follower->heard, "f");
  EXPECT_FALSE(free->ended);
}

TEST(StreamsTest, WhoListensHearsEveryFewSecondsThatTheServerIsThere) {
  testing::ManualLoop loop;
  Streams streams(loop);
  const auto first = std::make_shared<Listener>();
  const auto stream = streams.open(first);
  loop.advance(Streams::kBeatInterval - Millis(1));
  EXPECT_EQ(first->heard, "");
  loop.advance(Millis(1));
  EXPECT_EQ(first->heard, "\n");
  const auto second = std::make_shared<Listener>();
  static_cast<void>(streams.open(second));
  streams.push(stream, "{}\n");
  loop.advance(Streams::kBeatInterval * 2);
  EXPECT_EQ(first->heard, "\n{}\n\n\n");
  EXPECT_EQ(second->heard, "\n\n");
}

TEST(StreamsTest, WhoHasLeftOrIsTooSlowHearsNothingMoreAndAnotherOneDoes) {
  testing::ManualLoop loop;
  Streams streams(loop);
  const auto slow = std::make_shared<Listener>(), leaves = std::make_shared<Listener>();
  static_cast<void>(streams.open(slow));
  static_cast<void>(streams.open(leaves));
  slow->takes = false;
  loop.advance(Streams::kBeatInterval);
  EXPECT_TRUE(slow->ended);
  leaves->gone();
  EXPECT_TRUE(leaves->ended);
  loop.advance(Streams::kBeatInterval * 3);
  EXPECT_EQ(loop.pendingTimers(), 0U) << "nobody listens";
  EXPECT_EQ(slow->heard + leaves->heard, "\n\n");
  const auto later = std::make_shared<Listener>();
  static_cast<void>(streams.open(later));
  loop.advance(Streams::kBeatInterval);
  EXPECT_EQ(later->heard, "\n");
}

}  // namespace
}  // namespace coterie::admin
