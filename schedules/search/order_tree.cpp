#include "schedules/search/order_tree.hpp"

#include <algorithm>
#include <limits>

namespace pipetrain::schedules {

namespace {

constexpr double no_time = std::numeric_limits<double>::infinity();
constexpr double tree_rounding = 1e-12;

}  // namespace

OrderTree::OrderTree(const OrderProblem& problem, double end)
    : problem_(problem), ways_(problem), best_end_(end), left_(problem.actions()) {
  for (int s = 0; s < problem.stages(); ++s) {
    Stage& stage = stages_.emplace_back();
    for (int c = 0; c < problem.chunks(); ++c) {
      const int v = problem.placement().virtual_stage(s, c);
      stage.chunks.push_back({v});
      for (const auto kind : {Letter::F, Letter::I, Letter::W})
        stage.work_left += problem.microbatches() * problem.time(kind, v);
    }
  }
  forwards_.resize(static_cast<std::size_t>(problem.virtual_stages()) * static_cast<std::size_t>(problem.microbatches()));
  backwards_ = forwards_;
  words_.resize(stages_.size());
}

bool OrderTree::search(std::int64_t nodes, const std::function<bool()>& stop) {
  nodes_left_ = nodes;
  stop_ = &stop;
  visit();
  return !stopped_;
}

double OrderTree::input_at(Letter::Kind kind, const Chunk& chunk) {
  const int producer = kind == Letter::F ? chunk.v - 1 : chunk.v + 1;
  if (kind == Letter::W || producer < 0 || producer == problem_.virtual_stages()) return 0;
  const int microbatch = chunk.done[kind];
  if (chunk_of(producer).done[kind] <= microbatch) return no_time;
  return end_of(kind == Letter::F ? forwards_ : backwards_, producer, microbatch) +
         problem_.transfer(std::min(chunk.v, producer));
}

std::vector<OrderTree::Choice> OrderTree::choices() {
  std::vector<Choice> all;
  for (int s = 0; s < problem_.stages(); ++s) {
    const Stage& stage = stages_[static_cast<std::size_t>(s)];
    for (std::size_t c = 0; c < stage.chunks.size(); ++c) {
      const Chunk& chunk = stage.chunks[c];
      for (const auto kind : {Letter::F, Letter::I, Letter::W}) {
        const int limit = kind == Letter::F ? problem_.microbatches() : chunk.done[kind - 1];
        if (chunk.done[kind] == limit || (kind == Letter::F && stage.held == problem_.cap(s))) continue;
        const double input = input_at(kind, chunk);
        if (input == no_time) continue;
        const double start = std::max(input, stage.free_at);
        all.push_back({s, {kind, static_cast<std::uint8_t>(c)}, start, start + problem_.time(kind, chunk.v)});
      }
    }
  }
  return all;
}

// Returns the possible next letters, the earliest end first.
std::vector<OrderTree::Choice> OrderTree::branches() {
  std::vector<Choice> all = choices();
  std::stable_sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) { return a.end < b.end; });
  if (all.empty()) return all;
  const Choice first = all.front();
  const auto other = [&](const Choice& one) {
    return problem_.chunks() > 1 ? one.start < last_start_ : one.stage != first.stage || one.start >= first.end;
  };
  all.erase(std::remove_if(all.begin(), all.end(), other), all.end());
  return all;
}

double OrderTree::bound() {
  double bound = 0;
  for (const Stage& stage : stages_) {
    bound = std::max(bound, stage.free_at + stage.work_left);
    for (const Chunk& chunk : stage.chunks) {
      const auto at = static_cast<std::size_t>(chunk.v);
      const double after[] = {ways_.after_forward[at], ways_.after_input[at]};
      for (const auto kind : {Letter::F, Letter::I}) {
        const int left = problem_.microbatches() - chunk.done[kind];
        if (left == 0) continue;
        const double input = input_at(kind, chunk);
        const double start = std::max(stage.free_at, input == no_time ? 0 : input);
        bound = std::max(bound, start + left * problem_.time(kind, chunk.v) + after[kind]);
      }
    }
  }
  return bound;
}

// True when an earlier node had done the same letters, with each stage free and each message there no later.
bool OrderTree::is_dominated() {
  constexpr std::size_t most_remembered = 1 << 24;  // times
  constexpr std::size_t most_alike = 64;
  std::string done;
  std::vector<double> times;
  for (const Stage& stage : stages_) {
    times.push_back(stage.free_at);
    for (const Chunk& chunk : stage.chunks) {
      for (const int count : chunk.done) done.append(reinterpret_cast<const char*>(&count), sizeof count);
      for (const auto kind : {Letter::F, Letter::I}) {
        const int producer = kind == Letter::F ? chunk.v - 1 : chunk.v + 1;
        if (producer < 0 || producer == problem_.virtual_stages()) continue;
        for (int m = chunk.done[kind]; m < chunk_of(producer).done[kind]; ++m)
          times.push_back(std::max(stage.free_at, end_of(kind == Letter::F ? forwards_ : backwards_, producer, m) +
                                                      problem_.transfer(std::min(chunk.v, producer))));
      }
    }
  }
  times.push_back(last_start_);
  if (remembered_ >= most_remembered && !seen_.contains(done)) return false;
  auto& known = seen_[done];
  for (const auto& other : known)
    if (std::equal(other.begin(), other.end(), times.begin(), [](double a, double b) { return a <= b; })) return true;
  if (remembered_ < most_remembered && known.size() < most_alike) {
    remembered_ += times.size();
    known.push_back(std::move(times));
  }
  return false;
}

void OrderTree::visit() {
  if (stopped_) return;
  if (left_ == 0) {
    double end = 0;
    for (const Stage& stage : stages_) end = std::max(end, stage.free_at);
    if (end < best_end_ * (1 - tree_rounding)) best_end_ = end, best_ = words_;
    return;
  }
  constexpr std::int64_t between_asks = 1024;
  stopped_ = nodes_left_-- <= 0 || (nodes_left_ % between_asks == 0 && (*stop_)());
  if (stopped_ || bound() >= best_end_ * (1 - tree_rounding) || is_dominated()) return;
  for (const Choice& choice : branches()) {
    const double free_before = stages_[static_cast<std::size_t>(choice.stage)].free_at, start_before = last_start_;
    apply(choice);
    visit();
    undo(choice, free_before, start_before);
  }
}

void OrderTree::apply(const Choice& choice) {
  Stage& stage = stages_[static_cast<std::size_t>(choice.stage)];
  Chunk& chunk = stage.chunks[choice.letter.chunk];
  const Letter::Kind kind = choice.letter.kind;
  const int microbatch = chunk.done[kind]++;
  if (kind != Letter::W) end_of(kind == Letter::F ? forwards_ : backwards_, chunk.v, microbatch) = choice.end;
  stage.held += kind == Letter::F ? 1 : kind == Letter::W ? -1 : 0;
  stage.free_at = choice.end;
  stage.work_left -= problem_.time(kind, chunk.v);
  words_[static_cast<std::size_t>(choice.stage)].push_back(choice.letter);
  if (problem_.chunks() > 1) last_start_ = choice.start;
  --left_;
}

void OrderTree::undo(const Choice& choice, double free_before, double start_before) {
  Stage& stage = stages_[static_cast<std::size_t>(choice.stage)];
  Chunk& chunk = stage.chunks[choice.letter.chunk];
  const Letter::Kind kind = choice.letter.kind;
  --chunk.done[kind];
  stage.held -= kind == Letter::F ? 1 : kind == Letter::W ? -1 : 0;
  stage.free_at = free_before;
  stage.work_left += problem_.time(kind, chunk.v);
  words_[static_cast<std::size_t>(choice.stage)].pop_back();
  last_start_ = start_before;
  ++left_;
}

}  // namespace pipetrain::schedules
