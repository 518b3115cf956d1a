// Improves orders by simulated annealing, as van Laarhoven, Aarts and Lenstra (1992) search job shops: letters of the
// longest path move within their stage's word, and slower words are accepted with a decreasing probability.
//
// Internal to schedules/.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "schedules/search/order_problem.hpp"

namespace pipetrain::schedules {

class OrderSearch {
 public:
  // start: words that end and keep the rules.
  OrderSearch(const OrderProblem& problem, Words start, std::uint64_t seed);

  void restart(Words words);  // which end before the best and keep the rules

  const Words& best() const { return best_; }
  double best_end() const { return best_end_; }

  // Runs one cooling of this many moves, from the best words. At the beginning, a delay of `heat` times the mean time of
  // an action is accepted with probability 1/e. Ends when `stop`, which is asked now and then, returns true, or when the
  // best words end by `enough`.
  void cool(std::int64_t moves, double heat, double enough, const std::function<bool()>& stop);

 private:
  bool try_move(double temperature);
  std::size_t random(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  void move(Word& word, std::size_t from, std::size_t to);

  const OrderProblem& problem_;
  OrderTimes times_;
  std::mt19937_64 random_;
  Words words_, best_;
  double end_ = 0, best_end_ = 0;
  std::vector<OrderTimes::Position> critical_;  // of words_
};

}  // namespace pipetrain::schedules
