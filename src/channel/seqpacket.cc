#include "channel/seqpacket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "channel/control_messages.h"

namespace coterie::channel {

namespace {

int flagsOf(Wait wait) { return wait == Wait::Yes ? 0 : MSG_DONTWAIT; }

ReceiveOutcome failureOf(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) return ReceiveOutcome::Nothing;
  if (error == ECONNRESET || error == EPIPE) return ReceiveOutcome::Reset;
  return ReceiveOutcome::Failed;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> seqpacketPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return Error{Code::Unavailable, "NoSocket", std::string("no socket pair: ") + std::strerror(errno)};
  }
  return std::pair<UniqueFd, UniqueFd>(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Received receive(int fd, std::span<std::byte> buffer, Wait wait) {
  Received result;
  ssize_t size = 0;
  do {
    size = ::recv(fd, buffer.data(), buffer.size(), MSG_TRUNC | flagsOf(wait));
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    result.outcome = failureOf(errno);
  } else if (size == 0) {
    result.outcome = ReceiveOutcome::Closed;
  } else {
    result.outcome = ReceiveOutcome::Message;
    result.truncated = static_cast<std::size_t>(size) > buffer.size();
    result.size = result.truncated ? buffer.size() : static_cast<std::size_t>(size);
  }
  return result;
}

Received receiveWithFds(int fd, std::span<std::byte> buffer, Wait wait) {
  Received result;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))> control{};
  iovec iov{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC | flagsOf(wait));
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    result.outcome = failureOf(errno);
    return result;
  }
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      result.fds.emplace_back(received);
    }
  }
  result.outcome = size == 0 ? ReceiveOutcome::Closed : ReceiveOutcome::Message;
  result.truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  result.size = static_cast<std::size_t>(size);
  return result;
}

bool send(int fd, std::span<const std::byte> message, Wait wait) {
  ssize_t sent = 0;
  do {
    sent = ::send(fd, message.data(), message.size(), MSG_NOSIGNAL | flagsOf(wait));
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

bool sendWithFds(int fd, std::span<const std::byte> message, std::span<const int> fds, Wait wait) {
  if (fds.size() > kMaxFdsPerMessage) return false;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))> control{};
  iovec iov{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &header, MSG_NOSIGNAL | flagsOf(wait));
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

}  // namespace coterie::channel
