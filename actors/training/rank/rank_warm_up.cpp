#include "actors/training/rank/rank_warm_up.hpp"

#include "actors/training/rank/rank_memory.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;

// Returns the part of a tensor of the longest slice that this slice has.
Tensor WarmUp::of_slice(Tensor longest, int slice) const {
  if (setup.slices > 1)
    longest.shape = longest.dtype == DType::i32 ? Shape{setup.shape.batch * inputs.tokens(slice)} : model->hidden_shape();
  return longest;
}

// All tensors of `longest` and `backward` are of the longest slice.
void WarmUp::run_microbatch(int chunk, const ForwardArgs& longest, const BackwardArgs& backward) const {
  const auto action = [chunk](ActionKind kind, int slice) {
    return Action{kind, static_cast<decltype(Action::chunk)>(chunk), slice};
  };
  for (int slice = 0; slice < setup.slices; ++slice) {
    model->set_sequence(inputs.tokens(slice));
    ForwardArgs forward = longest;
    forward.slice = inputs.slice(slice);
    if (forward.slice) forward.slice->earlier = activations.earlier_slices(action(ActionKind::forward, slice));
    for (Tensor ForwardArgs::*tensor : {&ForwardArgs::input, &ForwardArgs::targets, &ForwardArgs::output})
      forward.*tensor = of_slice(longest.*tensor, slice);
    if (setup.isolates_documents)
      forward.documents = of_slice(longest.documents, slice), forward.origins = of_slice(longest.origins, slice);
    model->forward(chunk, forward, activations.take(action(ActionKind::forward, slice)));
    if (forward.base_alone) activations.release(action(ActionKind::forward, slice), schedules::StepKind::evaluation);
  }
  if (longest.base_alone) return;
  for (int slice = setup.slices; slice-- > 0;) {
    model->set_sequence(inputs.tokens(slice));
    BackwardArgs of{of_slice(backward.output_grad, slice), of_slice(backward.input_grad, slice), backward.loss_scale};
    reports.add_to(of, chunk);
    model->backward(chunk, of, activations.take(action(ActionKind::backward, slice)));
    activations.release(action(ActionKind::backward, slice), schedules::StepKind::training);
  }
}

void WarmUp::run() const {
  const Shape hidden = model->hidden_shape();
  const Buffer memory = setup.device->allocate(4 * align_up(hidden_bytes(setup, hidden)) +
                                                   2 * align_up(static_cast<std::size_t>(setup.shape.tokens()) * 4) + 1024 +
                                                   static_cast<std::size_t>(setup.shape.batch) * 8 * sizeof(double),
                                               "warming up");
  compute.zero({memory.data(), {static_cast<std::int64_t>(memory.bytes() / 4)}, DType::f32});
  state.begin_rehearsal();
  Arena arena(memory.data(), memory.bytes(), "warming up");
  const auto hidden_tensor = [&] { return arena.allocate(hidden, setup.numerics.precision.compute); };
  const Tensor ids = arena.allocate({setup.shape.tokens()}, DType::i32), loss = arena.allocate({1}, DType::f64);
  const Tensor sums = setup.config.preference ? arena.allocate({setup.shape.batch, 2}, DType::f64) : loss;
  const Tensor facts = arena.allocate({setup.config.preference ? setup.shape.batch : 0, preference_facts}, DType::f64);
  const Tensor documents = setup.isolates_documents ? arena.allocate(ids.shape, DType::i32) : Tensor{};
  const Tensor input = hidden_tensor(), output = hidden_tensor();
  const BackwardArgs backward{hidden_tensor(), hidden_tensor(), 1};

  model.set_quiet(true);
  model->begin_step();
  inputs.begin_longest();
  // The first backward writes gradients, the second adds to them: libraries may have a kernel for each. The first round
  // runs the head's forward as in an evaluation, the last as in training. One more round runs the forwards of braids,
  // with their own operations. Where a reference leaves adapters out, the last round runs its forwards.
  const int rounds = setup.slices > 1 ? 1 : model.braid() ? 3 : 2;
  const bool leaves_out =
      setup.config.adapter.exists() && ReferenceWeights::are_needed(setup) && setup.preference.compares_with_base();
  for (int round = 0; round < rounds + (leaves_out ? 1 : 0); ++round) {
    for (int chunk = 0; chunk < static_cast<int>(setup.chunks.size()); ++chunk) {
      const bool first = setup.chunks[static_cast<std::size_t>(chunk)].front().kind == BlockKind::embedding;
      ForwardArgs forward{first ? ids : input, ids, output, sums, documents, DropoutDraws{}, {}, {}};
      if (setup.config.preference) forward.preference_facts = facts;
      if (computes_parts(setup)) forward.origins = documents;
      forward.base_alone = round == rounds;
      if ((round > 0 || setup.slices > 1) && !forward.base_alone) forward.loss_scale = backward.loss_scale;
      forward.second = round == 2 && !forward.base_alone;
      run_microbatch(chunk, forward, backward);
    }
  }
  model.set_quiet(false);
  state.end_rehearsal(reports.square_sums());
  model->weights_loaded();  // they come after the warm-up
  compute.synchronize();
}

}  // namespace pipetrain
