// The Asio side of AsioLoop, for the .cc files of this folder only.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "http/asio_loop.h"

namespace coterie::http {

struct AsioLoop::Impl {
  boost::asio::io_context context{1};  // one thread runs it
};

}  // namespace coterie::http
