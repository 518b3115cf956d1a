#include "schedules/protocol/stage_supplies.hpp"

namespace pipetrain::schedules {

StageSupplies::StageSupplies(const Plan& plan, int stage, const ImpossibleEvents& impossible)
    : impossible_(impossible),
      microbatches_(plan.microbatches),
      chunks_(static_cast<std::size_t>(plan.placement.chunks())),
      inputs_(plan.placement.chunks(), plan.microbatches) {
  for (int c = 0; c < plan.placement.chunks(); ++c) {
    chunk(c).is_first = plan.placement.is_first({stage, c});
    chunk(c).is_last = plan.placement.is_last({stage, c});
  }
}

void StageSupplies::check_input(InputKind kind, int c, int microbatch) const {
  if (!has_chunk(c) || microbatch < 0 || microbatch >= microbatches_)
    impossible_.input(kind, c, microbatch, "is not in the plan");
  const bool is_last = chunk(c).is_last;
  if (kind == InputKind::gradient && is_last) impossible_.input(kind, c, microbatch, "comes, but it is the last of the model");
  if (kind == InputKind::target && !is_last)
    impossible_.input(kind, c, microbatch, "comes, but it is not the last of the model");
}

void StageSupplies::take_back(int c, int microbatch) {
  if (!inputs_.has_for_coming_step(InputKind::activation, c, microbatch))
    impossible_.input(InputKind::activation, c, microbatch, "is taken back and did not come");
  inputs_.forget_for_coming_step(InputKind::activation, c, microbatch);
}

void StageSupplies::add_credit(InputKind output, int c) {
  if (!has_chunk(c)) impossible_.credit(output, c, "is not in the plan");
  if (output == InputKind::activation && !chunk(c).is_last) {
    ++chunk(c).activation_credits;
  } else if (output == InputKind::gradient && !chunk(c).is_first) {
    ++chunk(c).gradient_credits;
  } else {
    impossible_.credit(output, c, "sends none");
  }
}

bool StageSupplies::has_coming_inputs(const Action& forward) const {
  const auto came = [&](InputKind kind) { return inputs_.has_for_coming_step(kind, forward.chunk, forward.microbatch); };
  return came(InputKind::activation) && (!chunk(forward.chunk).is_last || came(InputKind::target));
}

bool StageSupplies::has_second_credit(const Action& first, const Action& second) const {
  if (second.kind != ActionKind::forward || second.chunk != first.chunk) return has_credit(second);
  return chunk(second.chunk).is_last || chunk(second.chunk).activation_credits > 1;
}

std::vector<std::string> StageSupplies::missing(const Action& action, int slices) const {
  std::vector<std::string> missing;
  const auto need = [&](InputKind kind) {
    if (!inputs_.has(kind, action.chunk, action.microbatch))
      missing.push_back(std::string("the ") + name_of(kind) + " of microbatch " + piece_text(action.microbatch, slices));
  };
  if (action.kind == ActionKind::forward) {
    need(InputKind::activation);
    if (chunk(action.chunk).is_last) need(InputKind::target);
  }
  if (gives_input_grad(action.kind) && !chunk(action.chunk).is_last) need(InputKind::gradient);
  if (!has_credit(action))
    missing.push_back(action.kind == ActionKind::forward ? "a free slot for its activation" : "a free slot for its gradient");
  return missing;
}

}  // namespace pipetrain::schedules
