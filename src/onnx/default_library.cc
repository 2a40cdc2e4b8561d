#include "onnx/default_library.h"

#include <cstdlib>

namespace coterie::onnx {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string cacheFolder() {
  if (std::string own = variable("COTERIE_CACHE"); !own.empty()) return own;
  if (const std::string all = variable("XDG_CACHE_HOME"); !all.empty()) return all + "/coterie";
  const std::string home = variable("HOME");
  return (home.empty() ? "/root" : home) + "/.cache/coterie";
}

}  // namespace

std::string defaultLibrary() { return cacheFolder() + "/ort/lib/libonnxruntime.so"; }

}  // namespace coterie::onnx
