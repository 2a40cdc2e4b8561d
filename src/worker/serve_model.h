// The life of a worker after exec: set up, load, probe, start lanes, say Ready, wait for Stop.
//
// The service thread (main) holds the control socket to the supervisor and the signal socket to the gateway; lanes do the work. The process ends when
// told to, when the supervisor is gone, or by the supervisor's hand; it never outlives it. Thread rule: called once, from main().
#pragma once

namespace coterie::worker {

struct InheritedFds {
  int model{-1};
  int folder{-1};
  int runtime{-1};
};
int serveModel(const InheritedFds& fds);

}  // namespace coterie::worker
