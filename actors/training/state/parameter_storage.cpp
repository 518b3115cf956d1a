#include "actors/training/state/parameter_storage.hpp"

#include "actors/ranks/load_weights.hpp"
#include "actors/training/state/make_step_parameters.hpp"
#include "actors/training/state/offloaded_gradient_storage.hpp"
#include "actors/training/state/offloaded_optimizer.hpp"
#include "actors/training/state/saved_parts.hpp"

namespace pipetrain {
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
  const ResidentOptimizer::Setup setup{*setup_.device, ops,       *optimizer_, setup_.optimizer.name,
                                       places_,        precision, offload,     name};
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
  const GradientStorage::Setup setup{
      setup_.layout, places_, *setup_.device, ops, setup_.replicas, setup_.places.precision.grad, to_string(setup_.rank)};
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
                                   .prefetch = setup_.prefetch});
}

std::size_t ParameterStorage::begin_of(const std::string& state, const HeldPart& part) const {
  return state == weights_state ? places_.weight_at(part) : places_.state_at(part);
}

void ParameterStorage::load(const std::string& state, const WeightSource& source) {
  optimizer_storage_->begin_writing(state);
  const std::vector<HeldPart>& parts = places_.held();
  const auto slice_of = [&](std::size_t i) -> const Parameter& { return setup_.layout.parameters[parts[i].parameter]; };
  float* const arena = setup_.device->id().kind == DeviceKind::cpu ? optimizer_storage_->on_device(state) : nullptr;
  load_slices(source, parts.size(), slice_of, *setup_.device,
              {.in_place = [&](std::size_t i) -> float* {
                 const bool whole = parts[i].size() == static_cast<std::size_t>(slice_of(i).local.elements());
                 return arena != nullptr && whole ? arena + begin_of(state, parts[i]) : nullptr;
               },
               .store =
                   [&](std::size_t i, std::span<float> slice) {
                     optimizer_storage_->write(state, begin_of(state, parts[i]), slice.data() + parts[i].begin,
                                               parts[i].size());
                   }});
}

void ParameterStorage::loaded() {
  optimizer_storage_->round_weights();
  weights_->loaded();
}

void ParameterStorage::read(const std::string& state, const HeldPart& held, const Region& elements, float* out) {
  optimizer_storage_->read(state, begin_of(state, held) + (elements.begin - held.begin), out, elements.size());
}

const float* ParameterStorage::restore(const float* values) {
  for (const std::string& state : states()) {
    optimizer_storage_->begin_writing(state);
    for (const HeldPart& part : places_.held()) {
      optimizer_storage_->write(state, begin_of(state, part), values, part.size());
      values += part.size();
    }
  }
  loaded();
  return values;
}

std::vector<std::string> ParameterStorage::states() const {
  std::vector<std::string> states = {weights_state};
  states.insert(states.end(), optimizer_->states().begin(), optimizer_->states().end());
  return states;
}

std::vector<HeldState> ParameterStorage::saved() const { return states_of(saved_parts(setup_, places_)); }

std::vector<HeldState> ParameterStorage::states_of(const std::vector<HeldPart>& parts) const {
  std::vector<HeldState> all;
  for (const std::string& state : states()) {
    for (const HeldPart& part : parts) {
      HeldState& piece = all.emplace_back(HeldState{state, part.parameter, {part.begin, part.end}});
      const std::size_t begin = begin_of(state, part);
      if (const float* const arena = optimizer_storage_->on_device(state)) {
        piece.values = arena + begin;
      } else {
        piece.read = [this, state, begin, count = part.size()](float* out) {
          optimizer_storage_->read(state, begin, out, count);
        };
      }
    }
  }
  return all;
}

void ParameterStorage::begin_step(schedules::StepKind kind) {
  gradients_->begin_step();
  weights_->begin_step(kind);
  if (kind == schedules::StepKind::training) optimizer_storage_->begin_step();
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
