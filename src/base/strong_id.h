// Identifiers that do not mix: StrongId<struct FooTag> is a small integer, StrongName<struct BarTag> a string.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace coterie {

template <typename Tag, typename Rep = std::int32_t>
struct StrongId {
  Rep value{-1};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

template <typename Tag>
struct StrongName {
  std::string value;

  StrongName() = default;
  explicit StrongName(std::string v) : value(std::move(v)) {}
  [[nodiscard]] bool empty() const { return value.empty(); }
  friend auto operator<=>(const StrongName&, const StrongName&) = default;
};

}  // namespace coterie

template <typename Tag, typename Rep>
struct std::hash<coterie::StrongId<Tag, Rep>> {
  std::size_t operator()(const coterie::StrongId<Tag, Rep>& id) const noexcept { return std::hash<Rep>{}(id.value); }
};
template <typename Tag>
struct std::hash<coterie::StrongName<Tag>> {
  std::size_t operator()(const coterie::StrongName<Tag>& name) const noexcept { return std::hash<std::string>{}(name.value); }
};
