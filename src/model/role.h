// What a caller is to the platform. The words are the ones that people write; what each may do is the table of tenancy/authorization.h. O(1). Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coterie {

enum class Role : std::uint8_t { Observe, Infer, TenantAdmin, PlatformAdmin };

// Those that a key may have: nobody's key is the platform's.
inline constexpr std::array kKeyRoles{Role::Observe, Role::Infer, Role::TenantAdmin};
inline constexpr std::array kAllRoles{Role::Observe, Role::Infer, Role::TenantAdmin, Role::PlatformAdmin};

[[nodiscard]] constexpr std::string_view roleName(Role role) {
  switch (role) {
    case Role::Observe: return "observe";
    case Role::Infer: return "infer";
    case Role::TenantAdmin: return "tenant-admin";
    case Role::PlatformAdmin: break;
  }
  return "platform-admin";
}

[[nodiscard]] constexpr std::optional<Role> roleNamed(std::string_view name) {
  for (const Role role : kAllRoles) {
    if (roleName(role) == name) return role;
  }
  return std::nullopt;
}

}  // namespace coterie
