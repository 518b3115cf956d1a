#include "schedules/search/order_problem.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pipetrain::schedules {

OrderProblem::OrderProblem(const Placement& placement, int microbatches, const Costs& costs, std::vector<int> caps)
    : placement_(placement), microbatches_(microbatches), caps_(std::move(caps)) {
  for (int v = 0; v < virtual_stages(); ++v) {
    const StageChunk at = placement_.at(v);
    const ChunkCost& cost = costs.chunks[static_cast<std::size_t>(at.stage)][static_cast<std::size_t>(at.chunk)];
    times_[Letter::F].push_back(cost.forward);
    times_[Letter::I].push_back(cost.input_grad);
    times_[Letter::W].push_back(cost.weight_grad);
    if (v + 1 < virtual_stages()) transfers_.push_back(costs.transfer(v));
  }
}

double OrderProblem::mean_time() const {
  double sum = 0;
  for (const auto& times : times_) sum = std::accumulate(times.begin(), times.end(), sum);
  return sum / (3.0 * virtual_stages());
}

bool OrderProblem::solvable() const {
  return std::all_of(caps_.begin(), caps_.end(), [&](int cap) { return cap >= chunks(); });
}

Words OrderProblem::one_by_one() const {
  Words words(static_cast<std::size_t>(stages()));
  for (Word& word : words)
    for (int m = 0; m < microbatches_; ++m) {
      for (int c = 0; c < chunks(); ++c) word.push_back({Letter::F, static_cast<std::uint8_t>(c)});
      for (int c = chunks() - 1; c >= 0; --c) {
        word.push_back({Letter::I, static_cast<std::uint8_t>(c)});
        word.push_back({Letter::W, static_cast<std::uint8_t>(c)});
      }
    }
  return words;
}

bool OrderProblem::keeps_rules(int stage, const Word& word) const {
  if (word.size() != 3 * static_cast<std::size_t>(chunks()) * static_cast<std::size_t>(microbatches_)) return false;
  struct Count {
    int f = 0, i = 0, w = 0;
  };
  constexpr std::size_t most_on_stack = 8;
  Count few[most_on_stack];
  std::vector<Count> many;
  if (static_cast<std::size_t>(chunks()) > most_on_stack) many.resize(static_cast<std::size_t>(chunks()));
  Count* const counts = many.empty() ? few : many.data();
  int held = 0;
  for (const Letter& letter : word) {
    Count& count = counts[letter.chunk];
    switch (letter.kind) {
      case Letter::F:
        if (++count.f > microbatches_ || ++held > cap(stage)) return false;
        break;
      case Letter::I:
        if (++count.i > count.f) return false;
        break;
      case Letter::W:
        if (++count.w > count.i) return false;
        --held;
        break;
    }
  }
  return held == 0;  // together with the word's length, this means that every letter occurs
}

Words OrderProblem::words_of(const Plan& plan) const {
  Words words(plan.stages.size());
  for (std::size_t stage = 0; stage < words.size(); ++stage)
    for (const Action& action : plan.stages[stage]) {
      const auto chunk = static_cast<std::uint8_t>(action.chunk);
      if (action.kind == ActionKind::forward) words[stage].push_back({Letter::F, chunk});
      if (gives_input_grad(action.kind)) words[stage].push_back({Letter::I, chunk});
      if (gives_weight_grad(action.kind)) words[stage].push_back({Letter::W, chunk});
    }
  return words;
}

Plan OrderProblem::plan_of(const Words& words) const {
  constexpr ActionKind kinds[] = {ActionKind::forward, ActionKind::input_grad, ActionKind::weight_grad};
  Plan plan{"solver", placement_, microbatches_, std::vector<std::vector<Action>>(words.size())};
  for (std::size_t stage = 0; stage < words.size(); ++stage) {
    std::vector<std::int32_t> next(3 * static_cast<std::size_t>(chunks()));
    for (const Letter& letter : words[stage])
      plan.stages[stage].push_back({kinds[letter.kind], static_cast<std::int16_t>(letter.chunk),
                                    next[3 * static_cast<std::size_t>(letter.chunk) + letter.kind]++});
  }
  return plan;
}

OrderTimes::OrderTimes(const OrderProblem& problem) : problem_(problem), rows_(static_cast<std::size_t>(problem.stages())) {
  const std::size_t letters = 3 * static_cast<std::size_t>(problem.chunks());
  for (Row& row : rows_) {
    row.next.resize(letters);
    row.waited.resize(letters * static_cast<std::size_t>(problem.microbatches()));
    row.microbatch.resize(row.waited.size());
  }
  forwards_.resize(static_cast<std::size_t>(problem.virtual_stages()) * static_cast<std::size_t>(problem.microbatches()));
  backwards_.resize(forwards_.size());
}

double OrderTimes::evaluate(const Words& words) {
  words_ = &words;
  std::fill(forwards_.begin(), forwards_.end(), End{});
  std::fill(backwards_.begin(), backwards_.end(), End{});
  to_run_.clear();
  for (int stage = problem_.stages() - 1; stage >= 0; --stage) {
    Row& row = rows_[static_cast<std::size_t>(stage)];
    row.done = 0;
    row.free_at = 0;
    row.queued = false;
    std::fill(row.next.begin(), row.next.end(), 0);
    wake(stage);
  }
  while (!to_run_.empty()) {
    const int stage = to_run_.back();
    to_run_.pop_back();
    rows_[static_cast<std::size_t>(stage)].queued = false;
    advance(stage, words[static_cast<std::size_t>(stage)]);
  }
  double end = 0;
  for (std::size_t stage = 0; stage < words.size(); ++stage) {
    if (rows_[stage].done < words[stage].size()) return std::numeric_limits<double>::infinity();
    end = std::max(end, rows_[stage].free_at);
  }
  return end;
}

void OrderTimes::wake(int stage) {
  Row& row = rows_[static_cast<std::size_t>(stage)];
  if (std::exchange(row.queued, true)) return;
  to_run_.push_back(stage);
}

void OrderTimes::advance(int stage, const Word& word) {
  Row& row = rows_[static_cast<std::size_t>(stage)];
  const int last = problem_.virtual_stages() - 1;
  for (; row.done < word.size(); ++row.done) {
    const Letter letter = word[row.done];
    const int v = problem_.placement().virtual_stage(stage, letter.chunk);
    int& next = row.next[3 * static_cast<std::size_t>(letter.chunk) + letter.kind];
    double ready = 0;
    if (letter.kind == Letter::F && v > 0) {
      const double input = forwards_[at(v - 1, next)].time;
      if (input < 0) return;
      ready = input + problem_.transfer(v - 1);
    } else if (letter.kind == Letter::I && v < last) {
      const double input = backwards_[at(v + 1, next)].time;
      if (input < 0) return;
      ready = input + problem_.transfer(v);
    }
    const bool waits = ready > row.free_at;
    row.waited[row.done] = waits;
    row.microbatch[row.done] = next;
    row.free_at = (waits ? ready : row.free_at) + problem_.time(letter.kind, v);
    if (letter.kind == Letter::F) {
      forwards_[at(v, next)] = {row.free_at, row.done};
      if (v < last) wake(problem_.placement().at(v + 1).stage);
    } else if (letter.kind == Letter::I) {
      backwards_[at(v, next)] = {row.free_at, row.done};
      if (v > 0) wake(problem_.placement().at(v - 1).stage);
    }
    ++next;
  }
}

const std::vector<OrderTimes::Position>& OrderTimes::critical() {
  critical_.clear();
  Position position{0, 0};
  for (int stage = 1; stage < problem_.stages(); ++stage)
    if (rows_[static_cast<std::size_t>(stage)].free_at > rows_[static_cast<std::size_t>(position.stage)].free_at)
      position.stage = stage;
  position.index = (*words_)[static_cast<std::size_t>(position.stage)].size() - 1;
  while (true) {
    critical_.push_back(position);
    const Row& row = rows_[static_cast<std::size_t>(position.stage)];
    if (!row.waited[position.index]) {
      if (position.index == 0) return critical_;
      --position.index;
      continue;
    }
    const Letter letter = (*words_)[static_cast<std::size_t>(position.stage)][position.index];
    const int v = problem_.placement().virtual_stage(position.stage, letter.chunk);
    const int producer = letter.kind == Letter::F ? v - 1 : v + 1;
    const auto& ends = letter.kind == Letter::F ? forwards_ : backwards_;
    const std::size_t index = ends[at(producer, row.microbatch[position.index])].index;
    position = {problem_.placement().at(producer).stage, index};
  }
}

}  // namespace pipetrain::schedules
