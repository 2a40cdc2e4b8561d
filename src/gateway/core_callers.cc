#include <cstring>
#include <utility>

#include "gateway/core.h"
#include "http/api_key.h"

namespace coterie::gateway {

namespace {

// This machine is one source, as is each user of it who comes through a Unix socket.
tenancy::Source sourceOf(const http::Peer& peer) {
  tenancy::Source source;
  source.kind = (static_cast<std::uint64_t>(peer.kind) << 34U) | (std::uint64_t{peer.ipv6} << 33U);
  if (peer.user) source.kind |= (std::uint64_t{1} << 32U) | *peer.user;
  std::memcpy(&source.network, peer.network.data(), sizeof(source.network));
  return source;
}

}  // namespace

std::variant<Gateway::Core::Known, Refused> Gateway::Core::whoCalls(const http::RequestContext& context) {
  const http::RequestHead& head = context.head();
  const auto stranger = [](Code code, std::string reason, std::string message) {
    return Refused{{code, std::move(reason), std::move(message)}, {}, {}, 0};
  };
  if (http::hasSeveralKeys(head))
    return stranger(Code::InvalidArgument, "SeveralKeys", "send one key, in Authorization or in X-API-Key, not several");
  const std::string_view key = http::keyOf(head);
  if (key.empty()) return stranger(Code::Unauthenticated, "NoKey", "send an API key: Authorization: Bearer ctk_... (`coterie key create` makes one)");
  const tenancy::Source source = sourceOf(context.peer());
  const Instant when = now();
  if (const auto wait = authentication_.refuses(source, key, when)) return authenticationLimited(*wait);
  auto caller = authenticate_(key);
  if (!caller) {
    authentication_.failed(source, key, when);
    return Refused{caller.error(), {}, {}, 0};
  }
  authentication_.succeeded(source, key, when);
  const auto known = tenantIds_.find(caller->tenant);
  if (known == tenantIds_.end() || tenants_[static_cast<std::size_t>(known->second.value)]->removed)
    return stranger(Code::Unauthenticated, std::string(kUnknownTenant), "this key's tenant does not exist any more");
  return Known{tenants_[static_cast<std::size_t>(known->second.value)].get(), caller->role, std::move(caller->keyId)};
}

}  // namespace coterie::gateway
