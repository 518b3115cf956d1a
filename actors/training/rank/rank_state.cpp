#include "actors/training/rank/rank_state.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "actors/training/state/saved_parts.hpp"
#include "core/error.hpp"
#include "core/loading_threads.hpp"
#include "core/on_threads.hpp"
#include "model/parameters/arena_views.hpp"
#include "model/parameters/gradient_sums.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

RankState::RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup),
      layout_(layout),
      tp_(tp),
      ops_(ops),
      optimizer_(make_optimizer(setup.optimizer)),
      places_(layout, places_setup(setup)) {
  allocate_arenas();
  steps_ = places_.optimizer_parts();
  make_offloaded();
  if (setup.id.cp == 0 || places_.is_sharded()) counted_ = places_.counted(setup.id.tp);  // else the first part's rank does
  if (setup.groups.data) make_reduction();
  if (setup.offload.gradients) make_offloaded_gradients();
  make_parameters();
  Stream& stream = ops_.stream();
  stream.zero(arenas_.grads);  // what lies between two tensors is summed over replicas, too
  if (arenas_.weights.data != nullptr) stream.zero(arenas_.weights);
  if (arenas_.rounded.data != nullptr) stream.zero(arenas_.rounded);  // rows that pad a table stay zero
  for (const Tensor& state : arenas_.states) stream.zero(state);
  if (setup_.saves) snapshot();
}

void RankState::open_gradients(std::size_t block) {
  if (offloaded_grads_) return offloaded_grads_->open(block);
  owner_sums_->open(ops_.stream(), block);
}

std::vector<Stream*> RankState::transfer_streams() const {
  std::vector<Stream*> streams;
  if (offload_streams_) streams = offload_streams_->all();
  if (reduction_) streams.push_back(&reduction_->stream());
  return streams;
}

Tensor RankState::grads(const Region& region) const { return span(arenas_.grads, region.begin, region.size()); }

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
  if (setup_.numerics.precision.rounds_weights() || setup_.previews) round_weights();
  for (const auto& [name, source] : state.states) load_state(name, *source);
  applied_steps_ = state.applied_steps;
  if (coming_ != nullptr) coming_->loaded();
}

void RankState::round_weights() {
  if (!offloaded_ || (!offloaded_->keeps(weights_state) && !operands_)) {
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
  ops_.stream().copy(arena(state).as<float>() + begin, values, count * sizeof(float));
  ops_.stream().synchronize();
}

void RankState::load_state(const std::string& state, const WeightSource& source) {
  if (!is_offloaded(state)) static_cast<void>(arena(state));  // throws where there is none
  ops_.stream().synchronize();                                // behind which the host may write to memory that it shares
  if (offloaded_) offloaded_->begin_writing();
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
    const auto staging = std::make_unique_for_overwrite<float[]>(elements);
    source.load(parameter_of(part), staging.get());
    const float* const own = staging.get() + part.begin;
    if (is_offloaded(state)) return offloaded_->write(state, place(state, part), own, part.size());
    const std::lock_guard lock(stream_turn);
    write(state, place(state, part), own, part.size());
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
  if (offloaded_grads_) offloaded_grads_->begin_step();
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

void RankState::start_reduction(const Tensor& grads) {
  if (offloaded_grads_ && offloaded_grads_->holds(grads)) return;  // as its block is closed
  reduction_->start(ops_.stream(), grads);
}

void RankState::reduce(int chunk) {
  if (!reduction_) return;
  if (offloaded_grads_) {
    offloaded_grads_->sum(chunk);
    for (std::size_t i = 0; i < places_.units().size(); ++i) {
      const ShardUnit& unit = places_.units()[i];
      const bool stays = places_.is_pooled(i) && !leaves_with_gradients(layout_, unit);
      if (stays && unit.chunk == chunk) reduction_->finish(ops_.stream(), grads(places_.sums(i)));
    }
  }
  reduction_->finish(ops_.stream(), grads(places_.chunk_grads(chunk)));
}

void RankState::sum_replicated(int chunk) { sum_replicated_grads(grads(places_.replicated_grads(chunk)), tp_, ops_); }

// Of the table that is tied, all or this rank's run.
TiedGrads RankState::tied_sums() const {
  if (!places_.is_sharded() && !places_.pools()) return tied_grads(layout_, setup_.config, arenas_.grads);
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

void RankState::square_sums(const Tensor& sums) {
  if (!offloaded_grads_) return pipetrain::square_sums(counted_, ops_, arenas_.grads, sums);
  std::size_t next = 0;  // by the unit, as what is elsewhere comes
  for (const CountedPart& part : counted_) {
    read_gradients(places_.unit_of(layout_.parameters[part.parameter]));
    pipetrain::square_sums({part}, ops_, arenas_.grads, span(sums, next, part.sums()));
    next += part.sums();
  }
  read_gradients({});
}

void RankState::preview(float lr, float grad_scale) {
  for (const auto& unit : steps_) optimizer_preview(unit, ops_, arenas_, *optimizer_, {lr, applied_steps_ + 1, grad_scale});
}

void RankState::restore() { round_weights(); }

void RankState::step(float lr, float grad_scale) {
  if (snapshot_) snapshot_->protect(ops_.stream());
  run_optimizer({lr, ++applied_steps_, grad_scale}, [this](std::size_t unit) {
    if (coming_ != nullptr) coming_->publish(unit);
  });
}

void RankState::run_optimizer(const OptimizerStep& step, const std::function<void(std::size_t unit)>& stepped) {
  const auto reads = [this](std::size_t unit) { read_gradients(unit); };
  if (offloaded_) {
    offloaded_->step(arenas_, step, {reads, stepped});
  } else {
    for (std::size_t unit = 0; unit < steps_.size(); ++unit) {
      reads(unit);
      optimizer_step(steps_[unit], ops_, arenas_, *optimizer_, step);
      stepped(unit);
    }
  }
  read_gradients({});
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
