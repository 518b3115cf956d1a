// Writes one stage's list as schedules are described: "now one forward of chunk 1". Each row of a chunk counts its own
// microbatches; actions that are exhausted or not possible yet are left out, so that descriptions for many microbatches
// also serve few. Internal to schedules/.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

class StageList {
 public:
  StageList(int chunks, int microbatches) : microbatches_(microbatches), done_(static_cast<std::size_t>(chunks)) {
    actions_.reserve(3 * done_.size() * static_cast<std::size_t>(microbatches) + 8);  // and the end of step
  }

  // Each returns whether it wrote something.
  bool forward(int chunk) {
    Done& done = at(chunk);
    return done.forwards < microbatches_ && write(ActionKind::forward, chunk, done.forwards++);
  }
  // Writes a whole backward, after the weight gradients of earlier microbatches, because they add in order.
  bool backward(int chunk) {
    Done& done = at(chunk);
    if (done.input_grads == done.forwards) return false;
    while (weight_grad(chunk)) {
    }
    ++done.weight_grads;
    return write(ActionKind::backward, chunk, done.input_grads++);
  }
  bool input_grad(int chunk) {
    Done& done = at(chunk);
    if (done.input_grads == done.forwards) return false;
    pending_.push_back(chunk);
    return write(ActionKind::input_grad, chunk, done.input_grads++);
  }
  bool weight_grad(int chunk) {
    for (auto pending = pending_.begin(); pending != pending_.end(); ++pending)
      if (*pending == chunk) {
        pending_.erase(pending);
        return write(ActionKind::weight_grad, chunk, at(chunk).weight_grads++);
      }
    return false;
  }
  // Writes the W of the oldest I of any chunk.
  bool oldest_weight_grad() { return !pending_.empty() && weight_grad(pending_.front()); }

  bool has_backwards_left(int chunk) const { return done_[static_cast<std::size_t>(chunk)].input_grads < microbatches_; }
  // Writes the remaining actions.
  void drain() {
    for (int chunk = static_cast<int>(done_.size()) - 1; chunk >= 0; --chunk)
      while (has_backwards_left(chunk)) forward(chunk), input_grad(chunk);
    while (oldest_weight_grad()) {
    }
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  struct Done {
    int forwards = 0, input_grads = 0, weight_grads = 0;
  };
  Done& at(int chunk) { return done_[static_cast<std::size_t>(chunk)]; }
  bool write(ActionKind kind, int chunk, int microbatch) {
    actions_.push_back({kind, static_cast<std::int16_t>(chunk), microbatch});
    return true;
  }

  int microbatches_;
  std::vector<Done> done_;
  std::vector<int> pending_;  // chunks of the I without W, oldest first
  std::vector<Action> actions_;
};

}  // namespace pipetrain::schedules
