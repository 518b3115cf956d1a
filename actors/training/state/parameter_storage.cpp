#include "actors/training/state/parameter_storage.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "actors/ranks/load_weights.hpp"
#include "actors/training/state/eight_bit_optimizer.hpp"
#include "actors/training/state/make_step_parameters.hpp"
#include "actors/training/state/offloaded_gradient_storage.hpp"
#include "actors/training/state/offloaded_optimizer.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "actors/training/state/whole_tensor_optimizer.hpp"

namespace pipetrain {
namespace {

// transfers: see ParameterStorage::restore().
void write_state(OptimizerStorage& storage, const std::string& state, std::size_t begin, std::span<const float> values,
                 StagedTransfers* transfers) {
  float* const arena = transfers != nullptr ? storage.on_device(state) : nullptr;
  if (arena == nullptr) return storage.write(state, begin, values.data(), values.size());
  transfers->write(arena + begin, values.data(), values.size_bytes());
}

// Writes a part whose values the source has in memory. Returns false where it has not.
bool is_passed(const WeightSource& source, const Parameter& slice, OptimizerStorage& storage, const std::string& state,
               const TensorStates::Part& part) {
  return source.pass_in_memory(slice, {part.held.begin, part.held.end},
                               [&](std::size_t begin, const float* values, std::size_t count) {
                                 storage.write(state, part.begin + (begin - part.held.begin), values, count);
                               });
}

}  // namespace

ParameterStorage::ParameterStorage(const StorageSetup& setup, Ops& ops)
    : setup_(setup), stream_(ops.stream()), optimizer_(make_optimizer(setup.optimizer)), places_(setup.layout, setup.places) {
  const Offload& offload = setup_.places.offload;
  if (offload.optimizer || offload.parameters || offload.gradients)
    offload_streams_.emplace(*setup_.device, to_string(setup_.rank));
  make_optimizer_storage(ops);
  make_gradients(ops);
  make_weights();
}

void ParameterStorage::make_optimizer_storage(Ops& ops) {
  const Offload& offload = setup_.places.offload;
  const Precision& precision = setup_.places.precision;
  const std::string name = to_string(setup_.rank);
  ResidentOptimizer::Setup setup{*setup_.device, ops, *optimizer_, setup_.optimizer.name, places_, precision, offload, name};
  if (setup_.compression.averages()) setup.averaged = CompressedTensors(places_, setup_.compression).weights();
  if (optimizer_->granularity() == Granularity::matrix) {
    tensor_states_.emplace(*optimizer_, places_, setup_.places.previews);
    optimizer_storage_ = std::make_unique<WholeTensorOptimizer>(setup, *tensor_states_, setup_.tp);
    return;
  }
  if (optimizer_->granularity() == Granularity::block) {
    optimizer_storage_ = std::make_unique<EightBitOptimizer>(setup);
    return;
  }
  if (!offload.optimizer && !offload.parameters) {
    optimizer_storage_ = std::make_unique<ResidentOptimizer>(setup);
    return;
  }
  if (offload.parameters)
    operands_ = std::make_unique<OffloadedArray>(
        OffloadedArray::Setup{*setup_.device, *offload_streams_, offload.folder, name + ": offloaded parameters"},
        OffloadedOptimizer::operand_lengths(places_, precision.compute));
  optimizer_storage_ = std::make_unique<OffloadedOptimizer>(setup, *offload_streams_, operands_.get());
}

void ParameterStorage::make_gradients(Ops& ops) {
  const GradientStorage::Setup setup{.layout = setup_.layout,
                                     .places = places_,
                                     .device = *setup_.device,
                                     .ops = ops,
                                     .replicas = setup_.replicas,
                                     .transfer = setup_.transfer,
                                     .type = setup_.places.precision.grad,
                                     .compression = setup_.compression,
                                     .rank = to_string(setup_.rank)};
  if (setup_.places.offload.gradients) {
    gradients_ = std::make_unique<OffloadedGradientStorage>(setup, *offload_streams_, setup_.places.offload);
  } else {
    gradients_ = std::make_unique<GradientStorage>(setup);
  }
}

void ParameterStorage::make_weights() {
  const std::optional<Replicas> replicas =
      places_.is_sharded() ? std::optional(Replicas{*setup_.replicas, *gradients_->transfer()}) : std::nullopt;
  weights_ = make_step_parameters({setup_.layout, places_.units(), *setup_.device, stream_, to_string(setup_.rank)},
                                  {.places = places_,
                                   .replicas = replicas,
                                   .operands = optimizer_storage_->operands(),
                                   .outside = operands_.get(),
                                   .code = {setup_.weights_code, setup_.replicas},
                                   .prefetch = setup_.prefetch});
}

std::size_t ParameterStorage::begin_of(const std::string& state, const HeldPart& part) const {
  return state == weights_state ? places_.weight_at(part) : places_.state_at(part);
}

std::vector<TensorStates::Part> ParameterStorage::parts_of(const std::string& state) const {
  const auto& names = optimizer_->states();
  const auto found = std::find(names.begin(), names.end(), state);
  if (tensor_states_ && found != names.end())
    return tensor_states_->parts(static_cast<std::size_t>(found - names.begin()), setup_.layout);
  std::vector<TensorStates::Part> parts;
  for (const HeldPart& held : places_.held()) parts.push_back({held, begin_of(state, held), nullptr});
  return parts;
}

void ParameterStorage::load(const std::string& state, const WeightSource& source) {
  if (gradients_->compressed() != nullptr && is_compression_error(state))
    return gradients_->compressed()->load(state, source, stream_);
  optimizer_storage_->begin_writing(state);
  std::vector<TensorStates::Part> parts = parts_of(state);
  const auto slice_of = [&](const TensorStates::Part& part) -> const Parameter& {
    return part.own ? *part.own : setup_.layout.parameters[part.held.parameter];
  };
  std::erase_if(parts, [&](const auto& part) { return is_passed(source, slice_of(part), *optimizer_storage_, state, part); });
  float* const arena = setup_.device->id().kind == DeviceKind::cpu ? optimizer_storage_->on_device(state) : nullptr;
  load_slices(source, parts.size(), [&](std::size_t i) -> const Parameter& { return slice_of(parts[i]); }, *setup_.device,
              {.in_place = [&](std::size_t i) -> float* {
                 const bool whole = parts[i].held.size() == static_cast<std::size_t>(slice_of(parts[i]).local.elements());
                 return arena != nullptr && whole ? arena + parts[i].begin : nullptr;
               },
               .store =
                   [&](std::size_t i, std::span<float> slice) {
                     const HeldPart& held = parts[i].held;
                     optimizer_storage_->write(state, parts[i].begin, slice.data() + held.begin, held.size());
                   }});
}

void ParameterStorage::loaded() {
  optimizer_storage_->round_weights();
  weights_->loaded();
}

void ParameterStorage::read(const std::string& state, const HeldPart& held, const Region& elements, float* out) {
  optimizer_storage_->read(state, begin_of(state, held) + (elements.begin - held.begin), out, elements.size());
}

const float* ParameterStorage::restore(const float* values, StagedTransfers* transfers) {
  for (const std::string& state : states()) {
    optimizer_storage_->begin_writing(state);
    for (const TensorStates::Part& part : parts_of(state)) {
      write_state(*optimizer_storage_, state, part.begin, {values, part.held.size()}, transfers);
      values += part.held.size();
    }
  }
  loaded();
  if (CompressedGradients* const compressed = gradients_->compressed()) {
    for (const CompressedGradients::Errors& part : compressed->errors())
      stream_.copy(part.values, std::exchange(values, values + part.held.size()), part.held.size() * sizeof(float));
    stream_.synchronize();
  }
  return values;
}

std::vector<std::string> ParameterStorage::states() const {
  std::vector<std::string> states = {weights_state};
  states.insert(states.end(), optimizer_->states().begin(), optimizer_->states().end());
  return states;
}

std::vector<HeldState> ParameterStorage::saved() const {
  const std::set<std::size_t> parameters = saved_parameters(setup_, places_);
  std::vector<HeldState> saved;
  for (const std::string& state : states()) {
    for (const TensorStates::Part& part : parts_of(state)) {
      // Every tensor-parallel rank has all of a state that is a tensor of its own.
      if (parameters.contains(part.held.parameter) && (!part.own || setup_.rank.tp == 0))
        saved.push_back(held_state(state, part));
    }
  }
  gradients_->add_errors(saved);
  return saved;
}

std::vector<HeldState> ParameterStorage::held() const {
  std::vector<HeldState> held;
  for (const std::string& state : states())
    for (const TensorStates::Part& part : parts_of(state)) held.push_back(held_state(state, part));
  gradients_->add_errors(held);
  return held;
}

HeldState ParameterStorage::held_state(const std::string& state, const TensorStates::Part& part) const {
  HeldState piece{state, part.held.parameter, {part.held.begin, part.held.end}};
  piece.own = part.own;
  if (const float* const arena = optimizer_storage_->on_device(state)) {
    piece.values = arena + part.begin;
  } else {
    piece.read = [this, state, begin = part.begin, count = part.held.size()](float* out) {
      optimizer_storage_->read(state, begin, out, count);
    };
  }
  return piece;
}

void ParameterStorage::begin_step(const StepInfo& step, std::int64_t applied) {
  const auto states = [this](const std::string& state) { return optimizer_storage_->on_device(state); };
  if (CompressedGradients* const sums = gradients_->compressed()) sums->begin_step(step, states, applied);
  gradients_->begin_step();
  weights_->begin_step(step.kind);
  if (!step.evaluates()) optimizer_storage_->begin_step();
}

void ParameterStorage::step(const OptimizerStep& step) {
  optimizer_storage_->step(gradients_->arena(), step,
                           {.steps = [this](std::size_t unit) { gradients_->read(unit); },
                            .stepped = [this](std::size_t unit) { weights_->publish(unit); }});
  gradients_->read({});
}

void ParameterStorage::begin_rehearsal() {
  if (const Tensor operands = optimizer_storage_->operands(); operands.data) stream_.zero(operands);
  weights_->set_rehearsing(true);
}

void ParameterStorage::end_rehearsal(const std::vector<CountedPart>& counted, const Tensor& sums) {
  weights_->set_rehearsing(false);
  stream_.zero(gradients_->arena());
  if (CompressedGradients* const compressed = gradients_->compressed()) compressed->clear(stream_);
  gradients_->square_sums(counted, sums);
  optimizer_storage_->step(gradients_->arena(), {},
                           {.steps = [this](std::size_t unit) { gradients_->read(unit); }, .stepped = [](std::size_t) {}});
  gradients_->read({});
}

std::vector<Stream*> ParameterStorage::transfer_streams() {
  std::vector<Stream*> streams;
  if (offload_streams_) streams = offload_streams_->all();
  if (Stream* const transfer = gradients_->transfer()) streams.push_back(transfer);
  return streams;
}

}  // namespace pipetrain
