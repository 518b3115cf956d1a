// The problem that the solver works on: the order in which each stage runs the F, I and W of its chunks, such that the
// step ends earliest and no stage ever holds more microbatches than its slots. It is a job shop with limited memory, as
// in OptPipe (arXiv 2510.05186), which states it as a mixed-integer program. Microbatches are alike, and within a chunk
// F, I and W each run in order (the rule that keeps bits the same). So a stage's order is a word over the letters F, I
// and W of its chunks: how often a letter occurred before gives its microbatch.
//
// Internal to schedules/.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // caps: the most microbatches between F and W on each stage, counted over its chunks. The costs must have passed
  // check_costs().
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

  // v: the virtual stage.
  double time(Letter::Kind kind, int v) const { return times_[kind][static_cast<std::size_t>(v)]; }
  double transfer(int v) const { return transfers_[static_cast<std::size_t>(v)]; }  // between v and v + 1
  double mean_time() const;

  // True when there is any plan: a single microbatch must fit.
  bool solvable() const;
  // Returns the plan that runs one microbatch after the other.
  Words one_by_one() const;
  // True when a stage's word has every letter, none before what it needs of its own stage, and never holds more than the cap.
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

// The times at which the letters of the stages' words end, each as early as its stage and its input allow.
class OrderTimes {
 public:
  explicit OrderTimes(const OrderProblem& problem);

  // Returns the last end; infinity where the words deadlock.
  double evaluate(const Words& words);

  struct Position {
    int stage;
    std::size_t index;  // in the stage's word
  };
  // Returns the letters of one longest path of the words last evaluated, which must have ended; last to first.
  const std::vector<Position>& critical();

 private:
  struct Row {
    std::size_t done = 0;
    double free_at = 0;
    bool queued = false;
    std::vector<int> next;                 // [kind * chunks + chunk], the microbatch
    std::vector<bool> waited;              // [index]: its input arrived last
    std::vector<std::int32_t> microbatch;  // [index]
  };
  struct End {
    double time = -1;  // not known yet
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
  std::vector<End> forwards_, backwards_;  // by virtual stage and microbatch
  std::vector<int> to_run_;
  std::vector<Position> critical_;
};

}  // namespace pipetrain::schedules
