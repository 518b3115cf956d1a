// A schedule as data: the place of each chunk of the model, and the order of every stage's actions.
#pragma once

#include <cstdint>
#include <string>
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
  // Virtual stage v runs on stage v % stages as chunk v / stages. Both throw std::invalid_argument on a size below 1
  // and on more than 32767 chunks.
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

// The rule by which a stage chooses its next action with Order::ready. The stage holds at most as many microbatches as
// the plan does at its peak, counted over all its chunks from F to B or W, and keeps one place free for each later
// chunk: otherwise early chunks fill the stage, and the microbatch that could free a place cannot proceed.
enum class ReadyRule : std::uint8_t {
  none,            // only the planned order
  forward_first,   // F, else B or I, else W
  backward_first,  // B or I, else F, else W
  plan_order,      // the first in the plan; others only when the stage would otherwise be idle
};

// An action, identified for another stage.
struct StageAction {
  int stage = 0;
  Action action;
  bool operator==(const StageAction&) const = default;
};

// An action that the plan orders but the engine does not know. The compute of its stage gets it in order, like every
// other action; evaluations leave it out. A plan with such actions has no ready rule.
struct CustomAction {
  std::string name;  // by which the compute knows it; several may share one
  int stage = 0;     // the one whose list contains it, once
  // Its launch waits until these have completed. Those of its own stage must precede it in the list.
  std::vector<StageAction> after;
  // Among all custom actions that name a resource, one runs at a time, in the order of their numbers.
  std::vector<std::string> resources;
  bool operator==(const CustomAction&) const = default;
};

struct Plan {
  std::string schedule;  // "1f1b"
  Placement placement = Placement::looping(1, 1);
  int microbatches = 0;                     // of one step; with slices, the number of slices
  std::vector<std::vector<Action>> stages;  // one ordered list per stage
  ReadyRule ready_rule = ReadyRule::none;
  std::vector<CustomAction> custom = {};  // by the number in Action::microbatch
  // The number of slices of each microbatch's sequence, which pass the pipeline one after the other (Li et al. 2021,
  // "TeraPipe"; Li et al. 2025, "SlimPipe"). Above 1, every "microbatch" of a plan, its protocol and the engine is a
  // slice: slice s of microbatch m has the number m slices + s. A plan with slices has no ready rule and no moves.
  int slices = 1;
  // Braids: two actions of a stage that are launched as one, so that a compute may alternate between their parts and
  // hide the collectives of one behind the products of the other (Qi et al. 2025, "Synergistic Tensor and Pipeline
  // Parallelism"). [stage]: the positions in its list of each braid's first action, ascending; the second is the next
  // action. Empty: none anywhere. See braids.hpp.
  std::vector<std::vector<std::int32_t>> braids = {};

  ActionForm form() const { return {placement.chunks(), slices}; }
};

// Maps between a slice and its position among a chunk's backwards, which take the slices of a microbatch in descending order:
// each needs the gradients of later slices for its keys and values. Its own inverse; the identity without slices.
constexpr int backward_place(int piece, int slices) { return piece - piece % slices + slices - 1 - piece % slices; }

// The most stages x chunks x microbatches of one plan that is read or simulated: it takes ten seconds and three gigabytes.
constexpr std::int64_t most_plan_work = std::int64_t{1} << 24;

// The actions that end a step, as the parallel layout requires them.
struct EndOfStep {
  bool reduce_grads = false;    // several data-parallel replicas
  bool sum_replicated = false;  // several tensor-parallel ranks that have parts of the same gradients
  bool sum_tied = false;        // the first and the last virtual stage share weights
};

// Returns the positions of T, once on each stage that holds an end of the model: the embedding's chunk, and the head's if
// another stage holds that. The two gradients add in this order. With one position, the stage has both gradients and
// adds them. With two, the stages exchange them, and neither continues before both have arrived. Validation, simulation
// and training all take T from here.
std::vector<StageChunk> tied_sum_places(const Placement& placement);

// Appends to each stage's compute: R and S of every chunk in the order in which the chunks end, T at tied_sum_places(),
// then N and O.
Plan with_end_of_step(Plan compute, const EndOfStep& end);

// The purpose of a step. Training runs the plan as it is; evaluation runs its forward_pass(), and its verdict is to skip O.
enum class StepKind : std::uint8_t { training, evaluation };

// Returns a stage's forwards in the order of its list, without custom actions, then N, which reports the losses, and O. It
// needs no proof of its own: a run of the plan without its backwards is a run of this one, with fewer slots in use at any time.
std::vector<Action> forward_pass(const std::vector<Action>& actions);
Plan forward_pass(const Plan& plan);

// Returns the most microbatches that are between F and B or W at once, over all chunks of a stage's list. Microbatches
// that P has moved out do not count until G, see Residents.
int peak_in_flight(const std::vector<Action>& actions);

}  // namespace pipetrain::schedules
