// Log lines for an operator: what happened, to whom, what it means, what to do. One line per call on standard error, with UTC time and level; written
// by one write(2), so lines of several threads do not mix. Control characters in the text are escaped, so that a tenant's bytes cannot forge a line.
// Not for pure cores. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace coterie::log {

enum class Level : std::uint8_t { Debug, Info, Warning, Error };

void setLevel(Level level);
void write(Level level, std::string_view component, std::string_view message);

inline void debug(std::string_view component, std::string_view message) { write(Level::Debug, component, message); }
inline void info(std::string_view component, std::string_view message) { write(Level::Info, component, message); }
inline void warning(std::string_view component, std::string_view message) { write(Level::Warning, component, message); }
inline void error(std::string_view component, std::string_view message) { write(Level::Error, component, message); }

}  // namespace coterie::log
