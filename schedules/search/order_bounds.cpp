#include "schedules/search/order_bounds.hpp"

#include <algorithm>

namespace pipetrain::schedules {

namespace {

// Returns the total time of the `count` longest actions, with M actions of each of these times.
double longest(std::vector<double> times, int microbatches, int count) {
  std::sort(times.rbegin(), times.rend());
  double sum = 0;
  for (const double time : times) {
    const int taken = std::min(count, microbatches);
    sum += taken * time;
    count -= taken;
  }
  return sum;
}

// One stage. M microbatches, k slots, T the end of the step; `head`: when its first F can start; `back`: when its first I can.
class StageBound {
 public:
  StageBound(const OrderProblem& problem, const ShortestWays& ways, int stage)
      : m_(problem.microbatches()), chunks_(problem.chunks()), k_(std::min(problem.cap(stage), m_ * chunks_)) {
    for (int c = 0; c < chunks_; ++c) {
      const int v = problem.placement().virtual_stage(stage, c);
      const auto at = static_cast<std::size_t>(v);
      f_.push_back(problem.time(Letter::F, v));
      i_.push_back(problem.time(Letter::I, v));
      w_.push_back(problem.time(Letter::W, v));
      first_forward_.push_back(ways.first_forward[at]);
      first_input_.push_back(ways.first_input[at]);
      after_input_.push_back(ways.after_input[at]);
      work_ += m_ * (f_.back() + i_.back() + w_.back());
      round_.push_back(first_input_.back() - first_forward_.back() + i_.back() + w_.back());
    }
    head_ = *std::min_element(first_forward_.begin(), first_forward_.end());
    back_ = *std::min_element(first_input_.begin(), first_input_.end());
  }

  double bound() const {
    const double of_all = std::max(work(), slots());
    return chunks_ == 1 ? std::max(of_all, rounds()) : of_all;
  }

 private:
  // Before its first I the stage can only run F, and of them as many as it has slots and time for. After its last I it
  // can only run W, of no more microbatches than it holds; meanwhile that I continues to the first virtual stage. All
  // other work is between the two.
  double work() const {
    const double before = std::min(longest(f_, m_, k_), back_ - head_);
    const double chain = *std::min_element(after_input_.begin(), after_input_.end());
    const double after = longest(w_, m_, k_);
    return back_ + work_ - before + std::max(0.0, chain - after);
  }

  // Every microbatch of a chunk holds a slot at least for its way there and back. The j-th slot is first taken after j F, and
  // last freed before j W: together that exceeds what the k slots hold otherwise in the time between the head and T.
  double slots() const {
    double taken = 0;
    for (const double round : round_) taken += m_ * round;
    const double least = *std::min_element(f_.begin(), f_.end()) + *std::min_element(w_.begin(), w_.end());
    return head_ + taken / k_ + least * (k_ - 1) / 2;
  }

  // With one chunk, F of microbatch j + k waits for W of microbatch j: the last microbatch starts after whole rounds,
  // and after as many F before the first of these as are left over; then it goes there and back itself.
  double rounds() const {
    const int left_over = (m_ - 1) % k_, whole = (m_ - 1) / k_;
    const double last = first_input_[0] - first_forward_[0] + i_[0] + std::max(w_[0], after_input_[0]);
    return head_ + left_over * f_[0] + whole * round_[0] + last;
  }

  int m_, chunks_, k_;
  std::vector<double> f_, i_, w_, first_forward_, first_input_, after_input_;  // [chunk]
  std::vector<double> round_;  // [chunk], the least time from the start of F to the end of W of one microbatch
  double head_ = 0, back_ = 0, work_ = 0;
};

}  // namespace

ShortestWays::ShortestWays(const OrderProblem& problem) {
  const int last = problem.virtual_stages() - 1;
  const auto size = static_cast<std::size_t>(last) + 1;
  first_forward.resize(size), first_input.resize(size), after_forward.resize(size), after_input.resize(size);
  const auto at = [](int v) { return static_cast<std::size_t>(v); };
  for (int v = 1; v <= last; ++v)
    first_forward[at(v)] = first_forward[at(v - 1)] + problem.time(Letter::F, v - 1) + problem.transfer(v - 1);
  for (int v = 0; v <= last; ++v) {
    const double up = v == 0 ? 0 : problem.transfer(v - 1) + problem.time(Letter::I, v - 1) + after_input[at(v - 1)];
    after_input[at(v)] = std::max(problem.time(Letter::W, v), up);
  }
  first_input[at(last)] = first_forward[at(last)] + problem.time(Letter::F, last);
  after_forward[at(last)] = problem.time(Letter::I, last) + after_input[at(last)];
  for (int v = last - 1; v >= 0; --v) {
    first_input[at(v)] = first_input[at(v + 1)] + problem.time(Letter::I, v + 1) + problem.transfer(v);
    after_forward[at(v)] = problem.transfer(v) + problem.time(Letter::F, v + 1) + after_forward[at(v + 1)];
  }
}

double lower_bound(const OrderProblem& problem) {
  const ShortestWays ways(problem);
  double bound = ways.first_input.back() + problem.time(Letter::I, problem.virtual_stages() - 1) + ways.after_input.back();
  for (int stage = 0; stage < problem.stages(); ++stage) bound = std::max(bound, StageBound(problem, ways, stage).bound());
  return bound;
}

}  // namespace pipetrain::schedules
