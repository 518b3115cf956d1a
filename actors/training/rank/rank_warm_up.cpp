#include "actors/training/rank/rank_compute.hpp"
#include "actors/training/rank/rank_memory.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;

// Whose tensors are of the longest slice.
void RankCompute::warm_up_slices(int chunk, const ForwardArgs& longest, const BackwardArgs& backward) {
  const auto index = static_cast<decltype(Action::chunk)>(chunk);
  const auto of_slice = [&](Tensor tensor, int slice) {
    const std::int64_t tokens = setup_.shape.batch * slices().count(slice);
    if (setup_.slices > 1) tensor.shape = tensor.dtype == DType::i32 ? Shape{tokens} : model_->hidden_shape();
    return tensor;
  };
  for (int slice = 0; slice < setup_.slices; ++slice) {
    const Action action{ActionKind::forward, index, slice};
    model_->set_sequence(slices().count(slice));
    ForwardArgs forward = longest;
    forward.slice = slice_of(action);
    forward.input = of_slice(longest.input, slice), forward.targets = of_slice(longest.targets, slice);
    forward.output = of_slice(longest.output, slice);
    if (setup_.isolates_documents)
      forward.documents = of_slice(longest.documents, slice), forward.origins = of_slice(longest.origins, slice);
    model_->forward(chunk, forward, activations_->take(action));
  }
  for (int slice = setup_.slices; slice-- > 0;) {
    const Action action{ActionKind::backward, index, slice};
    model_->set_sequence(slices().count(slice));
    model_->backward(chunk, {of_slice(backward.output_grad, slice), of_slice(backward.input_grad, slice), backward.loss_scale},
                     activations_->take(action));
    activations_->release(action, schedules::StepKind::training);
  }
}

void RankCompute::set_quiet(bool quiet) {
  if (tensor_group_) tensor_group_->set_quiet(quiet);
  if (context_group_) context_group_->set_quiet(quiet);
}

// Runs every kind of action on zeros, alone: libraries make their plans, kernels are loaded and scratch grows now and not
// in a step. Leaves weights and moments at zero.
void RankCompute::warm_up() {
  const Shape hidden = model_->hidden_shape();
  const Buffer memory = setup_.device->allocate(
      4 * align_up(hidden_bytes(setup_, hidden)) + 2 * align_up(static_cast<std::size_t>(setup_.shape.tokens()) * 4) + 256,
      "warming up");
  stream_->zero({memory.data(), {static_cast<std::int64_t>(memory.bytes() / 4)}, DType::f32});
  state_->begin_rehearsal();
  Arena arena(memory.data(), memory.bytes(), "warming up");
  const Tensor ids = arena.allocate({setup_.shape.tokens()}, DType::i32), loss = arena.allocate({1}, DType::f64);
  const Tensor documents = setup_.isolates_documents ? arena.allocate(ids.shape, DType::i32) : Tensor{};
  const Tensor input = arena.allocate(hidden, setup_.numerics.precision.compute),
               output = arena.allocate(hidden, setup_.numerics.precision.compute);
  const BackwardArgs backward{arena.allocate(hidden, setup_.numerics.precision.compute),
                              arena.allocate(hidden, setup_.numerics.precision.compute), 1};

  set_quiet(true);
  model_->begin_step();
  sequence_ = setup_.sequence;
  // The first backward writes gradients, the second adds to them: libraries may have a kernel for each. The first round has the
  // head's forward of an evaluation, the last that of a step. One more has the forwards of braids, in operations of their own.
  const int rounds = setup_.slices > 1 ? 1 : second_ops_ ? 3 : 2;
  for (int round = 0; round < rounds; ++round) {
    for (int chunk = 0; chunk < static_cast<int>(setup_.chunks.size()); ++chunk) {
      const bool first = setup_.chunks[static_cast<std::size_t>(chunk)].front().kind == BlockKind::embedding;
      ForwardArgs forward{first ? ids : input, ids, output, loss, documents, DropoutDraws{}, {}, {}};
      if (computes_parts(setup_)) forward.origins = documents;
      if (round > 0 || setup_.slices > 1) forward.loss_scale = backward.loss_scale;
      forward.second = round == 2;
      warm_up_slices(chunk, forward, backward);
    }
  }
  set_quiet(false);
  state_->end_rehearsal(square_sums_);
  stream_->synchronize();
}

}  // namespace pipetrain
