// A thread that no signal is delivered to: they are for the loops. Its name is what ps and top show, at most 15 bytes.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

namespace coterie::files {

[[nodiscard]] inline std::thread quietThread(const char* name, std::function<void()> work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([name, work = std::move(work)] {
    ::pthread_setname_np(::pthread_self(), name);
    work();
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace coterie::files
