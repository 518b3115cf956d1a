// One tensor-parallel rank of one stage: its device memory, its part of the model, and what each action means on them. All
// methods but the constructor, make_lane() and fail() run on the rank's worker; they only enqueue.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/action_clock.hpp"
#include "actors/training/activation_pool.hpp"
#include "actors/training/fault.hpp"
#include "actors/training/gradient_reduction.hpp"
#include "actors/training/quiet_group.hpp"
#include "comm/outgoing_links.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "core/process_group.hpp"
#include "model/optimizer.hpp"
#include "model/stage_model.hpp"
#include "model/weights/weights.hpp"
#include "schedules/validate.hpp"

namespace pipetrain {

// The groups that a rank is a member of; null where the group would have one member.
struct RankGroups {
  std::shared_ptr<Group> tensor;  // the ranks of the stage
  std::shared_ptr<Group> data;    // the same stage and rank in every replica, in replica order
  std::shared_ptr<Group> tied;    // with tied embeddings: the two stages of schedules::tied_sum_places(), in its order
};

// What a rank computes with, given what it otherwise would: for measurements. Called by all ranks' workers at once.
using WrapOps = std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops>, const MeshCoordinate&)>;

struct RankSetup {
  MeshCoordinate id;
  int rank = 0;  // of the mesh
  Device* device = nullptr;
  RankGroups groups;
  ModelConfig config;
  std::vector<std::vector<Block>> chunks;  // of this stage
  MicrobatchShape shape;
  int microbatches = 1;
  bool sequence_parallel = true;
  DType precision = DType::f32;  // of activations, and of the weights that the operations read
  Recompute recompute = Recompute::none;
  bool deterministic = true;  // see make_cuda_ops()
  LinkKinds links;            // to the ranks whose slots it fills
  // Whether every replica comes to its last backward actions in the same order, so that gradients may be summed as they come.
  bool same_order = true;
  AdamW adamw;  // rate, step and scale come with each step
  schedules::StageNeeds needs;
  WrapOps wrap_ops;            // may be null
  std::optional<Fault> fault;  // of this rank
};

// Bytes on the device, by purpose.
struct MemoryUse {
  std::size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, queues = 0, workspace = 0;
  std::size_t total() const { return parameters + gradients + optimizer + activations + queues + workspace; }
};

// What a rank will allocate, found without allocating it. What a GPU's libraries take is known only
// when they have planned for the shapes; here it is estimated.
MemoryUse estimate_memory(const RankSetup& setup);

// What a run needs to go on: the arenas that a checkpoint holds.
enum class StateKind { weights, first_moment, second_moment };

// Where a stage's state comes from. Without moments they start at zero.
struct InitialState {
  std::shared_ptr<const WeightSource> weights, first_moment, second_moment;
  std::int64_t applied_steps = 0;  // optimizer steps behind them
};

struct RankResult {
  std::vector<NormPart> norm_parts;
  std::vector<double> loss_sums;  // by microbatch; on the ranks that hold the head, else empty
};

class RankCompute {
 public:
  // Allocates everything. Throws Error(out_of_memory).
  explicit RankCompute(RankSetup setup);
  ~RankCompute();

  Stream& stream() { return *stream_; }
  // Runs when everything enqueued so far has, on some host thread. The device does not wait for it on a GPU.
  void call_back(std::function<void()> callback);
  // The first failure of this rank's streams, or null. Thread-safe, never blocks.
  std::exception_ptr failure() const;
  // Waits until nothing of this rank touches any memory.
  void wait_until_idle() noexcept;
  const MeshCoordinate& id() const { return setup_.id; }
  const MemoryUse& memory() const { return memory_; }
  const ParameterLayout& layout() const { return model_->parameters(); }

  // Waits for the device, unlike all others.
  void load(const InitialState& state);
  // This rank's slice of a parameter of layout(), dense, to host memory. Only between steps; waits for the device.
  void read(StateKind kind, const Parameter& parameter, float* out);

  // A piece of a queue's slot: hidden states or gradients, or ids for the ends of the model.
  Lane make_lane(schedules::InputKind kind, int chunk);

  void begin_step(const StepInfo& step);
  void set_verdict(const Verdict& verdict) { verdict_ = verdict; }
  // Everything of the launch on this rank's lane.
  void run(const Launch& launch);
  // Of this step's actions, in the order they were run; only between steps.
  const std::vector<DeviceAction>& trace();
  // After N has run: what it found.
  RankResult result() const;
  // Stops the device's work with this cause. Thread-safe.
  void fail(std::exception_ptr cause);

 private:
  bool has_head() const;
  TensorParallel tensor_parallel() const { return {tensor_group_.get(), setup_.sequence_parallel}; }
  bool on_gpu() const { return setup_.device->id().kind == DeviceKind::cuda; }
  void warm_up();
  // All that this rank enqueues to.
  std::vector<Stream*> streams() const;
  const Tensor& arena(StateKind kind) const;
  void load_arena(StateKind kind, const WeightSource& source);
  void provoke(const Fault& fault);
  Tensor allocate(Buffer& buffer, std::size_t elements, DType dtype, const std::string& what);
  // `output`: where to write what the launch's output slot is to hold.
  void run_compute(const Launch& launch, const Tensor& output);
  void run_end_of_step(const schedules::Action& action);
  void sum_tied();

  RankSetup setup_;
  MemoryUse memory_;
  std::unique_ptr<QuietGroup> tensor_group_;  // null: one rank
  Buffer weights_memory_, rounded_memory_, grads_memory_, m_memory_, v_memory_, workspace_memory_, reports_memory_,
      reports_host_memory_;
  std::vector<Buffer> lane_memory_;
  OptimizerArenas arenas_;
  Tensor losses_, square_sums_;    // f64, on the device
  Tensor reports_, reports_host_;  // both in one piece, and its copy on the host
  std::vector<std::size_t> counted_;
  std::unique_ptr<Stream> stream_;
  // On a GPU a host callback holds up its stream, so callbacks have one of their own.
  std::unique_ptr<Stream> callbacks_;
  std::unique_ptr<Event> reached_;
  std::unique_ptr<ActionClock> clock_;
  std::optional<OutgoingLinks> links_;
  std::unique_ptr<GradientReduction> reduction_;  // null: one replica
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<StageModel> model_;
  std::optional<ActivationPool> activations_;
  StepInfo step_;
  Verdict verdict_;
  std::int64_t applied_steps_ = 0;
};

}  // namespace pipetrain
