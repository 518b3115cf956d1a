#include "actors/training/rank_state.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "actors/training/fetched_parameters.hpp"
#include "actors/training/gathered_parameters.hpp"
#include "actors/training/loading_threads.hpp"
#include "actors/training/published_parameters.hpp"
#include "actors/training/rank_memory.hpp"
#include "actors/training/saved_parts.hpp"
#include "core/error.hpp"
#include "core/on_threads.hpp"
#include "model/arena_views.hpp"
#include "model/gradient_sums.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

StatePlaces::Setup places_setup(const RankSetup& setup) {
  return {setup.zero, place_among(setup.zero, setup.replicas, setup.id.dp), setup.numerics.precision, setup.actions};
}

GatheredParameters::Sizes gathered_sizes(const StatePlaces& places, const RankSetup& setup, const ParameterLayout& layout) {
  return GatheredParameters::sizes(layout, places.units(), setup.zero.prefetch);
}

// Master weights that operations do not read.
bool offloads_masters(const RankSetup& setup) { return setup.offload.optimizer && setup.numerics.precision.rounds_weights(); }

// The weights that the optimizer updates, masters or not.
bool offloads_weights(const RankSetup& setup) {
  return offloads_masters(setup) || (setup.offload.parameters && !setup.numerics.precision.rounds_weights());
}

FetchedParameters::Sizes fetched_sizes(const StatePlaces& places, const RankSetup& setup, const ParameterLayout& layout) {
  return FetchedParameters::sizes(layout, places.units(), setup.zero.prefetch, setup.numerics.precision.compute);
}

OffloadedArray::Lengths operand_lengths(const StatePlaces& places, const RankSetup& setup, const ParameterLayout& layout) {
  std::size_t largest = 0;
  for (const ShardUnit& unit : places.units()) largest = std::max(largest, unit.weights.size());
  return {layout.weight_elements, largest, setup.numerics.precision.compute};
}

// Bytes of a weight that the optimizer's step brings in and out for operations.
std::size_t operand_bytes(const RankSetup& setup) {
  return setup.offload.parameters ? size_of(setup.numerics.precision.compute) : 0;
}

}  // namespace

RankState::RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup),
      layout_(layout),
      tp_(tp),
      ops_(ops),
      optimizer_(make_optimizer(setup.optimizer)),
      places_(layout, places_setup(setup)) {
  allocate_arenas();
  steps_ = places_.optimizer_parts();
  if (setup.offload.optimizer || setup.offload.parameters) make_offloaded();
  counted_ = places_.counted(setup.id.tp);
  if (setup.groups.data) make_reduction();
  make_parameters();
  Stream& stream = ops_.stream();
  stream.zero(arenas_.grads);  // what lies between two tensors is summed over replicas, too
  if (arenas_.weights.data != nullptr) stream.zero(arenas_.weights);
  if (places_.is_sharded() || arenas_.rounded.data != nullptr) stream.zero(operands());  // rows that pad a table stay zero
  for (const Tensor& state : arenas_.states) stream.zero(state);
  if (setup_.saves) snapshot();
}

void RankState::allocate_arenas() {
  const Precision& precision = setup_.numerics.precision;
  const Length weights{offloads_weights(setup_) ? 0 : places_.weights(), precision.master};
  const Length rounded{setup_.offload.parameters ? 0 : places_.rounded(), precision.compute};
  const Length grads{places_.grads(), precision.grad};
  if (weights.elements > 0) arenas_.weights = allocate(weights, "parameters");
  arenas_.grads = allocate(grads, "gradients");
  if (rounded.elements > 0) arenas_.rounded = allocate(rounded, "rounded parameters");
  if (places_.gathers_weights())
    gathered_ = allocate({gathered_sizes(places_, setup_, layout_).total(), operands().dtype}, "gathered parameters");
  if (setup_.offload.parameters) {
    const std::size_t bytes = fetched_sizes(places_, setup_, layout_).bytes();
    gathered_ = allocate({bytes / size_of(precision.compute), precision.compute}, "fetched parameters");
  }
  if (setup_.offload.optimizer) return;
  for (const std::string& name : optimizer_->states())
    arenas_.states.push_back(allocate({places_.states(), precision.master}, "optimizer state " + name));
}

void RankState::make_offloaded() {
  const std::string name = to_string(setup_.id);
  offload_streams_.emplace(*setup_.device, name);
  if (setup_.offload.parameters) {
    operands_ = std::make_unique<OffloadedArray>(
        OffloadedArray::Setup{*setup_.device, *offload_streams_, setup_.offload.folder, name + ": offloaded parameters"},
        operand_lengths(places_, setup_, layout_));
  }
  offloaded_ = std::make_unique<OffloadedOptimizer>(
      OffloadedOptimizer::Setup{.device = *setup_.device,
                                .streams = *offload_streams_,
                                .optimizer = *optimizer_,
                                .units = steps_,
                                .elements = places_.states(),
                                .outside = {setup_.offload.optimizer, offloads_masters(setup_), operands_.get()},
                                .rounds = setup_.numerics.precision.rounds_weights(),
                                .folder = setup_.offload.folder,
                                .name = name},
      ops_);
}

std::vector<Stream*> RankState::transfer_streams() const {
  std::vector<Stream*> streams;
  if (offload_streams_) streams = offload_streams_->all();
  if (reduction_) streams.push_back(&reduction_->stream());
  return streams;
}

Tensor RankState::grads(const Region& region) const { return span(arenas_.grads, region.begin, region.size()); }

void RankState::make_reduction() {
  SumOverReplicas sum = sum_for_all(setup_.groups.data);
  if (places_.is_sharded()) {
    std::vector<OwnerSums::Unit> units;
    for (std::size_t i = 0; i < places_.units().size(); ++i)
      units.push_back({places_.units()[i], grads(places_.sums(i)), grads(places_.own_sums(i)), places_.is_pooled(i)});
    owner_sums_ = std::make_shared<OwnerSums>(*setup_.device, setup_.groups.data, std::move(units));
    sum = [owners = owner_sums_](Stream& stream, const Tensor& part) { owners->sum(stream, part); };
  }
  reduction_ = std::make_unique<GradientReduction>(*setup_.device, std::move(sum), "sums over replicas");
}

void RankState::make_parameters() {
  if (!places_.is_sharded() && !operands_) {
    parameters_ = std::make_unique<ResidentParameters>(layout_, operands());
    return;
  }
  std::unique_ptr<StepParameters> coming = operands_ ? make_fetched_parameters() : make_divided_parameters();
  coming_ = coming.get();
  parameters_ = std::move(coming);
}

std::unique_ptr<StepParameters> RankState::make_fetched_parameters() {
  const auto sequence = [&](schedules::StepKind kind) { return block_sequence(layout_, setup_.actions, kind); };
  return std::make_unique<FetchedParameters>(
      FetchedParameters::Setup{layout_, places_.units(), *setup_.device, ops_.stream(), setup_.zero.prefetch}, *operands_,
      gathered_.data, UnitTurns::Sequences{sequence(schedules::StepKind::training), sequence(schedules::StepKind::evaluation)});
}

std::unique_ptr<StepParameters> RankState::make_divided_parameters() {
  const DividedParameters::Setup setup{layout_,       places_.units(),      *setup_.device,
                                       ops_.stream(), reduction_->stream(), *setup_.groups.data};
  if (!places_.gathers_weights()) return std::make_unique<PublishedParameters>(setup, operands());
  const GatheredParameters::Memory memory{operands(), gathered_, places_.shard_begins()};
  const auto sequence = [&](schedules::StepKind kind) { return block_sequence(layout_, setup_.actions, kind); };
  return std::make_unique<GatheredParameters>(
      setup, memory, setup_.zero.prefetch,
      GatheredParameters::Sequences{sequence(schedules::StepKind::training), sequence(schedules::StepKind::evaluation)});
}

MemoryUse RankState::memory(const RankSetup& setup, const ParameterLayout& layout) {
  const Precision& precision = setup.numerics.precision;
  const StatePlaces places(layout, places_setup(setup));
  const std::size_t gathered = places.gathers_weights() ? gathered_sizes(places, setup, layout).total() : 0;
  MemoryUse use;
  const std::size_t weights = offloads_weights(setup) ? 0 : places.weights();
  const std::size_t rounded = setup.offload.parameters ? 0 : places.rounded();
  use.parameters = weights * size_of(precision.master) + (rounded + gathered) * size_of(precision.compute);
  if (setup.offload.parameters) {
    use.parameters += fetched_sizes(places, setup, layout).bytes();
    add_outside(setup, OffloadedArray::bytes(operand_lengths(places, setup, layout)), use);
  }
  const auto optimizer = make_optimizer(setup.optimizer);
  if (setup.offload.optimizer || setup.offload.parameters) {
    const auto blocks = OffloadedOptimizer::blocks(*optimizer, places.states(),
                                                   {setup.offload.optimizer, offloads_masters(setup)}, operand_bytes(setup));
    use.optimizer = blocks.device_bytes();
    add_outside(setup, {blocks.outside_bytes(), blocks.block_bytes()}, use);
  }
  if (!setup.offload.optimizer) use.optimizer += optimizer->states().size() * places.states() * size_of(precision.master);
  use.gradients = places.grads() * size_of(precision.grad);
  if (setup.saves) {
    for (const HeldPart& part : saved_parts(layout, places, setup.id)) use.snapshot += part.size() * sizeof(float);
    use.snapshot *= 1 + make_optimizer(setup.optimizer)->states().size();
  }
  return use;
}

Tensor RankState::allocate(const Length& length, const std::string& what) {
  const std::size_t bytes = align_up(length.elements * size_of(length.dtype));
  memory_.push_back(setup_.device->allocate(bytes, to_string(setup_.id) + ": " + what));
  return {memory_.back().data(), {static_cast<std::int64_t>(length.elements)}, length.dtype};
}

const Tensor& RankState::arena(const std::string& state) const {
  if (state == weights_state) return arenas_.weights;
  const auto& names = optimizer_->states();
  const auto found = std::find(names.begin(), names.end(), state);
  if (found == names.end()) {
    throw Error(ErrorKind::input,
                "the optimizer " + setup_.optimizer.name + " keeps no state " + state + ": this state is of another optimizer");
  }
  return arenas_.states[static_cast<std::size_t>(found - names.begin())];
}

std::size_t RankState::place(const std::string& state, const HeldPart& part) const {
  return state == weights_state ? places_.weight_at(part) : places_.state_at(part);
}

void RankState::load(const InitialState& state) {
  load_state(weights_state, *state.weights);
  if (setup_.numerics.precision.rounds_weights()) round_weights();
  for (const auto& [name, source] : state.states) load_state(name, *source);
  applied_steps_ = state.applied_steps;
  if (coming_ != nullptr) coming_->loaded();
}

void RankState::round_weights() {
  if (!offloads_masters(setup_) && !operands_) {
    for (const HeldPart& part : places_.held())
      ops_.round(span(arenas_.weights, places_.weight_at(part), part.size()),
                 span(arenas_.rounded, places_.rounded_at(part), part.size()));
    return;
  }
  std::vector<OptimizerPart> parts;
  for (const HeldPart& part : places_.held()) {
    const std::size_t at = places_.weight_at(part);
    parts.push_back({.elements = part.size(), .weight = at, .state = at, .rounded = places_.rounded_at(part)});
  }
  offloaded_->round_weights(parts, arenas_);
}

bool RankState::is_offloaded(const std::string& state) const { return offloaded_ && offloaded_->keeps(state); }

void RankState::write(const std::string& state, std::size_t begin, const float* values, std::size_t count) {
  if (is_offloaded(state)) return offloaded_->write(state, begin, values, count);
  ops_.stream().copy(arena(state).as<float>() + begin, values, count * sizeof(float));
  ops_.stream().synchronize();
}

void RankState::load_state(const std::string& state, const WeightSource& source) {
  if (!is_offloaded(state)) static_cast<void>(arena(state));  // throws where there is none
  ops_.stream().synchronize();                                // behind which the host may write to memory that it shares
  const bool writes_in_place = !is_offloaded(state) && setup_.device->id().kind == DeviceKind::cpu;
  // The largest first, so that no thread begins with one when the others are done.
  std::vector<HeldPart> parts = places_.held();
  const auto parameter_of = [this](const HeldPart& part) -> const Parameter& { return layout_.parameters[part.parameter]; };
  std::stable_sort(parts.begin(), parts.end(), [&](const HeldPart& a, const HeldPart& b) {
    return parameter_of(a).local.elements() > parameter_of(b).local.elements();
  });
  std::mutex stream_turn;
  on_threads(loading_threads(*setup_.device), parts.size(), [&](std::size_t i) {
    const HeldPart& part = parts[i];
    const auto elements = static_cast<std::size_t>(parameter_of(part).local.elements());
    if (writes_in_place && part.size() == elements)
      return source.load(parameter_of(part), arena(state).as<float>() + place(state, part));
    std::vector<float> staging(elements);
    source.load(parameter_of(part), staging.data());
    const std::lock_guard lock(stream_turn);
    write(state, place(state, part), staging.data() + part.begin, part.size());
  });
}

const HeldPart& RankState::holder(const StatePart& part) const {
  for (const HeldPart& held : places_.held()) {
    if (held.parameter == part.parameter && held.begin <= part.begin && part.begin + part.elements <= held.end) return held;
  }
  throw Error(ErrorKind::internal,
              to_string(setup_.id) + " holds no such part of its parameter " + std::to_string(part.parameter));
}

void RankState::read(const StatePart& part, float* out) {
  const HeldPart& held = holder(part);
  const std::size_t begin = place(part.state, held) + (part.begin - held.begin);
  if (is_offloaded(part.state)) return offloaded_->read(part.state, begin, out, part.elements);
  ops_.stream().copy(out, arena(part.state).as<float>() + begin, part.elements * sizeof(float));
  ops_.stream().synchronize();
}

void RankState::begin_step(schedules::StepKind kind) {
  if (reduction_) reduction_->begin_step();
  if (coming_ != nullptr) coming_->begin_step(kind);
  if (offloaded_ && kind == schedules::StepKind::training) offloaded_->fetch_ahead();
}

std::vector<HeldState> RankState::held() const {
  std::vector<HeldState> held;
  std::vector<std::string> states = {weights_state};
  states.insert(states.end(), optimizer_->states().begin(), optimizer_->states().end());
  const auto parts = saved_parts(layout_, places_, setup_.id);
  for (const std::string& state : states) {
    for (const HeldPart& part : parts) {
      HeldState& piece = held.emplace_back(HeldState{state, part.parameter, {part.begin, part.end}});
      const std::size_t begin = place(state, part);
      if (is_offloaded(state)) {
        piece.read = [this, state, begin, count = part.size()](float* out) { offloaded_->read(state, begin, out, count); };
      } else {
        piece.values = arena(state).as<float>() + begin;
      }
    }
  }
  return held;
}

StateSnapshot& RankState::snapshot() {
  if (!snapshot_) snapshot_.emplace(*setup_.device, to_string(setup_.id), held());
  return *snapshot_;
}

void RankState::start_reduction(const Tensor& grads) { reduction_->start(ops_.stream(), grads); }

void RankState::reduce(int chunk) {
  if (reduction_) reduction_->finish(ops_.stream(), grads(places_.chunk_grads(chunk)));
}

void RankState::sum_replicated(int chunk) { sum_replicated_grads(grads(places_.replicated_grads(chunk)), tp_, ops_); }

// Of the table that is tied, all or this rank's run.
TiedGrads RankState::tied_sums() const {
  if (!places_.is_sharded()) return tied_grads(layout_, setup_.config, arenas_.grads);
  TiedGrads tied;
  if (!setup_.config.tied_embeddings) return tied;
  if (find_tensor(layout_, TensorRole::token_table)) tied.embedding = grads(places_.own_sums(TensorRole::token_table));
  if (find_tensor(layout_, TensorRole::output_weight)) tied.head = grads(places_.own_sums(TensorRole::output_weight));
  return tied;
}

void RankState::sum_tied() {
  const TiedGrads tied = tied_sums();
  if (setup_.groups.tied) {
    const Tensor& own = tied.has_embedding() ? tied.embedding : tied.head;
    if (own.elements() > 0) setup_.groups.tied->all_reduce(ops_.stream(), own, Reduction::sum);
  } else {
    sum_tied_grads(tied, ops_);
  }
}

void RankState::square_sums(const Tensor& sums) { pipetrain::square_sums(counted_, ops_, arenas_.grads, sums); }

void RankState::step(float lr, float grad_scale) {
  if (snapshot_) snapshot_->protect(ops_.stream());
  run_optimizer({lr, ++applied_steps_, grad_scale}, [this](std::size_t unit) {
    if (coming_ != nullptr) coming_->publish(unit);
  });
}

void RankState::run_optimizer(const OptimizerStep& step, const std::function<void(std::size_t unit)>& stepped) {
  if (offloaded_) return offloaded_->step(arenas_, step, stepped);
  for (std::size_t unit = 0; unit < steps_.size(); ++unit) {
    optimizer_step(steps_[unit], ops_, arenas_, *optimizer_, step);
    stepped(unit);
  }
}

void RankState::begin_rehearsal() {
  if (operands().data) ops_.stream().zero(operands());
  if (gathered_.data) ops_.stream().zero(gathered_);
  if (coming_ != nullptr) coming_->set_rehearsing(true);
}

void RankState::end_rehearsal(const Tensor& sums) {
  if (coming_ != nullptr) coming_->set_rehearsing(false);
  ops_.stream().zero(arenas_.grads);
  square_sums(sums);
  run_optimizer({}, [](std::size_t) {});
}

void RankState::spoil() {
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor read = coming_ != nullptr ? coming_->settled() : operands();
  const std::size_t bytes = size_of(read.dtype);  // the upper half of a float is a bf16
  ops_.stream().copy(read.data, reinterpret_cast<const char*>(&nan) + sizeof nan - bytes, bytes);
}

}  // namespace pipetrain
