// StageSupplies counts what the compute actions of a stage need: the inputs that have arrived, and the free slots for their
// outputs. Internal to schedules/.
#pragma once

#include <string>
#include <vector>

#include "schedules/protocol/impossible_events.hpp"
#include "schedules/protocol/inputs.hpp"

namespace pipetrain::schedules {

class StageSupplies {
 public:
  StageSupplies(const Plan& plan, int stage, const ImpossibleEvents& impossible);

  void begin_step() { inputs_.begin_step(); }
  // Throws std::logic_error for an input that no action of the stage reads.
  void check_input(InputKind kind, int c, int microbatch) const;
  // Return false when the input was there already.
  bool add(InputKind kind, int c, int microbatch) { return inputs_.add(kind, c, microbatch); }
  bool add_for_coming_step(InputKind kind, int c, int microbatch) { return inputs_.add_for_coming_step(kind, c, microbatch); }
  void take_back(int c, int microbatch);
  void add_credit(InputKind output, int c);

  bool has_inputs(const Action& action) const;
  // True when the forward's inputs have arrived for the coming step.
  bool has_coming_inputs(const Action& forward) const;
  bool has_credit(const Action& action) const;
  // True when there is a credit for the second action of a braid besides that of the first.
  bool has_second_credit(const Action& first, const Action& second) const;
  // The action is launched, and uses its output's credit.
  void take_credit(const Action& action);

  // Returns the names of what a compute action lacks: "the gradient of microbatch 3", "a free slot for its gradient".
  std::vector<std::string> missing(const Action& action, int slices) const;

 private:
  // The inputs and outputs of a chunk, which follow from its place in the model.
  struct Chunk {
    bool is_first = false;
    bool is_last = false;
    int activation_credits = 0;
    int gradient_credits = 0;
  };

  bool has_chunk(int c) const { return c >= 0 && static_cast<std::size_t>(c) < chunks_.size(); }
  const Chunk& chunk(int c) const { return chunks_[static_cast<std::size_t>(c)]; }
  Chunk& chunk(int c) { return chunks_[static_cast<std::size_t>(c)]; }

  ImpossibleEvents impossible_;
  int microbatches_;
  std::vector<Chunk> chunks_;
  Inputs inputs_;
};

// Inline, because a simulation spends much of its time here.

inline bool StageSupplies::has_inputs(const Action& action) const {
  const int c = action.chunk, m = action.microbatch;
  if (action.kind == ActionKind::forward)
    return inputs_.has(InputKind::activation, c, m) && (!chunk(c).is_last || inputs_.has(InputKind::target, c, m));
  return !gives_input_grad(action.kind) || chunk(c).is_last || inputs_.has(InputKind::gradient, c, m);
}

inline bool StageSupplies::has_credit(const Action& action) const {
  if (action.kind == ActionKind::forward) return chunk(action.chunk).is_last || chunk(action.chunk).activation_credits > 0;
  if (gives_input_grad(action.kind)) return chunk(action.chunk).is_first || chunk(action.chunk).gradient_credits > 0;
  return true;
}

inline void StageSupplies::take_credit(const Action& action) {
  if (action.kind == ActionKind::forward && !chunk(action.chunk).is_last) --chunk(action.chunk).activation_credits;
  if (gives_input_grad(action.kind) && !chunk(action.chunk).is_first) --chunk(action.chunk).gradient_credits;
}

}  // namespace pipetrain::schedules
