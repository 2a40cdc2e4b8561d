// Makes a folder of the quick form that runs on another x86-64 Linux machine: this binary, ONNX Runtime and the libraries it uses, and run.sh.
//
// Models are generated there. The libraries of glibc itself are the other machine's, which must not be older. Workers run without their sandbox
// there, since their libraries lie in the folder and not where a sandbox lets them read; that holds for every subject alike.
#pragma once

#include <string>

#include "base/result.h"

namespace coterie::in_node {

[[nodiscard]] Status pack(const std::string& folder, const std::string& runtimeLibrary);

}  // namespace coterie::in_node
