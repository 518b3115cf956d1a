// The times of all actions: the one structure that simulations and real runs fill, and that every drawing and report reads.
#pragma once

#include <string>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

// The event that an action's start waited for last.
enum class WaitedFor : std::uint8_t {
  nothing,     // its stage was busy until then, or the step began
  activation,  // of its microbatch from the previous virtual stage (for the first: tokens)
  gradient,    // of its microbatch from the next virtual stage
  slot,        // a free slot in the queue that takes its output
  partner,     // another stage that takes part: T, O by the verdict, and the predecessors of a custom action
  memory,      // memory of its stage: activations that G brings back, or memory that P frees
};

struct Span {
  Action action;
  WaitedFor waited_for = WaitedFor::nothing;
  double start = 0;
  double end = 0;
  // This action alternated with the next span's action from this start on. The next span begins at the end of this
  // action and covers what was left of the other.
  bool begins_braid = false;
};

// The time of a step of a run, or of the evaluation after it.
struct Period {
  std::int64_t step = 0;
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::string title;  // "1f1b, 4 stages, 8 microbatches"
  Placement placement = Placement::looping(1, 1);
  std::string unit = "units";  // of its times: "s" where they are seconds
  int microbatches = 0;        // with slices, the number of slices: see Plan
  int slices = 1;
  std::vector<std::vector<Span>> stages;  // per stage, in order of time, without moves
  std::vector<std::vector<Span>> moves;   // of the same rows, beside these; empty where the plan has none
  std::vector<std::string> names;         // of these rows, where they are not stages 0, 1, ...; else empty
  std::vector<std::string> custom;        // the names of the plan's custom actions, by number
  std::vector<Period> steps;              // of a run, in order; those of a simulated step are empty
  std::vector<Period> evaluations;        // in order; no rows have their work, and they are not idle time

  ActionForm form() const { return {placement.chunks(), slices}; }
};

// A stage's span lasts from its own first start to its last end, without evaluations.
struct StageSummary {
  double busy = 0;
  double span = 0;
  double idle = 0;                // makespan - busy - evaluations; the sum of the parts below
  double idle_warm_up = 0;        // before the stage's first B or I
  double idle_steady = 0;         // between that and the end of its last F
  double idle_cool_down = 0;      // after that, also when the stage has finished and others have not
  double idle_communication = 0;  // a message was on its way: counted only here
  double peak_activations = 0;    // the most microbatches between F and B or W on the device; each chunk counts 1 / chunks
};

struct Summary {
  double makespan = 0;         // first start to last end over all stages
  double bubble_fraction = 0;  // 1 - busy / (stages x (makespan - evaluations))
  double span_bubble = 0;      // max over stages of span - busy
  std::vector<StageSummary> stages;
};

// transfers[v]: time of a message between virtual stages v and v + 1; empty when unknown (no idle_communication then).
Summary summarize(const Timeline& timeline, const std::vector<double>& transfers = {});

struct SpanRef {
  int stage = 0;
  std::size_t index = 0;
};
// Returns the chain of actions that determined the makespan, first to last.
std::vector<SpanRef> critical_path(const Timeline& timeline);

// Returns the most bytes held at once on a stage's device by the costs of its chunks: held_bytes from F to B or W,
// except between P and G, and pending_bytes from I to W in addition.
double peak_bytes(const Timeline& timeline, int stage, const std::vector<ChunkCost>& chunks);

}  // namespace pipetrain::schedules
