#include "actors/training/logical_state.hpp"

#include <map>
#include <utility>

#include "model/weights/parameter_slice.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

// Of host memory for tensors that are asked for before they are copied.
constexpr std::size_t most_bytes_ahead = std::size_t{64} << 20;

}  // namespace

LogicalState::LogicalState(Pipeline& pipeline, const ParallelLayout& layout, const ModelConfig& config) : pipeline_(pipeline) {
  std::map<std::string, std::vector<Slice>> slices;
  const auto& shape = layout.mesh().shape();
  for (int stage = 0; stage < shape.pp; ++stage) {
    for (int tp_rank = 0; tp_rank < shape.tp; ++tp_rank) {
      const auto [part, rank_of_part] = layout.part_rank(tp_rank);
      const ParameterLayout own = layout_parameters(config, layout.chunks_of(stage), tp_rank, shape.tp);
      for (std::size_t number = 0; number < own.parameters.size(); ++number) {
        const Parameter& parameter = own.parameters[number];
        const bool elsewhere = parameter.tied_copy || (parameter.split_axis < 0 && tp_rank > 0);
        if (!elsewhere) slices[parameter.name].push_back({{0, stage, part}, rank_of_part, number, parameter});
      }
    }
  }
  for (const auto& tensor : logical_tensors(config)) slices_.push_back(slices.at(tensor.name));
}

LogicalState::~LogicalState() { forget(); }

void LogicalState::copy(const std::string& state, std::size_t index, float* full) {
  if (!asked_.empty() && (asked_.front().state != state || asked_.front().index != index)) forget();
  std::size_t next = asked_.empty() ? index : asked_.back().index + 1;
  while (asked_.empty() || (next < slices_.size() && asked_bytes_ < most_bytes_ahead)) ask(state, next++);
  Asked& first = asked_.front();
  for (std::size_t i = 0; i < first.slices.size(); ++i) {
    first.slices[i].done.get();
    write_slice(slices_[index][i].parameter, first.slices[i].part.data(), full);
  }
  asked_bytes_ -= first.bytes;
  asked_.pop_front();
}

void LogicalState::ask(const std::string& state, std::size_t index) {
  Asked& tensor = asked_.emplace_back();
  tensor.state = state;
  tensor.index = index;
  for (const Slice& slice : slices_[index]) {
    Reading& reading = tensor.slices.emplace_back();
    reading.part.resize(static_cast<std::size_t>(slice.parameter.local.elements()));
    reading.done =
        pipeline_.read_state(slice.stage, {slice.tp_rank, state, slice.number, reading.part.size()}, reading.part.data());
    tensor.bytes += reading.part.size() * sizeof(float);
  }
  asked_bytes_ += tensor.bytes;
}

// Nobody may write to the parts any more when they go.
void LogicalState::forget() {
  for (auto& tensor : asked_) {
    for (auto& reading : tensor.slices) {
      if (reading.done.valid()) reading.done.wait();
    }
  }
  asked_.clear();
  asked_bytes_ = 0;
}

}  // namespace pipetrain
