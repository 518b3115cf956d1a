// Finds a better layout for a run from the times that it has measured, where one device may be slower than the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "model/config/cut.hpp"
#include "schedules/plan/plan.hpp"
#include "tuning/cut_search.hpp"

namespace pipetrain {

struct TrainJob;

struct RetunedCut {
  Cut cut;
  double before = 0, after = 0;  // simulated seconds of a step with the run's cut and with this one
};

// Returns how many times as long as the fastest stage each stage computes on blocks of the same kind.
std::vector<double> slowness_of_stages(const Profile& measured);

// Returns the simulated seconds of a step of the plan with this cut, on devices that are as slow as in the measured run.
// measured: of a run with as many stages. Throws Error(input) for a profile whose model cannot be read.
double retuned_seconds(const Profile& measured, const schedules::Plan& plan, const Cut& cut);

// Searches from the run's cut, or from the one by cost where the plan has another placement; see search_cut(). No value
// where nothing better is found.
std::optional<RetunedCut> retune_cut(const Profile& measured, const schedules::Plan& plan, const CutLimits& limits);

// Returns the share of a step that another layout must save to be taken: 5 %, or more where the measured steps differ by more,
// the longest and the shortest of them left aside. So noise does not change a layout back and forth. At least three steps.
double least_retuned_gain(std::vector<double> step_seconds);

struct RetunedLayout {
  std::string schedule;
  int chunks = 1;
  Recompute recompute = Recompute::none;
  Cut cut = {};
  double seconds = 0;  // simulated, of a step
};

// Returns layouts of the same stages and microbatches with which a step of the job is simulated to be shorter than now, the
// shortest first: other cuts, schedules, chunks, and modes that recompute less, all with the same bits. Their memory is not
// checked. job: of the measured run, with its plan. Of a run with a given plan, with slices or with offloaded activations only
// the cut changes; of one that recomputes some layers only, the mode stays. A time without recomputation is the measured one
// less the share that recomputing takes by FLOPs. Throws Error(input) for a profile whose model cannot be read.
std::vector<RetunedLayout> retune_layout(const Profile& measured, const TrainJob& job, const CutLimits& limits);

}  // namespace pipetrain
