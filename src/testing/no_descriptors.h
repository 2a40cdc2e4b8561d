// For tests: while it lives this process can open no file, as if all its descriptors were in use; it can still stat.
#pragma once

#include <sys/resource.h>

namespace coterie::testing {

class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    struct rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  struct rlimit before_{};
};

}  // namespace coterie::testing
