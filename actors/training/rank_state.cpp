#include "actors/training/rank_state.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.hpp"
#include "model/gradient_sums.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

// GPUs share the host's cores while they are loaded; a CPU device's cores are what the ranks are.
unsigned loading_threads(const Device& device) {
  if (device.id().kind != DeviceKind::cuda) return 1;
  return std::max(1U, std::thread::hardware_concurrency() / static_cast<unsigned>(cuda_device_count()));
}

// Calls work(i) for each i below count on that many threads; rethrows the first failure.
void on_threads(unsigned threads, std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);  // what throws below must leave those that run in their place
  try {
    for (unsigned i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(run);
  } catch (const std::exception&) {  // no more threads, or no memory for one: those there are do the work
  }
  run();
  for (auto& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

RankState::RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup), layout_(layout), tp_(tp), ops_(ops), optimizer_(make_optimizer(setup.optimizer)), parameters_({}) {
  arenas_.weights = allocate(layout.weight_elements, setup.numerics.precision.master, "parameters");
  arenas_.grads = allocate(layout.grad_elements, setup.numerics.precision.grad, "gradients");
  for (const std::string& name : optimizer_->states()) {
    arenas_.states.push_back(allocate(layout.weight_elements, setup.numerics.precision.master, "optimizer state " + name));
  }
  if (setup.numerics.precision.rounds_weights()) {
    arenas_.rounded = allocate(layout.weight_elements, setup.numerics.precision.compute, "rounded parameters");
  }
  parameters_.set(arenas_.rounded.data ? arenas_.rounded : arenas_.weights);
  counted_ = counted_parameters(layout, setup.id.tp);
  if (setup.groups.data) {
    reduction_ = std::make_unique<GradientReduction>(*setup.device, setup.groups.data, "sums over replicas");
  }
  for (const auto& group : {setup.groups.data, setup.groups.tied}) {
    if (group) group->share(arenas_.grads);
  }
  Stream& stream = ops_.stream();
  stream.zero(arenas_.grads);  // what lies between two tensors is summed over replicas, too
  stream.zero(arenas_.weights);
  for (const Tensor& state : arenas_.states) stream.zero(state);
}

MemoryUse RankState::memory(const RankSetup& setup, const ParameterLayout& layout) {
  MemoryUse use;
  use.parameters = layout.weight_elements * size_of(setup.numerics.precision.master);
  use.optimizer = make_optimizer(setup.optimizer)->states().size() * use.parameters;
  if (setup.numerics.precision.rounds_weights())
    use.parameters += layout.weight_elements * size_of(setup.numerics.precision.compute);
  use.gradients = layout.grad_elements * size_of(setup.numerics.precision.grad);
  return use;
}

Tensor RankState::allocate(std::size_t elements, DType dtype, const std::string& what) {
  memory_.push_back(setup_.device->allocate(elements * size_of(dtype), to_string(setup_.id) + ": " + what));
  return {memory_.back().data(), {static_cast<std::int64_t>(elements)}, dtype};
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

void RankState::load(const InitialState& state) {
  load_arena(arenas_.weights, *state.weights);
  if (arenas_.rounded.data) ops_.round(arenas_.weights, arenas_.rounded);
  for (const auto& [name, source] : state.states) load_arena(arena(name), *source);
  applied_steps_ = state.applied_steps;
}

void RankState::load_arena(const Tensor& arena, const WeightSource& source) {
  // The largest first, so that no thread begins with one when the others are done.
  std::vector<const Parameter*> parameters;
  for (const auto& parameter : layout_.parameters) parameters.push_back(&parameter);
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto* a, const auto* b) { return a->local.elements() > b->local.elements(); });
  std::mutex stream_turn;
  on_threads(loading_threads(*setup_.device), parameters.size(), [&](std::size_t i) {
    const Parameter& parameter = *parameters[i];
    std::vector<float> staging(static_cast<std::size_t>(parameter.local.elements()));
    source.load(parameter, staging.data());
    const std::lock_guard lock(stream_turn);
    ops_.stream().copy(arena.as<float>() + parameter.offset, staging.data(), staging.size() * sizeof(float));
    ops_.stream().synchronize();
  });
}

void RankState::read(const std::string& state, const Parameter& parameter, float* out) {
  ops_.stream().copy(out, arena(state).as<float>() + parameter.offset,
                     static_cast<std::size_t>(parameter.local.elements()) * sizeof(float));
  ops_.stream().synchronize();
}

void RankState::start_reduction(const Tensor& grads) { reduction_->start(ops_.stream(), grads); }

void RankState::reduce(int chunk) {
  if (!reduction_) return;
  const Region region = layout_.chunk_grads[static_cast<std::size_t>(chunk)];
  reduction_->finish(ops_.stream(),
                     arenas_.grads.row_range(static_cast<std::int64_t>(region.begin), static_cast<std::int64_t>(region.end)));
}

void RankState::sum_replicated(int chunk) { sum_replicated_grads(layout_, chunk, tp_, ops_, arenas_.grads); }

void RankState::sum_tied() {
  const TiedGrads tied = tied_grads(layout_, setup_.config, arenas_.grads);
  if (setup_.groups.tied) {
    setup_.groups.tied->all_reduce(ops_.stream(), tied.has_embedding() ? tied.embedding : tied.head, Reduction::sum);
  } else {
    sum_tied_grads(tied, ops_);
  }
}

void RankState::square_sums(const Tensor& sums) { pipetrain::square_sums(layout_, setup_.id.tp, ops_, arenas_.grads, sums); }

void RankState::step(float lr, float grad_scale) {
  optimizer_step(layout_, ops_, arenas_, *optimizer_, {lr, ++applied_steps_, grad_scale});
}

void RankState::begin_rehearsal() {
  ops_.stream().zero(arenas_.weights);
  if (arenas_.rounded.data) ops_.stream().zero(arenas_.rounded);
}

void RankState::end_rehearsal(const Tensor& sums) {
  ops_.stream().zero(arenas_.grads);
  square_sums(sums);
  optimizer_step(layout_, ops_, arenas_, *optimizer_, {});
}

void RankState::spoil() {
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  ops_.stream().copy(arenas_.weights.data, &nan, sizeof nan);
  if (arenas_.rounded.data) ops_.round(arenas_.weights, arenas_.rounded);
}

}  // namespace pipetrain
