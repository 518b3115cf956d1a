// What a run starts from and leaves behind: a rank's weights and moments, between the host and its device.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "actors/training/rank_compute.hpp"

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
  try {
    for (unsigned i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(run);
  } catch (const std::system_error&) {  // no more threads: those there are do the work
  }
  run();
  for (auto& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

const Tensor& RankCompute::arena(StateKind kind) const {
  switch (kind) {
    case StateKind::weights:
      return arenas_.weights;
    case StateKind::first_moment:
      return arenas_.m;
    default:
      return arenas_.v;
  }
}

void RankCompute::load(const InitialState& state) {
  load_arena(StateKind::weights, *state.weights);
  if (arenas_.rounded.data) ops_->round(arenas_.weights, arenas_.rounded);
  if (state.first_moment) load_arena(StateKind::first_moment, *state.first_moment);
  if (state.second_moment) load_arena(StateKind::second_moment, *state.second_moment);
  applied_steps_ = state.applied_steps;
}

void RankCompute::load_arena(StateKind kind, const WeightSource& source) {
  // The largest first, so that no thread begins with one when the others are done.
  std::vector<const Parameter*> parameters;
  for (const auto& parameter : layout().parameters) parameters.push_back(&parameter);
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto* a, const auto* b) { return a->local.elements() > b->local.elements(); });
  std::mutex stream_turn;
  on_threads(loading_threads(*setup_.device), parameters.size(), [&](std::size_t i) {
    const Parameter& parameter = *parameters[i];
    std::vector<float> staging(static_cast<std::size_t>(parameter.local.elements()));
    source.load(parameter, staging.data());
    const std::lock_guard lock(stream_turn);
    stream_->copy(arena(kind).as<float>() + parameter.offset, staging.data(), staging.size() * sizeof(float));
    stream_->synchronize();
  });
}

void RankCompute::read(StateKind kind, const Parameter& parameter, float* out) {
  stream_->copy(out, arena(kind).as<float>() + parameter.offset,
                static_cast<std::size_t>(parameter.local.elements()) * sizeof(float));
  stream_->synchronize();
}

}  // namespace pipetrain
