// Chooses among what is ready, by the plan's ReadyRule. Internal to schedules/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/plan.hpp"

namespace pipetrain::schedules {

// Why this never deadlocks, whatever the speeds and the placement: take the lowest microbatch that some chunk has not finished,
// and the first virtual stage where it is not done. Its stage holds nothing of that chunk or of later ones (all lower
// microbatches are finished, and within a chunk they keep their order), and every forward of an earlier chunk left one place
// free for each later chunk: so the cap admits its forward. Backwards and weight gradients need no place.
class ReadyChoice {
 public:
  ReadyChoice(const Plan& plan, int stage);

  void begin_step();

  // `can_run` tells whether an action's inputs and credit are there; what must precede it on this stage is checked here.
  template <class CanRun>
  std::optional<Action> pick(const CanRun& can_run) const {
    using Candidate = std::optional<Action> (ReadyChoice::*)(int) const;
    static constexpr Candidate backward_first[] = {&ReadyChoice::backward, &ReadyChoice::forward, &ReadyChoice::weight_grad};
    static constexpr Candidate forward_first[] = {&ReadyChoice::forward, &ReadyChoice::backward, &ReadyChoice::weight_grad};
    for (const Candidate candidate : rule_ == ReadyRule::backward_first ? backward_first : forward_first) {
      std::optional<Action> best;
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        const auto action = (this->*candidate)(chunk);
        if (action && can_run(*action) && (!best || position(*action) < position(*best))) best = action;
      }
      if (best) return best;
    }
    return std::nullopt;
  }
  void launched(const Action& action);
  // The compute action of each kind that each chunk would run next; for reports.
  std::vector<Action> candidates() const;

 private:
  struct Chunk {
    int next_forward = 0;
    int next_backward = 0;     // B or I
    int next_weight_grad = 0;  // first microbatch whose weight gradients are not launched, by W or B
  };

  std::optional<Action> forward(int chunk) const;
  std::optional<Action> backward(int chunk) const;
  std::optional<Action> weight_grad(int chunk) const;
  std::size_t index(int chunk, int microbatch) const {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(microbatch);
  }
  // The place in the plan: among several chunks the earliest planned action goes first.
  int position(const Action& action) const;

  ReadyRule rule_;
  int chunks_;
  int microbatches_;
  int cap_;
  int held_ = 0;  // microbatches between F and B or W
  std::vector<Chunk> state_;
  std::vector<std::uint8_t> split_;         // [chunk, microbatch]: the plan has I and W instead of B
  std::vector<std::int32_t> positions_[3];  // [chunk, microbatch] of F, of B or I, of W
};

}  // namespace pipetrain::schedules
