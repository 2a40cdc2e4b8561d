// How tenants and groups look on the map: a colour per tenant, a pattern per group of a tenant, stripes in the borrower's colour for loans.
//
// Colours are Okabe and Ito's, which people with any common colour vision tell apart ("Color Universal Design", 2008), without black; from the eighth
// tenant on they come again lighter, then darker. Patterns stay clear of diagonals, which mean a loan; the first group of a tenant is plain; from the
// ninth on the patterns come again, wider. Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plan_node/node_plan.h"

namespace coterie::plan_node {

inline constexpr std::string_view kPoolFill = "#cfd3d6";
inline constexpr std::string_view kFreeFill = "#ffffff";
inline constexpr std::string_view kClosedFill = "#8a8f94";  // reserved, isolated or not allowed

[[nodiscard]] std::string tenantColour(std::size_t tenant);  // "#e69f00"
// For <defs>: each group's fill "gN" and, for those that borrow, its stripes "loanN"; N counts groups from 1.
[[nodiscard]] std::string patternDefinitions(const NodePlan& plan);
[[nodiscard]] std::string groupFill(std::size_t group);  // "url(#g1)"
[[nodiscard]] std::string loanFill(std::size_t group);   // "url(#loan1)"

// For text and attributes; what XML 1.0 cannot hold, and what is not UTF-8, becomes '?'.
[[nodiscard]] std::string xmlText(std::string_view text);

}  // namespace coterie::plan_node
