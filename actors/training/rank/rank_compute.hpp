// One rank of one stage: its streams, its part of the model and its state, and what each action means on them.
// All methods but the constructor, make_lane() and fail() run on the rank's worker; they only enqueue.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/ranks/rank_streams.hpp"
#include "actors/ranks/ranked_compute.hpp"
#include "actors/training/rank/action_clock.hpp"
#include "actors/training/rank/activation_pool.hpp"
#include "actors/training/rank/braid.hpp"
#include "actors/training/rank/quiet_group.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "actors/training/rank/rank_state.hpp"
#include "comm/outgoing_links.hpp"
#include "model/context/ring_exchange.hpp"
#include "model/stage_model.hpp"

namespace pipetrain {

class RankCompute : public ComputeRank {
 public:
  // Allocates everything. Throws Error(out_of_memory).
  explicit RankCompute(RankSetup setup);
  ~RankCompute() override;

  Stream& stream() override { return *stream_; }
  void call_back(std::function<void()> callback) override { streams_.call_back(std::move(callback)); }
  std::exception_ptr failure() const override { return streams_.failure(); }
  void wait_until_idle() noexcept override;
  const MeshCoordinate& id() const { return setup_.id; }
  int rank() const override { return setup_.rank; }
  Device& device() const override { return *setup_.device; }
  const MemoryUse& memory() const { return memory_; }
  const ParameterLayout& layout() const { return model_->parameters(); }

  RankState& state() { return *state_; }

  // Hidden states or gradients, or ids for the ends of the model.
  Lane make_lane(schedules::InputKind kind, int chunk) override;

  void begin_step(const StepInfo& step) override;
  void begin_early(const StepInfo& coming) override;
  void set_verdict(const Verdict& verdict);
  void run(const Launch& launch) override;
  void run_braid(const Launch& first, const Launch& second) override;
  // Of this step's actions, in the order they were run; only when the step is over. Thread-safe.
  std::vector<DeviceAction> trace();
  // Of N. Of training: the loss sum of each microbatch where this rank holds the head, then the sums of squares of what it
  // counts in the norm. Of an evaluation: where this rank holds the head of classes, what each sample scores in its own
  // classes, then the loss sums.
  void add_result(const schedules::Action& action, StageResult& result) const override;
  void fail(std::exception_ptr cause) override;

 private:
  bool has_head() const;
  const StepSamples& samples() const { return evaluates() ? *setup_.evaluation : *setup_.samples; }  // of the step's kind
  bool evaluates() const { return step_.kind == schedules::StepKind::evaluation; }
  // Of the gradient of the logits: the run's loss scale over the target tokens of the whole global batch.
  float logits_scale() const { return static_cast<float>(step_.loss_scale / step_.tokens); }
  std::unique_ptr<Ops> make_ops() const;  // on the stream that computes, with memory of their own
  void make_reports();
  // Of the reports, the elements that a step of this kind fills.
  std::pair<std::int64_t, std::int64_t> reported() const;
  void copy_reports();
  TensorParallel tensor_parallel() const {
    Group* const group = braid_ ? static_cast<Group*>(braid_.get()) : tensor_group_.get();
    return {group, setup_.sequence_parallel};
  }
  bool on_gpu() const { return setup_.device->id().kind == DeviceKind::cuda; }
  void warm_up();
  void set_quiet(bool quiet);  // the groups of its operations
  void warm_up_slices(int chunk, const ForwardArgs& longest, const BackwardArgs& backward);
  void provoke(const Fault& fault);
  bool is_slow() const;                  // by a fault
  void delay();                          // what the stream computes next
  void open_step(const StepInfo& step);  // what its forwards need to know
  // Where the documents of the step's microbatches begin, onto the device.
  void load_documents(std::int64_t step, std::int64_t sequence);
  void add_documents(int piece, ForwardArgs& forward) const;
  // Of the tokens that this rank has of the step's microbatches, piece by piece, those of one: [begin, end).
  std::pair<std::int64_t, std::int64_t> tokens_of(int piece) const;
  struct Output {
    Lane* lane = nullptr;  // null: the launch has none
    Link* link = nullptr;
    Tensor target = {};  // where to write what the lane is to hold
  };
  void wait_for_inputs(const Launch& launch);
  Output begin_output(const Launch& launch);
  void pass_on(const Launch& launch, const Output& output);
  // `second`: in the operations that a braid's forward has for itself.
  void run_compute(const Launch& launch, const Tensor& output, bool second = false);
  void run_forward(const Launch& launch, const Tensor& output, ActivationSlot& slot, bool second);
  GradientListener listener_of(const schedules::Action& action);
  void run_move(const schedules::Action& action);
  void run_end_of_step(const schedules::Action& action);
  DropoutDraws draws_of(int microbatch) const;
  // Of the step's sequence, in the slices of a microbatch.
  RowSplit slices() const { return {sequence_, setup_.slices}; }
  // Where a slice of all the ranks that share the sequence begins in it.
  std::int64_t position_of(int slice) const { return slices().begin(slice) * setup_.context.size; }
  std::optional<SliceArgs> slice_of(const schedules::Action& action);

  RankSetup setup_;
  MemoryUse memory_;
  std::unique_ptr<QuietGroup> tensor_group_;   // null: one rank
  std::shared_ptr<QuietGroup> context_group_;  // null: no rank shares its sequences
  std::unique_ptr<BraidGroup> braid_;          // around that; null: no braid runs in turns
  Buffer workspace_memory_, second_workspace_memory_, reports_memory_, reports_host_memory_;
  Buffer documents_memory_, documents_host_memory_;  // none where the data does not isolate documents
  std::vector<Buffer> lane_memory_;
  Tensor scores_, losses_, square_sums_;  // f64, on the device; scores: [samples of a step, own classes], of evaluations
  Tensor reports_;                        // all in one piece
  // [1 or 2, tokens of the step] i32, piece by piece, or without memory: see ForwardArgs; where actions have parts of sequences
  // the second row is the origins
  Tensor documents_;
  RankStreams streams_;
  Stream* stream_;  // that computes
  std::unique_ptr<ActionClock> clock_;
  std::optional<OutgoingLinks> links_;
  std::unique_ptr<Ops> ops_, second_ops_;  // second: of braids' forwards, or null
  std::unique_ptr<RingExchange> ring_;     // null where context_group_ is
  std::unique_ptr<StageModel> model_;
  std::optional<RankState> state_;
  std::optional<ActivationPool> activations_;
  StepInfo step_;                         // of which forwards and backwards are launched
  StepInfo ending_;                       // whose N was launched last
  bool begun_early_ = false;              // step_ comes behind the running one
  bool previewed_ = false;                // in the running step
  std::vector<schedules::Action> early_;  // forwards behind the preview
  std::int64_t sequence_ = 1;             // of that step's samples
  Verdict verdict_;
};

}  // namespace pipetrain
