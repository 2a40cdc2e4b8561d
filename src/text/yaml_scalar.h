// How YAML 1.2's core schema reads a plain (unquoted) scalar: shared by the parser and the printer, which quotes whatever would not stay text.
#pragma once

#include <string>
#include <string_view>

#include "model/value.h"

namespace coterie::text {

struct PlainScalar {
  Value value;        // of the scalar; text if it is nothing else
  std::string fault;  // not empty: what is wrong with it
};
[[nodiscard]] PlainScalar readPlainScalar(std::string_view text);

}  // namespace coterie::text
