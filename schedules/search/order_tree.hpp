// Finds the best order of a small problem and proves it: a tree of all candidate orders. It cuts branches that end no
// earlier than the best known order, or that another branch dominates.
//
// With one chunk a stage, the candidates are the active orders of Giffler and Thompson (1960), which contain a best one
// here too: a letter that is put before others of its stage without delaying them takes no slot from them, since only
// the next F could want it. With several chunks, F of another chunk could; then the candidates are all orders in which
// no letter could start earlier as they are, built by time of start.
//
// Internal to schedules/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "schedules/search/order_bounds.hpp"
#include "schedules/search/order_problem.hpp"

namespace pipetrain::schedules {

class OrderTree {
 public:
  // `end`: of the best words known.
  OrderTree(const OrderProblem& problem, double end);

  // Returns true when the search is complete after at most this many nodes: best_end() is then the minimum. Asks `stop`
  // now and then.
  bool search(std::int64_t nodes, const std::function<bool()>& stop);

  double best_end() const { return best_end_; }
  const Words& best() const { return best_; }  // empty: none ends earlier than the known words

 private:
  struct Chunk {
    int v = 0;
    int done[3] = {};  // [Letter::Kind]
  };
  struct Stage {
    double free_at = 0, work_left = 0;
    int held = 0;
    std::vector<Chunk> chunks;
  };
  struct Choice {
    int stage;
    Letter letter;
    double start, end;
  };

  double& end_of(std::vector<double>& ends, int v, int microbatch) {
    return ends[static_cast<std::size_t>(v) * static_cast<std::size_t>(problem_.microbatches()) +
                static_cast<std::size_t>(microbatch)];
  }
  Chunk& chunk_of(int v) {
    const StageChunk at = problem_.placement().at(v);
    return stages_[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
  }
  // Returns when the input of the chunk's next F or I arrives; infinity while its producer has not begun.
  double input_at(Letter::Kind kind, const Chunk& chunk);
  std::vector<Choice> choices();
  std::vector<Choice> branches();
  double bound();
  bool is_dominated();
  void visit();
  void apply(const Choice& choice);
  void undo(const Choice& choice, double free_before, double start_before);

  const OrderProblem& problem_;
  ShortestWays ways_;
  std::vector<Stage> stages_;
  std::vector<double> forwards_, backwards_;  // ends, [virtual stage and microbatch]
  Words words_, best_;
  double best_end_;
  double last_start_ = 0;  // only with several chunks
  std::size_t left_;       // number of letters
  std::int64_t nodes_left_ = 0;
  bool stopped_ = false;
  const std::function<bool()>* stop_ = nullptr;
  std::unordered_map<std::string, std::vector<std::vector<double>>> seen_;  // by the letters done: when the stages were free
  std::size_t remembered_ = 0;                                              // number of times in seen_
};

}  // namespace pipetrain::schedules
