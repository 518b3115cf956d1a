// Counts the microbatches whose activations are on a stage's device and outside of it along the stage's list. Internal
// to schedules/.
#pragma once

#include <cstddef>
#include <vector>

#include "schedules/plan/action.hpp"

namespace pipetrain::schedules {

// The assumed duration of a transfer, in units of F = I = W = 1, B = 2. Memory that P frees on the device, or G outside,
// counts as taken for this time, so that its next user need not wait for the transfer.
constexpr int transfer_units = 3;

constexpr int units_of(ActionKind kind) { return !is_compute(kind) ? 0 : kind == ActionKind::backward ? 2 : 1; }

// Call begin() and end() with every action of the list, in order.
class Residents {
 public:
  void begin(const Action& action) {
    if (action.kind == ActionKind::forward || action.kind == ActionKind::reload) change(inside_, action.chunk, 1), ++count_;
    if (action.kind == ActionKind::offload) change(outside_, action.chunk, 1);
  }
  void end(const Action& action) {
    if (gives_weight_grad(action.kind)) change(inside_, action.chunk, -1), --count_;
    if (is_move(action.kind)) leaving_.push_back({action, transfer_units});
    if (!leaving_.empty() && is_compute(action.kind)) pass(units_of(action.kind));
  }

  int count() const { return count_; }  // on the device, of all chunks
  int inside(int chunk) const { return at(inside_, chunk); }
  int outside(int chunk) const { return at(outside_, chunk); }

 private:
  struct Leaving {
    Action move;
    int units;
  };

  static int at(const std::vector<int>& counts, int chunk) {
    const auto index = static_cast<std::size_t>(chunk);
    return index < counts.size() ? counts[index] : 0;
  }
  static void change(std::vector<int>& counts, int chunk, int by) {
    const auto index = static_cast<std::size_t>(chunk);
    if (index >= counts.size()) counts.resize(index + 1);
    counts[index] += by;
  }
  void pass(int units) {
    for (Leaving& one : leaving_) one.units -= units;
    while (!leaving_.empty() && leaving_.front().units <= 0) {
      const Action& move = leaving_.front().move;
      if (move.kind == ActionKind::offload) change(inside_, move.chunk, -1), --count_;
      if (move.kind == ActionKind::reload) change(outside_, move.chunk, -1);
      leaving_.erase(leaving_.begin());
    }
  }

  std::vector<int> inside_, outside_;
  int count_ = 0;
  std::vector<Leaving> leaving_;  // oldest first: the units of all decrease together
};

}  // namespace pipetrain::schedules
