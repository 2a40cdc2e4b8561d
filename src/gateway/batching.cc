#include "gateway/batching.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/mix.h"

namespace coterie::gateway {

namespace {

class Part final : public Answer {
 public:
  explicit Part(std::shared_ptr<const Answer> whole) : whole_(std::move(whole)) {}
  [[nodiscard]] std::span<const OutputTensor> outputs() const override { return outputs_; }
  void add(OutputTensor output) {
    if (whole_ == nullptr) {
      copies_.emplace_back(output.data.begin(), output.data.end());
      output.data = copies_.back();
    }
    outputs_.push_back(std::move(output));
  }

 private:
  std::shared_ptr<const Answer> whole_;  // owns what the outputs point to; null: they are copies
  std::vector<std::vector<std::byte>> copies_;
  std::vector<OutputTensor> outputs_;
};

}  // namespace

std::int64_t rowsOf(const std::vector<InputTensor>& inputs) {
  if (inputs.empty() || inputs.front().shape.empty()) return 0;
  const std::int64_t rows = inputs.front().shape.front();
  const bool same = std::all_of(inputs.begin(), inputs.end(), [&](const InputTensor& in) { return !in.shape.empty() && in.shape.front() == rows; });
  return same ? std::max<std::int64_t>(rows, 0) : 0;
}

std::uint64_t batchKey(const std::vector<InputTensor>& inputs, const std::vector<oip::RequestOutput>& outputs) {
  if (rowsOf(inputs) == 0) return 0;
  std::uint64_t key = inputs.size();
  for (const InputTensor& input : inputs) {
    key = mix(key, static_cast<std::uint64_t>(input.input));
    key = mix(key, input.shape.size());
    for (std::size_t i = 1; i < input.shape.size(); ++i) key = mix(key, static_cast<std::uint64_t>(input.shape[i]));
  }
  for (const oip::RequestOutput& output : outputs) key = mix(key, static_cast<std::uint64_t>(output.output));
  return std::max<std::uint64_t>(key, 1);
}

bool keepsRows(const Answer& answer, std::int64_t rows) {
  return std::all_of(answer.outputs().begin(), answer.outputs().end(),
                     [&](const OutputTensor& output) { return !output.shape.empty() && output.shape.front() == rows; });
}

Result<std::vector<std::shared_ptr<const Answer>>> takeApart(const std::shared_ptr<const Answer>& answer, std::span<const std::int64_t> rows) {
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  std::vector<std::shared_ptr<Part>> parts;
  for (std::size_t i = 0; i < rows.size(); ++i) parts.push_back(std::make_shared<Part>(answer->copied() ? nullptr : answer));
  for (const OutputTensor& output : answer->outputs()) {
    if (output.shape.empty() || output.shape.front() != all || output.data.size() % static_cast<std::size_t>(all) != 0) {
      return Error{Code::Internal, "RowsDiffer",
                   "requests of " + std::to_string(all) + " rows ran as one, and an output has the shape " + shapeText(output.shape)};
    }
    const std::size_t row = output.data.size() / static_cast<std::size_t>(all);
    std::size_t at = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t size = row * static_cast<std::size_t>(rows[i]);
      OutputTensor mine{output.output, output.shape, output.data.subspan(at, size)};
      mine.shape.front() = rows[i];
      parts[i]->add(std::move(mine));
      at += size;
    }
  }
  return std::vector<std::shared_ptr<const Answer>>(parts.begin(), parts.end());
}

}  // namespace coterie::gateway
