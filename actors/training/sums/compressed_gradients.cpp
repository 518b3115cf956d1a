#include "actors/training/sums/compressed_gradients.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "actors/ranks/load_weights.hpp"
#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

// The names of these states, before the number of the replica; the sums are each in one replica alone.
constexpr const char *own_errors = "gradient_error", *sum_errors = "gradient_sum_error";

// A table that is tied has two gradients under one name.
std::string name_of(const char* kind, const Parameter& parameter) {
  return std::string(kind) + (parameter.tied_copy ? "_tied" : "");
}

}  // namespace

bool is_compression_error(const std::string& state) { return state.starts_with(own_errors) || state.starts_with(sum_errors); }

CompressedTensors::CompressedTensors(const StatePlaces& places, const Setup& setup) : places_(places), setup_(setup) {
  for (std::size_t i = 0; i < layout().parameters.size(); ++i) {
    const Parameter& parameter = layout().parameters[i];
    const bool is_whole = setup_.tensor_parallel == 1 || (parameter.split_axis >= 0 && parameter.copies == 1);
    const bool is_matrix = parameter.full.rank() >= 2 && !places_.units()[places_.unit_of(parameter)].vectors;
    if (is_whole && is_matrix) add(i);
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Compressed& a, const Compressed& b) { return a.grads.begin < b.grads.begin; });
}

// With ZeRO the owners are those of the states, whose ranges are cut at multiples of a block.
void CompressedTensors::add(std::size_t index) {
  const Parameter& parameter = layout().parameters[index];
  const auto elements = static_cast<std::size_t>(parameter.local.elements());
  const auto block = static_cast<std::size_t>(block_format(setup_.code).elements);
  const std::int64_t blocks = blocks_of(setup_.code, parameter.local.elements());
  Compressed tensor{index, {parameter.grad_offset, parameter.grad_offset + elements}, RowSplit(blocks, setup_.replicas), {}};
  if (places_.is_sharded()) {
    const ShardUnit& unit = places_.units()[places_.unit_of(parameter)];
    std::vector<std::int64_t> cuts;
    for (const std::int64_t cut : unit.cuts) {
      const std::int64_t at = cut - static_cast<std::int64_t>(parameter.grad_offset - unit.grads);
      cuts.push_back(blocks_of(setup_.code, std::clamp<std::int64_t>(at, 0, parameter.local.elements())));
    }
    tensor.owners = RowSplit(std::move(cuts));
  }
  tensor.own.begin = std::min(elements, static_cast<std::size_t>(tensor.owners.begin(setup_.replica)) * block);
  tensor.own.end = std::min(elements, static_cast<std::size_t>(tensor.owners.end(setup_.replica)) * block);
  tensor.error = std::exchange(errors_, errors_ + elements);
  tensor.sum_error = std::exchange(errors_, errors_ + (compresses_sums() ? tensor.own.size() : 0));
  tensors_.push_back(std::move(tensor));
}

std::size_t CompressedTensors::bytes() const {
  return align_up(std::max<std::size_t>(errors_, 1) * sizeof(float)) + CompressedSum::bytes(setup_.code, setup_.replicas);
}

// A tied copy that is stored once has the range of the embedding.
std::vector<Region> CompressedTensors::weights() const {
  std::map<std::size_t, std::size_t> ends;
  for (const Compressed& tensor : tensors_) {
    const std::size_t begin = layout().parameters[tensor.parameter].offset;
    ends.emplace(begin, begin + tensor.grads.size());
  }
  std::vector<Region> ranges;
  for (const auto& [begin, end] : ends) ranges.push_back({begin, end});
  return ranges;
}

CompressedGradients::CompressedGradients(const StatePlaces& places, const CompressedTensors::Setup& setup, Device& device,
                                         std::shared_ptr<Group> group, const std::string& rank)
    : tensors_(places, setup),
      memory_(device.allocate(align_up(std::max<std::size_t>(tensors_.errors(), 1) * sizeof(float)),
                              rank + ": errors of compressed gradients")),
      sum_(device, std::move(group), setup.code, rank) {}

SumOverReplicas CompressedGradients::over(const Tensor& arena, SumOverReplicas others) {
  return [this, arena, others = std::move(others)](Stream& stream, const Tensor& part) { sum(stream, arena, part, others); };
}

void CompressedGradients::begin_step(const StepInfo& step, const float* first_moments) {
  if (step.evaluates()) return;
  first_moments_ = step.frozen_after > 0 ? first_moments : nullptr;
  loss_scale_ = static_cast<float>(step.loss_scale);
}

void CompressedGradients::clear(Stream& stream) {
  if (tensors_.errors() > 0) stream.zero({memory_.data(), {static_cast<std::int64_t>(tensors_.errors())}});
}

// Both gradients of a tied table are added later, so that only one of their sums has the first moment.
CompressedPart CompressedGradients::part_of(const CompressedTensors::Compressed& tensor, const Tensor& arena) {
  auto* const errors = static_cast<float*>(memory_.data());
  CompressedPart part{.values = arena.as<float>() + tensor.grads.begin,
                      .elements = static_cast<std::int64_t>(tensor.grads.size()),
                      .error = errors + tensor.error,
                      .sum_error = tensors_.compresses_sums() ? errors + tensor.sum_error : nullptr,
                      .owners = tensor.owners};
  if (first_moments_ == nullptr) return part;
  const Parameter& parameter = tensors_.layout().parameters[tensor.parameter];
  const float beta1 = tensors_.setup().beta1;
  part.averages = first_moments_ + parameter.offset;
  part.fresh = 1 - beta1;
  part.kept = parameter.tied_copy ? 0 : beta1 * loss_scale_ / static_cast<float>(tensors_.setup().replicas);
  return part;
}

void CompressedGradients::sum(Stream& stream, const Tensor& arena, const Tensor& part, const SumOverReplicas& others) {
  if (tensors_.setup().code == BlockCode::sign && first_moments_ == nullptr) return others(stream, part);
  auto reached = static_cast<std::size_t>(part.as<float>() - arena.as<float>());
  const std::size_t end = reached + static_cast<std::size_t>(part.elements());
  const auto sum_others_until = [&](std::size_t until) {
    if (until > reached) others(stream, span(arena, reached, until - reached));
  };
  for (const CompressedTensors::Compressed& tensor : tensors_.all()) {
    if (tensor.grads.end <= reached || tensor.grads.begin >= end) continue;
    if (tensor.grads.begin < reached || tensor.grads.end > end)
      throw Error(ErrorKind::internal, "a part of a compressed tensor's gradient cannot be summed");
    sum_others_until(tensor.grads.begin);
    sum_.sum(stream, part_of(tensor, arena));
    reached = tensor.grads.end;
  }
  sum_others_until(end);
}

std::vector<CompressedGradients::Errors> CompressedGradients::errors() const {
  auto* const memory = static_cast<float*>(memory_.data());
  const std::string replica = "." + std::to_string(tensors_.setup().replica);
  std::vector<Errors> errors;
  for (const CompressedTensors::Compressed& tensor : tensors_.all()) {
    const Parameter& parameter = tensors_.layout().parameters[tensor.parameter];
    errors.push_back(
        {name_of(own_errors, parameter) + replica, {tensor.parameter, 0, tensor.grads.size()}, memory + tensor.error});
    if (tensors_.compresses_sums() && tensor.own.size() > 0)
      errors.push_back(
          {name_of(sum_errors, parameter), {tensor.parameter, tensor.own.begin, tensor.own.end}, memory + tensor.sum_error});
  }
  return errors;
}

void CompressedGradients::load(const std::string& state, const WeightSource& source, Device& device) {
  std::vector<Errors> own = errors();
  std::erase_if(own, [&](const Errors& part) { return part.state != state; });
  load_slices(source, own.size(),
              [&](std::size_t i) -> const Parameter& { return tensors_.layout().parameters[own[i].held.parameter]; }, device,
              {.in_place = nullptr, .store = [&](std::size_t i, std::span<float> slice) {
                 std::copy_n(slice.data() + own[i].held.begin, own[i].held.size(), own[i].values);
               }});
}

}  // namespace pipetrain
