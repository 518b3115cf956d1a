// Chooses among the actions that are ready, by the plan's ReadyRule. Internal to schedules/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// This never deadlocks, whatever the speeds and the placement. Proof: take the lowest microbatch that some chunk has not
// finished, and the first virtual stage where it is not done. Its stage holds no microbatch of that chunk or of later ones (all
// lower microbatches are finished, and within a chunk they keep their order), and every forward of an earlier chunk left one
// place free for each later chunk: so the limit admits its forward. Backwards and weight gradients need no place.
class ReadyChoice {
 public:
  ReadyChoice(const Plan& plan, int stage);

  void begin_step();

  // `can_run` returns whether an action's inputs and credit are available; this function checks the order on this
  // stage. `is_busy`: something is launched and not completed, so there is time to wait for a better choice.
  template <class CanRun>
  std::optional<Action> pick(const CanRun& can_run, bool is_busy) const {
    if (rule_ == ReadyRule::plan_order) {
      auto best = earliest(can_run, {Row::backward, Row::forward, Row::weight_grad});
      if (best && is_busy && position(*best) != first_planned()) best.reset();
      return best;
    }
    const bool forward_first = rule_ == ReadyRule::forward_first;
    for (const Row row :
         {forward_first ? Row::forward : Row::backward, forward_first ? Row::backward : Row::forward, Row::weight_grad})
      if (const auto best = earliest(can_run, {row})) return best;
    return std::nullopt;
  }
  void launched(const Action& action);
  // Returns an action after all compute, in plan order.
  const Action& end_of_step(std::size_t index) const { return ends_of_step_[index]; }
  // Returns the compute action of each kind that each chunk would run next; for reports.
  std::vector<Action> candidates() const;

 private:
  struct Chunk {
    int next_forward = 0;
    int next_backward = 0;     // B or I
    int next_weight_grad = 0;  // the first microbatch whose weight gradients are not launched, by W or B
  };

  enum class Row { forward, backward, weight_grad };

  // Returns, among the given rows of all chunks, the action that can run and is first in the plan.
  template <class CanRun>
  std::optional<Action> earliest(const CanRun& can_run, std::initializer_list<Row> rows) const {
    std::optional<Action> best;
    for (int chunk = 0; chunk < chunks_; ++chunk)
      for (const Row row : rows) {
        const auto action = candidate(row, chunk);
        if (action && can_run(*action) && (!best || position(*action) < position(*best))) best = action;
      }
    return best;
  }
  std::optional<Action> candidate(Row row, int chunk) const {
    if (row == Row::forward) return forward(chunk);
    return row == Row::backward ? backward(chunk) : weight_grad(chunk);
  }
  // Returns the position in the plan of the first action that is not launched.
  int first_planned() const;
  std::optional<Action> forward(int chunk) const;
  std::optional<Action> backward(int chunk) const;
  std::optional<Action> weight_grad(int chunk) const;
  std::size_t index(int chunk, int microbatch) const {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(microbatch);
  }
  int position(const Action& action) const;

  ReadyRule rule_;
  int chunks_;
  int microbatches_;
  int cap_;
  int held_ = 0;  // microbatches between F and B or W
  std::vector<Chunk> state_;
  std::vector<Action> ends_of_step_;
  std::vector<std::uint8_t> split_;         // [chunk, microbatch]: the plan has I and W instead of B
  std::vector<std::int32_t> positions_[3];  // [chunk, microbatch] of F, of B or I, of W
};

}  // namespace pipetrain::schedules
