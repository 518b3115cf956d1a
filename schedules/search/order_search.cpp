#include "schedules/search/order_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipetrain::schedules {

OrderSearch::OrderSearch(const OrderProblem& problem, Words start, std::uint64_t seed)
    : problem_(problem), times_(problem), random_(seed), best_(std::move(start)), best_end_(times_.evaluate(best_)) {}

void OrderSearch::restart(Words words) {
  best_ = std::move(words);
  best_end_ = times_.evaluate(best_);
}

void OrderSearch::cool(std::int64_t moves, double heat, double enough, const std::function<bool()>& stop) {
  constexpr std::int64_t between_asks = 64;
  constexpr double coldest = 0.02;  // relative to the beginning
  words_ = best_;
  end_ = times_.evaluate(words_);
  critical_ = times_.critical();
  const double hot = heat * problem_.mean_time();
  for (std::int64_t i = 0; i < moves; ++i) {
    if (best_end_ <= enough || (i % between_asks == 0 && stop())) return;
    const double temperature = hot * std::pow(coldest, static_cast<double>(i) / static_cast<double>(moves));
    if (try_move(temperature) && end_ < best_end_ * (1 - 1e-12)) best_ = words_, best_end_ = end_;
  }
}

void OrderSearch::move(Word& word, std::size_t from, std::size_t to) {
  const auto at = [&](std::size_t index) { return word.begin() + static_cast<std::ptrdiff_t>(index); };
  if (from < to) {
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    std::rotate(at(to), at(from), at(from + 1));
  }
}

// Most moves are short and of a letter on the longest path, since no other ends the step earlier. Some reach far: a
// forward that moves from the end of a word to its beginning makes all those between come one microbatch later.
bool OrderSearch::try_move(double temperature) {
  const bool on_path = random(8) != 0;
  const auto position = on_path ? critical_[random(critical_.size())]
                                : OrderTimes::Position{static_cast<int>(random(words_.size())), random(words_[0].size())};
  Word& word = words_[static_cast<std::size_t>(position.stage)];
  const std::size_t reach = random(6) == 0 ? word.size() : 6;
  const std::size_t by = 1 + random(reach);
  const bool earlier = random(2) == 0;
  if (earlier ? by > position.index : position.index + by >= word.size()) return false;
  const std::size_t to = earlier ? position.index - by : position.index + by;
  if (word[to] == word[position.index] && by == 1) return false;
  move(word, position.index, to);
  double end = std::numeric_limits<double>::infinity();
  if (problem_.keeps_rules(position.stage, word)) end = times_.evaluate(words_);
  const double worse = end - end_;
  if (std::isinf(end) || (worse > 0 && uniform() >= std::exp(-worse / temperature))) {
    move(word, to, position.index);
    return false;
  }
  end_ = end;
  critical_ = times_.critical();
  return true;
}

}  // namespace pipetrain::schedules
