#include "actors/training/sums/compressed_gradients.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "actors/ranks/load_weights.hpp"
#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"
#include "ops/update.hpp"

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
  const auto element_of = [&](std::int64_t at) { return std::min(elements, static_cast<std::size_t>(at) * block); };
  const RowSplit shares(blocks, setup_.sharers());
  const int sharer = setup_.replica % setup_.sharers();
  std::vector<std::int64_t> cuts = {0};
  for (int rank = 0; rank < shares.ranks(); ++rank) cuts.push_back(static_cast<std::int64_t>(element_of(shares.end(rank))));
  Compressed tensor{.parameter = index,
                    .grads = {parameter.grad_offset, parameter.grad_offset + elements},
                    .shares = RowSplit(std::move(cuts)),
                    .share = {element_of(shares.begin(sharer)), element_of(shares.end(sharer))},
                    .owners = RowSplit(shares.count(sharer), setup_.parties()),
                    .early_owners = RowSplit(0, 1)};
  if (places_.is_sharded()) {
    const ShardUnit& unit = places_.units()[places_.unit_of(parameter)];
    std::vector<std::int64_t> owned;
    for (const std::int64_t cut : unit.cuts) {
      const std::int64_t at = cut - static_cast<std::int64_t>(parameter.grad_offset - unit.grads);
      owned.push_back(blocks_of(setup_.code, std::clamp<std::int64_t>(at, 0, parameter.local.elements())));
    }
    tensor.owners = RowSplit(std::move(owned));
  }
  const std::int64_t first = shares.begin(sharer);
  tensor.own = {element_of(first + tensor.owners.begin(setup_.party())), element_of(first + tensor.owners.end(setup_.party()))};
  tensor.early_owners = early_owners(tensor);
  tensor.error = std::exchange(errors_, errors_ + tensor.share.size());
  tensor.sum_error = std::exchange(errors_, errors_ + (compresses_sums() ? tensor.own.size() : 0));
  tensors_.push_back(std::move(tensor));
}

// A block of the code is several whole ones of the early code, so that an owner has the same elements in both.
RowSplit CompressedTensors::early_owners(const Compressed& tensor) const {
  const std::int64_t size = block_format(setup_.code).elements;
  const auto elements = static_cast<std::int64_t>(tensor.share.size());
  std::vector<std::int64_t> cuts = {0};
  for (int rank = 0; rank < tensor.owners.ranks(); ++rank)
    cuts.push_back(blocks_of(setup_.early_code(), std::min(elements, tensor.owners.end(rank) * size)));
  return RowSplit(std::move(cuts));
}

std::size_t CompressedTensors::bytes() const {
  return align_up(std::max<std::size_t>(errors_, 1) * sizeof(float)) +
         CompressedSum::bytes(setup_.early_code(), setup_.parties()) +
         (setup_.averages() ? CompressedSum::bytes(setup_.code, setup_.parties()) : 0);
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
                                         Ops& ops, std::shared_ptr<Group> replicas, const std::string& rank)
    : tensors_(places, setup),
      ops_(ops),
      within_(setup.groups.within),
      memory_(device.allocate(align_up(std::max<std::size_t>(tensors_.errors(), 1) * sizeof(float)),
                              rank + ": errors of compressed gradients")),
      sum_(device, setup.hosts > 0 ? setup.groups.between : replicas, setup.early_code(), rank) {
  if (!setup.averages()) return;
  moments_sum_ =
      std::make_unique<CompressedSum>(device, setup.hosts > 0 ? setup.groups.between : std::move(replicas), setup.code, rank);
}

SumOverReplicas CompressedGradients::over(const Tensor& arena, SumOverReplicas others) {
  return [this, arena, others = std::move(others)](Stream& stream, const Tensor& part) { sum(stream, arena, part, others); };
}

void CompressedGradients::begin_step(const StepInfo& step, const StateArrays& states, std::int64_t applied) {
  if (step.evaluates() || !tensors_.setup().averages()) return;
  moments_ = {};
  if (step.frozen_after > 0) moments_ = {states("exp_avg"), states("exp_avg_sq")};
  frozen_after_ = step.frozen_after;
  loss_scale_ = static_cast<float>(step.loss_scale);
  if (moments_.first == nullptr) return;
  const bool are_new = applied == frozen_after_;
  if (are_new) clear_errors(ops_.stream());
  settle_variances(are_new);
}

// A tied table that is stored once has its moments once.
void CompressedGradients::settle_variances(bool are_new) const {
  const CompressedTensors::Setup& setup = tensors_.setup();
  for (const Region& tensor : tensors_.weights()) {
    const Shape shape{static_cast<std::int64_t>(tensor.size())};
    ops_.settle_moments({.first = {moments_.first + tensor.begin, shape},
                         .second = {moments_.second + tensor.begin, shape},
                         .raises = are_new,
                         .beta1 = setup.beta1,
                         .beta2 = setup.beta2,
                         .eps = setup.eps,
                         .frozen_after = frozen_after_});
  }
}

void CompressedGradients::clear(Stream& stream) {
  if (tensors_.errors() == 0) return;
  clear_errors(stream);
  if (!tensors_.setup().averages()) return;
  const Tensor errors{memory_.data(), {static_cast<std::int64_t>(tensors_.errors())}};
  // A GPU loads these kernels, and gets their scratch memory, before any kernel may wait for its peers. The zeros remain.
  for (const bool raises : {true, false}) ops_.settle_moments({.first = errors, .second = errors, .raises = raises, .eps = 1});
}

void CompressedGradients::clear_errors(Stream& stream) {
  stream.zero({memory_.data(), {static_cast<std::int64_t>(tensors_.errors())}});
}

// Both gradients of a tied table are added later, so that only one of their sums has the first moment.
CompressedPart CompressedGradients::part_of(const CompressedTensors::Compressed& tensor, const Tensor& arena) {
  auto* const errors = static_cast<float*>(memory_.data());
  CompressedPart part{.values = arena.as<float>() + tensor.grads.begin + tensor.share.begin,
                      .elements = static_cast<std::int64_t>(tensor.share.size()),
                      .error = errors + tensor.error,
                      .sum_error = tensors_.compresses_sums() ? errors + tensor.sum_error : nullptr,
                      .owners = moments_.first == nullptr ? tensor.early_owners : tensor.owners};
  if (moments_.first == nullptr) return part;
  const Parameter& parameter = tensors_.layout().parameters[tensor.parameter];
  const CompressedTensors::Setup& setup = tensors_.setup();
  const std::size_t begin = parameter.offset + tensor.share.begin;
  part.averages = moments_.first + begin;
  part.fresh = 1 - setup.beta1;
  part.kept = parameter.tied_copy ? 0 : setup.beta1 * loss_scale_ / static_cast<float>(setup.parties());
  part.scales = {moments_.second + begin, adam_correction(setup.beta2, frozen_after_), setup.eps};
  return part;
}

void CompressedGradients::sum_tensor(Stream& stream, const CompressedTensors::Compressed& tensor, const Tensor& arena) {
  const Tensor whole = span(arena, tensor.grads.begin, tensor.grads.size());
  const Tensor share = span(whole, tensor.share.begin, tensor.share.size());
  if (within_) within_->reduce_scatter(stream, whole, share, tensor.shares);
  (moments_.first == nullptr ? sum_ : *moments_sum_).sum(stream, part_of(tensor, arena));
  if (within_) within_->all_gather(stream, share, whole, tensor.shares);
}

void CompressedGradients::sum(Stream& stream, const Tensor& arena, const Tensor& part, const SumOverReplicas& others) {
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
    sum_tensor(stream, tensor, arena);
    reached = tensor.grads.end;
  }
  sum_others_until(end);
}

std::vector<CompressedGradients::Errors> CompressedGradients::errors() const {
  auto* const memory = static_cast<float*>(memory_.data());
  const std::string party = "." + std::to_string(tensors_.setup().party());
  std::vector<Errors> errors;
  for (const CompressedTensors::Compressed& tensor : tensors_.all()) {
    const Parameter& parameter = tensors_.layout().parameters[tensor.parameter];
    errors.push_back({name_of(own_errors, parameter) + party,
                      {tensor.parameter, tensor.share.begin, tensor.share.end},
                      memory + tensor.error});
    if (tensors_.compresses_sums() && tensor.own.size() > 0)
      errors.push_back(
          {name_of(sum_errors, parameter), {tensor.parameter, tensor.own.begin, tensor.own.end}, memory + tensor.sum_error});
  }
  return errors;
}

void CompressedGradients::load(const std::string& state, const WeightSource& source, Stream& stream) {
  std::vector<Errors> own = errors();
  std::erase_if(own, [&](const Errors& part) { return part.state != state; });
  std::mutex stream_turn;
  load_slices(source, own.size(),
              [&](std::size_t i) -> const Parameter& { return tensors_.layout().parameters[own[i].held.parameter]; },
              stream.device(), {.in_place = nullptr, .store = [&](std::size_t i, std::span<float> slice) {
                                  const HeldPart& held = own[i].held;
                                  const std::lock_guard lock(stream_turn);
                                  stream.copy(own[i].values, slice.data() + held.begin, held.size() * sizeof(float));
                                  stream.synchronize();
                                }});
}

}  // namespace pipetrain
