// A schedule as data: where each chunk of the model lives, and the order in which every stage acts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/plan/action.hpp"

namespace pipetrain::schedules {

struct StageChunk {
  int stage = 0;
  int chunk = 0;
  bool operator==(const StageChunk&) const = default;
};

// The model is cut into stages x chunks virtual stages, in the order of its layers. A placement says which (stage, chunk) runs
// each of them; every stage holds `chunks` of them, numbered in model order.
class Placement {
 public:
  // virtual stage v runs on stage v % stages: chunk v / stages. Both throw std::invalid_argument on a size below 1 and on more
  // than 32767 chunks.
  static Placement looping(int stages, int chunks);
  // Two chunks: down the stages and back up, so that the first stage also holds the last virtual stage.
  static Placement v_shape(int stages);

  int stages() const { return stages_; }
  int chunks() const { return chunks_; }
  int virtual_stages() const { return stages_ * chunks_; }
  StageChunk at(int virtual_stage) const { return of_virtual_[static_cast<std::size_t>(virtual_stage)]; }
  int virtual_stage(int stage, int chunk) const { return of_chunk_[static_cast<std::size_t>(stage * chunks_ + chunk)]; }
  bool is_first(StageChunk where) const { return virtual_stage(where.stage, where.chunk) == 0; }
  bool is_last(StageChunk where) const { return virtual_stage(where.stage, where.chunk) == virtual_stages() - 1; }
  bool operator==(const Placement&) const = default;

 private:
  Placement(int stages, int chunks, std::vector<StageChunk> of_virtual);

  int stages_;
  int chunks_;
  std::vector<StageChunk> of_virtual_;
  std::vector<int> of_chunk_;  // the inverse: [stage * chunks + chunk]
};

// How a stage may choose by itself (Order::ready). It holds at most as many microbatches as the plan does at its peak, counted
// over all its chunks from F to B or W, with one of them kept free for each later chunk: without that, early chunks fill the
// stage, and the microbatch that could free something never gets through.
enum class ReadyRule : std::uint8_t {
  none,            // only the planned order
  forward_first,   // F, else B or I, else W
  backward_first,  // B or I, else F, else W
  plan_order,      // what stands first in the plan; out of turn only when the stage would stand idle
};

// An action as another stage names it.
struct StageAction {
  int stage = 0;
  Action action;
  bool operator==(const StageAction&) const = default;
};

// What a plan orders although the engine does not know it. It goes to the compute of its stage in its turn, like every other
// action; evaluations leave it out. A plan with such actions has no ready rule.
struct CustomAction {
  std::string name;  // what the compute knows it by; several may share one
  int stage = 0;     // in whose list it stands, once
  // Its launch waits until these have completed. Those of its own stage stand before it in the list, which is order enough.
  std::vector<StageAction> after;
  // Of all that name a resource one runs at a time, in the order of their numbers.
  std::vector<std::string> resources;
  bool operator==(const CustomAction&) const = default;
};

struct Plan {
  std::string schedule;  // "1f1b"
  Placement placement = Placement::looping(1, 1);
  int microbatches = 0;                     // of one step; with slices, their pieces
  std::vector<std::vector<Action>> stages;  // one ordered list per stage
  ReadyRule ready_rule = ReadyRule::none;
  std::vector<CustomAction> custom = {};  // by number, as Action::microbatch counts them
  // Into how many slices of its sequence each microbatch is cut, which pass the pipeline one behind the other (Li et al. 2021,
  // "TeraPipe"; Li et al. 2025, "SlimPipe"). Above 1 everything that a plan, its protocol and the engine call a microbatch is
  // such a piece: slice s of microbatch m has the number m slices + s. A plan with slices has no ready rule and no moves.
  int slices = 1;
  // Braids: two actions of a stage that are launched as one, so that a compute may run their parts in turns, the collectives
  // of one behind the products of the other (Qi et al. 2025, "Synergistic Tensor and Pipeline Parallelism"). [stage]: the
  // places in its list of each braid's first action, upwards; the second stands behind it. Empty: none anywhere. See
  // braids.hpp.
  std::vector<std::vector<std::int32_t>> braids = {};

  ActionForm form() const { return {placement.chunks(), slices}; }
};

// The place of a piece among a chunk's backwards, which take the slices of a microbatch in descending order: each needs the
// gradients that those behind it have for its keys and values. Its own inverse, and the piece itself without slices.
constexpr int backward_place(int piece, int slices) { return piece - piece % slices + slices - 1 - piece % slices; }

// The most stages x chunks x microbatches of one plan that is read or simulated: ten seconds and three gigabytes.
constexpr std::int64_t most_plan_work = std::int64_t{1} << 24;

// What ends a step, by the parallel layout that runs the plan.
struct EndOfStep {
  bool reduce_grads = false;    // several data-parallel replicas
  bool sum_replicated = false;  // several tensor-parallel ranks that have parts of the same gradients
  bool sum_tied = false;        // the first and the last virtual stage share weights
};

// Where T stands, once on each stage that holds an end of the model: on the embedding's chunk, and on the head's where another
// stage holds that. In this order, which is also the order in which the two gradients add. One place: the stage has both
// gradients and adds them there. Two places: the stages exchange them there, and neither goes on before both have come.
// Validation, simulation and training all take the meaning of T from here.
std::vector<StageChunk> tied_sum_places(const Placement& placement);

// Appends to each stage's compute: R and S of every chunk in the order in which the chunks end, T at tied_sum_places(), then N
// and O.
Plan with_end_of_step(Plan compute, const EndOfStep& end);

// What a step is for. Training runs the plan as it stands; evaluation runs its forward_pass(), and its verdict is to skip O.
enum class StepKind : std::uint8_t { training, evaluation };

// A stage's forwards in the order of its list, without custom actions, then N, which reports the losses, and O. It needs no
// proof of its own: a run of the whole plan without its backwards is a run of this one, with fewer slots taken at any time.
std::vector<Action> forward_pass(const std::vector<Action>& actions);
Plan forward_pass(const Plan& plan);

// The most microbatches that stand between F and B or W at once, over all chunks of a stage's list. What P has moved out does
// not count until G, see Residents.
int peak_in_flight(const std::vector<Action>& actions);

}  // namespace pipetrain::schedules
