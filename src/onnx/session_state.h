// What a loaded model consists of. Private to this folder.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "onnx/library.h"

namespace coterie::onnx {

// Where an output's dimension comes from: a number, or a dimension of an input.
struct DimSource {
  std::int64_t fixed{-1};
  int input{-1};
  int dim{-1};
};
struct OutputPlan {
  bool predictable{false};  // the shape is known before the run
  std::vector<DimSource> dims;
};

struct Session::State {
  const Library::Handles* handles{nullptr};
  OrtSession* session{nullptr};
  std::vector<std::string> inputNames;  // as the signature
  std::vector<std::string> outputNames;
  std::vector<OutputPlan> plans;    // per output of the signature
  std::atomic<bool> inPlace{true};  // off once a model has broken the promise of its own dimension names
};

}  // namespace coterie::onnx
