// Who is at the other end of a connection, as far as limits go: an IPv4 address, an IPv6 network of 64 bits (one customer has at least that), this
// machine (which of its users, through a Unix socket). O(1). Thread-safe (no state).
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace coterie::http {

struct Peer {
  enum class Kind : std::uint8_t { Remote, Loopback, Local };  // Local: a Unix socket
  Kind kind{Kind::Remote};
  std::array<std::uint8_t, 8> network{};  // of Remote: an IPv4 address and zeros, or the first half of an IPv6 address
  bool ipv6{false};                       // of Remote
  std::optional<std::uint32_t> user{};    // of Local: who connected, where the kernel says so
  friend bool operator==(const Peer&, const Peer&) = default;

  [[nodiscard]] static Peer of(const sockaddr_storage& address);
  // At the other end of a connected Unix socket.
  [[nodiscard]] static Peer local(int fd);
  // "192.0.2.7", "2001:db8:1:2::/64", "loopback", "user 1000".
  [[nodiscard]] std::string text() const;
};

inline Peer Peer::local(int fd) {
  Peer peer{Kind::Local, {}, {}, {}};
  ucred who{};
  socklen_t length = sizeof(who);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && length == sizeof(who)) peer.user = who.uid;
  return peer;
}

inline Peer Peer::of(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) return {Kind::Local, {}, {}, {}};
  Peer peer{Kind::Remote, {}, {}, {}};  // also what we do not know: only a Unix socket is trusted to be local
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    if ((ntohl(v4.sin_addr.s_addr) >> 24U) == 127) return {Kind::Loopback, {}, {}, {}};
    std::memcpy(peer.network.data(), &v4.sin_addr, sizeof(v4.sin_addr));
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    const std::uint8_t* bytes = v6.sin6_addr.s6_addr;
    if (std::memcmp(bytes, &in6addr_loopback, sizeof(in6addr_loopback)) == 0) return {Kind::Loopback, {}, {}, {}};
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      sockaddr_in v4{};
      v4.sin_family = AF_INET;
      std::memcpy(&v4.sin_addr, bytes + 12, sizeof(v4.sin_addr));
      sockaddr_storage plain{};
      std::memcpy(&plain, &v4, sizeof(v4));
      return of(plain);
    }
    std::memcpy(peer.network.data(), bytes, peer.network.size());
    peer.ipv6 = true;
  }
  return peer;
}

inline std::string Peer::text() const {
  if (kind == Kind::Loopback) return "loopback";
  if (kind == Kind::Local) return user ? "user " + std::to_string(*user) : "a local user";
  std::array<char, INET6_ADDRSTRLEN> out{};
  std::array<std::uint8_t, 16> bytes{};
  std::copy(network.begin(), network.end(), bytes.begin());
  if (::inet_ntop(ipv6 ? AF_INET6 : AF_INET, bytes.data(), out.data(), out.size()) == nullptr) return "unknown";
  return ipv6 ? std::string(out.data()) + "/64" : std::string(out.data());
}

}  // namespace coterie::http
