// Where `./dev setup` puts ONNX Runtime's shared library, for everybody who starts workers and was told no other place.
//
// $COTERIE_CACHE/ort/lib, else $XDG_CACHE_HOME/coterie/ort/lib, else ~/.cache/coterie/ort/lib; an empty variable counts as unset, as in
// tools/common.sh. Whether the file is there is found out by whoever opens it. Reads the environment: call it before threads change that.
#pragma once

#include <string>

namespace coterie::onnx {

[[nodiscard]] std::string defaultLibrary();

}  // namespace coterie::onnx
