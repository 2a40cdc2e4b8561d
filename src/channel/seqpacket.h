// Sockets that keep message borders (AF_UNIX, SOCK_SEQPACKET), as workers and their supervisor use them.
//
// When a process dies with a message unread in its socket, the kernel tells the other end by ECONNRESET instead of end-of-file (unix(7): "unread
// data"); the gateway knows by this whether a dead worker had taken a request. Everything is close-on-exec and non-blocking where said.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace coterie::channel {

// Both ends blocking and close-on-exec.
[[nodiscard]] Result<std::pair<UniqueFd, UniqueFd>> seqpacketPair();

enum class ReceiveOutcome : std::uint8_t { Message, Nothing, Closed, Reset, Failed };
struct Received {
  ReceiveOutcome outcome{ReceiveOutcome::Nothing};
  std::size_t size{0};
  bool truncated{false};      // the message was longer than the buffer
  std::vector<UniqueFd> fds;  // descriptors that came with it
};
// `wait`: block until something comes. A message of no bytes counts as Closed: SEQPACKET does not tell the two apart.
enum class Wait : std::uint8_t { No, Yes };
[[nodiscard]] Received receive(int fd, std::span<std::byte> buffer, Wait wait);
// As receive(), and takes descriptors too (close-on-exec).
[[nodiscard]] Received receiveWithFds(int fd, std::span<std::byte> buffer, Wait wait);

// False if the peer is gone or its queue is full. Never raises SIGPIPE.
[[nodiscard]] bool send(int fd, std::span<const std::byte> message, Wait wait);
[[nodiscard]] bool sendWithFds(int fd, std::span<const std::byte> message, std::span<const int> fds, Wait wait);

}  // namespace coterie::channel
