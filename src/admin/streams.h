// Answers that go on line by line until the client leaves: watches, and followers that poll.
//
// While nothing is to be said, an empty line each kBeatInterval says that the server is there: who hears none for several of them knows that it is
// not. A client that reads too slowly is cut off (http::Limits.streamBacklog); it may watch again from where it was. Thread rule: the loop's thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "http/server.h"
#include "ports/clock.h"

namespace coterie::admin {

class Streams {
 public:
  static constexpr Nanos kFollowInterval = Millis(250);
  static constexpr Nanos kBeatInterval = Seconds(5);

  struct Stream {
    std::shared_ptr<http::RequestContext> request;
    bool open{true};
    std::shared_ptr<void> source;       // what feeds it, e.g. a watch; ends with it, but never from inside its own callback
    std::function<std::string()> next;  // for followers
    std::function<bool()> valid;        // may the client still be told? Empty: always
    TimerHandle timer;
  };

  explicit Streams(EventLoop& loop) : loop_(loop) {}
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Starts an answer of JSON lines. It ends before anything is written that `valid` denies, and within kFollowInterval of the denial.
  std::shared_ptr<Stream> open(const std::shared_ptr<http::RequestContext>& request, std::function<bool()> valid = {});
  void push(const std::shared_ptr<Stream>& stream, std::string_view lines);
  void close(const std::shared_ptr<Stream>& stream);
  // Sends what `next` returns, now and each kFollowInterval.
  void follow(const std::shared_ptr<http::RequestContext>& request, std::function<std::string()> next, std::function<bool()> valid = {});

 private:
  using List = std::list<std::shared_ptr<Stream>>;
  void poll(const std::shared_ptr<Stream>& stream);
  bool check(const std::shared_ptr<Stream>& stream);
  void beatLater();
  static void release(Stream& stream);

  EventLoop& loop_;
  TimerHandle beat_;
  List streams_;                                            // shared with callbacks that may still come after the end
  std::shared_ptr<List> closed_{std::make_shared<List>()};  // released on a turn of their own
};

}  // namespace coterie::admin
