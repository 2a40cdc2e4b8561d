// POSTs thread hints to servers' HTTP hooks without holding the control loop up.
//
// A thread of its own sends one call after the other: connect within 1 s, an answer within 2 s, any 2xx is a success. Of several calls with one key
// only the last counts; one that fails is sent again a second later, at most 10 times, then it is said in the log. The destructor gives calls that
// wait one try each, and 3 s in all. Thread rule: call() from any thread; made and destroyed by the control loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/units.h"

namespace coterie::node_agent {

struct HookUrl {
  std::string address;  // an IP address
  std::uint16_t port{80};
  std::string target;  // "/threads?x=1"
};
// "http://127.0.0.1:9000/threads"; nothing if it is not of that form.
[[nodiscard]] std::optional<HookUrl> parseHookUrl(std::string_view url);

class HookCaller {
 public:
  struct Call {
    std::string key;  // whose it is
    HookUrl url;
    std::string body;  // JSON
  };
  explicit HookCaller(Millis pause = Millis{1000});
  ~HookCaller();
  HookCaller(const HookCaller&) = delete;
  HookCaller& operator=(const HookCaller&) = delete;

  void call(Call call);

 private:
  struct Waiting {
    Call call;
    int tries{0};
  };
  void run();
  [[nodiscard]] static bool send(const Call& call, std::string& why);

  const Millis pause_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Waiting> waiting_;
  bool ending_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace coterie::node_agent
