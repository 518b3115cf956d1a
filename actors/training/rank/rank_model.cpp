#include "actors/training/rank/rank_model.hpp"

#include <string>
#include <utility>

#include "actors/training/rank/rank_memory.hpp"

namespace pipetrain {

using schedules::ActionKind;

RankModel::RankModel(const RankSetup& setup, RankStreams& streams)
    : setup_(setup), compute_(streams.compute()), ops_(make_ops()) {
  Device& device = *setup.device;
  if (setup.groups.tensor) tensor_group_ = std::make_unique<QuietGroup>(setup.groups.tensor);
  if (setup.groups.experts) expert_group_ = std::make_unique<QuietGroup>(setup.groups.experts);
  if (runs_in_turns(setup)) {
    braid_ = std::make_unique<Braid>(device, "braid");
    if (tensor_group_) tensor_braid_ = std::make_unique<BraidGroup>(*tensor_group_, *braid_);
    if (expert_group_) expert_braid_ = std::make_unique<BraidGroup>(*expert_group_, *braid_);
    streams.add({&braid_->stream()});
    second_ops_ = make_ops();
  }
  if (setup.groups.context) {
    context_group_ = std::make_shared<QuietGroup>(setup.groups.context);
    ring_ = std::make_unique<RingExchange>(device, context_group_, "ring of " + to_string(setup.id));
    streams.add({&ring_->stream()});
  }
  StageModelSpec spec = model_spec(setup);
  spec.experts.group = expert_braid_ ? static_cast<Group*>(expert_braid_.get()) : expert_group_.get();
  spec.context.ring = ring_.get();
  model_ = make_stage_model(spec, tensor_parallel(), *ops_);
}

std::unique_ptr<Ops> RankModel::make_ops() const {
  const bool on_gpu = setup_.device->id().kind == DeviceKind::cuda;
  auto ops = on_gpu ? make_cuda_ops(compute_, setup_.numerics.deterministic) : make_cpu_ops(compute_);
  return setup_.wrap_ops ? setup_.wrap_ops(std::move(ops), setup_.id) : std::move(ops);
}

TensorParallel RankModel::tensor_parallel() const {
  Group* const group = tensor_braid_ ? static_cast<Group*>(tensor_braid_.get()) : tensor_group_.get();
  return {group, setup_.layout.sequence_parallel};
}

Buffer RankModel::make_workspace(const char* what) const {
  return setup_.device->allocate(model_->workspace_bytes(), to_string(setup_.id) + ": " + what);
}

void RankModel::bind(ParameterStore& weights, GradientPlaces grads) {
  model_->bind(weights, std::move(grads));
  workspace_ = make_workspace("workspace");
  model_->bind_workspace(workspace_.data(), workspace_.bytes());
  if (!braid_) return;
  second_workspace_ = make_workspace("second workspace");
  model_->bind_second(*second_ops_, second_workspace_.data(), second_workspace_.bytes());
}

void RankModel::backward(const schedules::Action& action, const BackwardArgs& args, ActivationSlot& slot,
                         GradientListener listener) {
  // W has no collectives at which a braid would switch to its other action.
  if (braid_ && action.kind == ActionKind::weight_grad)
    listener.added = [this, added = std::move(listener.added)](const Tensor& dw) {
      if (added) added(dw);
      braid_->pass();
    };
  model_->listen(std::move(listener));
  if (action.kind == ActionKind::backward) model_->backward(action.chunk, args, slot);
  if (action.kind == ActionKind::input_grad) model_->input_grad(action.chunk, args, slot);
  if (action.kind == ActionKind::weight_grad) model_->weight_grad(action.chunk, slot);
  model_->listen({});
}

void RankModel::set_quiet(bool quiet) {
  if (tensor_group_) tensor_group_->set_quiet(quiet);
  if (context_group_) context_group_->set_quiet(quiet);
  if (expert_group_) expert_group_->set_quiet(quiet);
}

void RankModel::wait_until_idle() noexcept {
  if (PiecewiseTransfer* transfer = tensor_group_ ? tensor_group_->in_pieces() : nullptr) transfer->wait_until_idle();
}

}  // namespace pipetrain
