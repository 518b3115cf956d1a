#include "actors/training/rank/rank_compute.hpp"

#include <string>
#include <utility>

#include "actors/training/rank/rank_memory.hpp"
#include "actors/training/rank/rank_warm_up.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;

namespace {

std::string stream_name(const MeshCoordinate& id) {
  return "s" + std::to_string(id.pp) + "r" + std::to_string(id.tp) + (id.cp > 0 ? "c" + std::to_string(id.cp) : "") +
         (id.ep > 0 ? "e" + std::to_string(id.ep) : "") + "d" + std::to_string(id.dp);
}

}  // namespace

RankCompute::RankCompute(RankSetup setup)
    : ComputeRank(*setup.device, setup.rank, stream_name(setup.id)),
      setup_(std::move(setup)),
      stream_(streams().compute()),
      model_(setup_, streams()),
      memory_(memory_use(setup_, *model_)),
      state_(setup_, layout(), model_.tensor_parallel(), model_.ops()),
      reports_(setup_, model_.tensor_parallel(), state_.sum_count()),
      inputs_(setup_, stream_),
      preferences_(setup_, stream_),
      biases_(setup_, stream_),
      activations_({.model = *model_,
                    .needs = setup_.needs,
                    .microbatches = setup_.microbatches,
                    .slices = setup_.slices,
                    .compute = stream_,
                    .folder = setup_.offload.folder,
                    .owner = to_string(setup_.id)}),
      lanes_(setup_, hidden_bytes(setup_, model_->hidden_shape()), stream_),
      clock_(*setup_.device),
      fault_(setup_, stream_),
      end_({state_, reports_, activations_, clock_, stream_}) {
  model_.bind(state_.parameters(), state_.gradient_places());
  for (const std::vector<Stream*>& others : {state_.transfer_streams(), activations_.streams(), lanes_.streams()})
    streams().add(others);
  if (setup_.device->id().kind == DeviceKind::cuda)
    WarmUp{setup_, stream_, model_, state_, inputs_, activations_, reports_}.run();
}

void RankCompute::wait_until_idle() noexcept {
  ComputeRank::wait_until_idle();
  model_.wait_until_idle();
  if (PiecewiseTransfer* transfer = setup_.groups.data ? setup_.groups.data->in_pieces() : nullptr) transfer->wait_until_idle();
}

Lane RankCompute::make_lane(schedules::InputKind kind, int chunk) {
  return lanes_.make(lane_tensor(setup_, kind, chunk, model_->hidden_shape()));
}

void RankCompute::keep_copy(std::int64_t step, const std::shared_ptr<const std::vector<std::byte>>& record) {
  if (setup_.records) setup_.records->put(step, record);
  state_.keep_copy(step);
}

void RankCompute::begin_step(const StepInfo& step) {
  clock_.begin_step(stream_);
  if (std::exchange(begun_early_, false)) {
    step_ = step;
  } else {
    open_step(step);
  }
  end_.begin_step();
  const PreferencePass pass = setup_.config.preference ? preference_pass_of(step) : PreferencePass{};
  if (pass.frees_reference) state_.free_reference();
  model_->read_weights(pass.by_reference ? state_.reference() : state_.parameters());
  // Reading states outside of the device discards what the step has begun to fetch, so the copy comes first.
  if (!step.evaluates()) keep_copy(step.step - 1, step.progress);
  if (!pass.by_reference) state_.begin_step(step);
  preferences_.begin(pass);
  reports_.begin_step(stream_, step);
  model_->begin_step();
  fault_.begin_step(step, [this] { state_.spoil(); });
}

void RankCompute::begin_early(const StepInfo& coming) {
  begun_early_ = true;
  open_step(coming);
}

void RankCompute::open_step(const StepInfo& step) {
  step_ = step;
  inputs_.begin(step);
  biases_.begin_step(step);
  model_->set_sequence(inputs_.tokens(0));
}

// Runs beside compute; the two streams wait for each other where they must.
void RankCompute::run_move(const Action& action) {
  Stream& stream = activations_.begin_move(action);
  clock_.start(stream, action);
  activations_.move(action);
  clock_.end(stream);
  clock_.collect();
}

RankLanes::Output RankCompute::begin_launch(const Launch& launch) {
  lanes_.wait_for_inputs(launch);
  if (schedules::is_compute(launch.action.kind)) model_->set_sequence(inputs_.tokens(launch.action.microbatch));
  return lanes_.begin_output(launch, model_->hidden_shape());
}

void RankCompute::run(const Launch& launch) {
  if (schedules::is_move(launch.action.kind)) return run_move(launch.action);
  const RankLanes::Output output = begin_launch(launch);
  clock_.start(stream_, launch.action, launch.early);
  if (launch.early) end_.launched_early(launch.action);
  if (schedules::is_compute(launch.action.kind)) {
    run_compute(launch, output.target);
  } else {
    end_.run(launch.action, step_);
    if (launch.action.kind == schedules::ActionKind::optimizer) fault_.after_update(end_.ending());
  }
  clock_.end(stream_);
  lanes_.pass_on(launch, output);
  clock_.collect();
}

// The clock counts the two actions one after the other: the second one's time begins when the first ends.
void RankCompute::run_braid(const Launch& first, const Launch& second) {
  if (!model_.braid()) return ComputeRank::run_braid(first, second);
  const RankLanes::Output first_output = begin_launch(first), second_output = begin_launch(second);
  clock_.start(stream_, first.action);
  model_.braid()->run(
      [&] {
        run_compute(first, first_output.target, true);
        clock_.end(stream_);
        lanes_.pass_on(first, first_output);
        clock_.start(stream_, second.action);
      },
      [&] { run_compute(second, second_output.target); });
  clock_.end(stream_);
  lanes_.pass_on(second, second_output);
  clock_.collect();
}

void RankCompute::run_compute(const Launch& launch, const Tensor& output, bool second) {
  const Action& action = launch.action;
  fault_.delay(step_);
  ActivationSlot& slot = activations_.take(action);
  if (action.kind == ActionKind::forward) {
    run_forward(launch, output, slot, second);
  } else {
    BackwardArgs backward{lanes_.tensor(launch.gradient), output, logits_scale(), sequence_scale()};
    reports_.add_to(backward, action.chunk);
    biases_.add_to(backward, action.chunk);
    model_.backward(action, backward, slot, listener_of(action));
  }
  activations_.release(action, step_.kind);
}

void RankCompute::run_forward(const Launch& launch, const Tensor& output, ActivationSlot& slot, bool second) {
  const Action& action = launch.action;
  ForwardArgs forward{lanes_.tensor(launch.activation), lanes_.tensor(launch.target), output, {}};
  forward.second = second;
  // A step that begins early may get another loss scale.
  if (!step_.evaluates() && !launch.early) forward.loss_scale = logits_scale();
  inputs_.add_to(forward, action.microbatch);
  preferences_.add_to(forward, action.microbatch);
  biases_.add_to(forward, action.chunk);
  if (forward.slice) forward.slice->earlier = activations_.earlier_slices(action);
  if (launch.target) reports_.add_to(forward, action, step_);
  model_->forward(action.chunk, forward, slot);
}

GradientListener RankCompute::listener_of(const Action& action) {
  // After the step's last microbatch each gradient is final.
  GradientListener listener;
  const int place = schedules::backward_place(action.microbatch, setup_.slices);
  const bool last = state_.is_replicated() && setup_.same_order && place == setup_.microbatches - 1;
  if (last) listener.added = [this](const Tensor& dw) { state_.start_reduction(dw); };
  if (state_.shares_gradient_memory()) listener.opens = [this](std::size_t block) { state_.open_gradients(block); };
  if (state_.offloads_gradients()) listener.closes = [this, last](std::size_t block) { state_.close_gradients(block, last); };
  return listener;
}

void RankCompute::fail(std::exception_ptr cause) {
  streams().fail(cause);
  setup_.groups.abort(cause);
  if (setup_.buddies && setup_.buddies->ring) setup_.buddies->ring->abort(cause);
  streams().release_callbacks();
}

}  // namespace pipetrain
