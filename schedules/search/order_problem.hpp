// The problem that the solver works on: in which order each stage runs the F, I and W of its chunks, so that the step ends
// first and no stage ever holds more microbatches than its slots. A job shop with limited memory, as OptPipe (arXiv 2510.05186)
// writes it down for a mixed-integer program. Microbatches are alike, and within a chunk F, I and W each run in their order
// (the rule that keeps bits the same). So a stage's order is a word over the letters F, I and W of its chunks: which microbatch
// a letter means follows from how often it stood there before.
//
// Internal to schedules/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

struct Letter {
  enum Kind : std::uint8_t { F, I, W };
  Kind kind = F;
  std::uint8_t chunk = 0;
  bool operator==(const Letter&) const = default;
};
using Word = std::vector<Letter>;
using Words = std::vector<Word>;  // [stage]

class OrderProblem {
 public:
  // caps: most microbatches between F and W on each stage, counted over its chunks. The costs must have passed check_costs().
  OrderProblem(const Placement& placement, int microbatches, const Costs& costs, std::vector<int> caps);

  const Placement& placement() const { return placement_; }
  int stages() const { return placement_.stages(); }
  int chunks() const { return placement_.chunks(); }
  int virtual_stages() const { return placement_.virtual_stages(); }
  int microbatches() const { return microbatches_; }
  int cap(int stage) const { return caps_[static_cast<std::size_t>(stage)]; }
  std::size_t actions() const {
    return 3 * static_cast<std::size_t>(virtual_stages()) * static_cast<std::size_t>(microbatches_);
  }

  // Of virtual stage v.
  double time(Letter::Kind kind, int v) const { return times_[kind][static_cast<std::size_t>(v)]; }
  double transfer(int v) const { return transfers_[static_cast<std::size_t>(v)]; }  // between v and v + 1
  double mean_time() const;

  // Whether there is any plan: a microbatch that goes all the way alone must fit.
  bool solvable() const;
  // That plan: one microbatch after the other.
  Words one_by_one() const;
  // Whether a stage's word has every letter, none before what it needs of its own stage, and never holds more than the cap.
  bool keeps_rules(int stage, const Word& word) const;

  // B becomes I and W, which never ends later. End-of-step actions and moves are left out.
  Words words_of(const Plan& plan) const;
  Plan plan_of(const Words& words) const;

 private:
  Placement placement_;
  int microbatches_;
  std::vector<int> caps_;
  std::vector<double> times_[3];
  std::vector<double> transfers_;
};

// When every letter of the stages' words ends, each as early as its stage and its input allow.
class OrderTimes {
 public:
  explicit OrderTimes(const OrderProblem& problem);

  // The end of the last; infinity where the words wait for each other in a circle.
  double evaluate(const Words& words);

  struct Place {
    int stage;
    std::size_t index;  // in the stage's word
  };
  // The letters of one longest path of the words last evaluated, which must have ended; last to first.
  const std::vector<Place>& critical();

 private:
  struct Row {
    std::size_t done = 0;
    double free_at = 0;
    bool queued = false;
    std::vector<int> next;                 // [kind * chunks + chunk], the microbatch
    std::vector<bool> waited;              // [index]: its input came last
    std::vector<std::int32_t> microbatch;  // [index]
  };
  struct End {
    double time = -1;  // unknown yet
    std::size_t index = 0;
  };

  std::size_t at(int v, int microbatch) const {
    return static_cast<std::size_t>(v) * static_cast<std::size_t>(problem_.microbatches()) +
           static_cast<std::size_t>(microbatch);
  }
  void advance(int stage, const Word& word);
  void wake(int stage);

  const OrderProblem& problem_;
  const Words* words_ = nullptr;
  std::vector<Row> rows_;
  std::vector<End> forwards_, backwards_;  // [virtual stage and microbatch]
  std::vector<int> to_run_;
  std::vector<Place> critical_;
};

}  // namespace pipetrain::schedules
