#include "oip/target.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace coterie::oip {

namespace {

constexpr std::size_t kMaxSegments = 8;

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// nullopt: a broken escape, or a control character.
std::optional<std::string> decodePercent(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || hexDigit(text[i + 1]) < 0 || hexDigit(text[i + 2]) < 0) return std::nullopt;
      c = static_cast<char>(hexDigit(text[i + 1]) * 16 + hexDigit(text[i + 2]));
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
    decoded += c;
  }
  return decoded;
}

struct Path {
  std::array<std::string_view, kMaxSegments> segments;
  std::size_t size{0};

  [[nodiscard]] std::string_view at(std::size_t i) const { return i < size ? segments[i] : std::string_view{}; }
};

// Splits at slashes; one trailing slash is ignored. nullopt: no absolute path, an empty segment, or more segments than any endpoint has.
std::optional<Path> split(std::string_view path) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  path.remove_prefix(1);
  if (!path.empty() && path.back() == '/') path.remove_suffix(1);
  Path parts;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    if (segment.empty() || parts.size == kMaxSegments) return std::nullopt;
    parts.segments[parts.size++] = segment;
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

Endpoint modelEndpoint(std::string_view verb) {
  constexpr std::array<std::pair<std::string_view, Endpoint>, 5> kVerbs{{{"", Endpoint::ModelMetadata},
                                                                         {"infer", Endpoint::Infer},
                                                                         {"ready", Endpoint::ModelReady},
                                                                         {"config", Endpoint::ModelConfig},
                                                                         {"stats", Endpoint::ModelStatistics}}};
  for (const auto& [name, endpoint] : kVerbs) {
    if (name == verb) return endpoint;
  }
  return Endpoint::Unknown;
}

// /v2/models/M[/versions/V][/verb]
Target modelTarget(const Path& path) {
  if (path.size == 3 && path.at(2) == "stats") return {Endpoint::AllStatistics, {}, {}};
  if (path.size < 3) return {};
  Target target;
  auto name = decodePercent(path.at(2));
  if (!name) return {};
  target.model = std::move(*name);
  std::size_t next = 3;
  if (path.at(3) == "versions") {
    auto version = decodePercent(path.at(4));
    if (!version || version->empty()) return {};
    target.version = std::move(*version);
    next = 5;
  }
  if (path.at(next) == "trace" && path.at(next + 1) == "setting" && path.size == next + 2)
    target.endpoint = Endpoint::TraceSetting;
  else if (path.size <= next + 1)
    target.endpoint = modelEndpoint(path.at(next));
  return target.endpoint == Endpoint::Unknown ? Target{} : target;
}

// /v2/repository/index, /v2/repository/models/M/{load,unload}
Target repositoryTarget(const Path& path) {
  if (path.size == 3 && path.at(2) == "index") return {Endpoint::RepositoryIndex, {}, {}};
  if (path.size != 5 || path.at(2) != "models") return {};
  auto name = decodePercent(path.at(3));
  if (!name) return {};
  if (path.at(4) == "load") return {Endpoint::RepositoryLoad, std::move(*name), {}};
  if (path.at(4) == "unload") return {Endpoint::RepositoryUnload, std::move(*name), {}};
  return {};
}

// /v2/{system,cuda}sharedmemory[/region/R]/{status,register,unregister}
Target sharedMemoryTarget(const Path& path) {
  const bool region = path.at(2) == "region";
  if (path.size != (region ? 5U : 3U)) return {};
  const std::string_view verb = path.at(path.size - 1);
  if (verb == "status") return {Endpoint::SharedMemoryStatus, {}, {}};
  if (verb == "register" || verb == "unregister") return {Endpoint::SharedMemoryChange, {}, {}};
  return {};
}

}  // namespace

Target parseTarget(std::string_view target) {
  const auto path = split(target.substr(0, target.find('?')));
  if (!path || path->at(0) != "v2") return {};
  const std::string_view what = path->at(1);
  if (path->size == 1) return {Endpoint::ServerMetadata, {}, {}};
  if (what == "models") return modelTarget(*path);
  if (what == "repository") return repositoryTarget(*path);
  if (what == "systemsharedmemory" || what == "cudasharedmemory") return sharedMemoryTarget(*path);
  if (what == "logging" && path->size == 2) return {Endpoint::Logging, {}, {}};
  if (path->size != 3) return {};
  if (what == "trace" && path->at(2) == "setting") return {Endpoint::TraceSetting, {}, {}};
  if (what == "health" && path->at(2) == "live") return {Endpoint::Live, {}, {}};
  if (what == "health" && path->at(2) == "ready") return {Endpoint::Ready, {}, {}};
  return {};
}

bool wantsPost(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::Infer:
    case Endpoint::RepositoryIndex:
    case Endpoint::RepositoryLoad:
    case Endpoint::RepositoryUnload:
    case Endpoint::SharedMemoryChange: return true;
    default: return false;
  }
}

ServiceName resolveModel(std::string_view model, std::string_view homeNamespace) {
  const std::size_t dot = model.find('.');
  if (dot == std::string_view::npos) return {std::string(homeNamespace), std::string(model)};
  return {std::string(model.substr(0, dot)), std::string(model.substr(dot + 1))};
}

}  // namespace coterie::oip
