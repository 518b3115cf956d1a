#include "tuning/data_placements.hpp"

#include <algorithm>
#include <memory>

#include "actors/training/job/combinations.hpp"
#include "actors/training/job/features.hpp"
#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "core/error.hpp"
#include "schedules/plan/validate.hpp"
#include "tuning/cut_layouts.hpp"
#include "tuning/fastest_layouts.hpp"
#include "tuning/profiled_scales.hpp"
#include "tuning/whole_step.hpp"

namespace pipetrain {
namespace {

// Returns the choices of one place outside of the devices.
std::vector<Offload> choices_in(const std::filesystem::path& folder) {
  std::vector<Offload> choices;
  for (const double activations : {0.0, 0.25, 0.5, 0.75, 1.0})
    for (unsigned bits = 0; bits < 8; ++bits) {
      Offload offload;
      offload.optimizer = (bits & 1U) != 0;
      offload.parameters = (bits & 2U) != 0;
      offload.gradients = (bits & 4U) != 0;
      offload.move_activations(activations);
      if (!offload.any()) continue;
      offload.folder = folder;
      choices.push_back(offload);
    }
  return choices;
}

std::vector<Offload> choices_for(const TrainJob& job) {
  std::vector<Offload> choices = {Offload{}};
  const auto add = [&](const std::filesystem::path& folder) {
    const auto more = choices_in(folder);
    choices.insert(choices.end(), more.begin(), more.end());
  };
  if (job.devices.kind == DeviceKind::cuda) add({});
  if (!job.offload.folder.empty()) add(job.offload.folder);
  return choices;
}

LayoutRequest request_of(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room) {
  LayoutRequest request = request_of(job, sequence);
  request.speed = speed.speed;
  request.speed.memory_bytes = room.device;
  if (job.offload.to_disk()) request.speed.offload_rate = speed.disk_rate;
  request.scales = speed.scales;
  return request;
}

WholeStep step_of(const schedules::Plan& plan) {
  return {plan, validate(plan, schedules::Order::planned, TransformerCompute::slot_life())};
}

// A placement of the job's data, and what its simulation needs.
class PlacedJob {
 public:
  // step: of the job's plan; it must outlive this.
  PlacedJob(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room,
            const WholeStep& step)
      : room_(room), step_(step), request_(request_of(job, sequence, speed, room)), layout_(layout_of(job, step.plan)) {}
  PlacedJob(const PlacedJob&) = delete;
  PlacedJob& operator=(const PlacedJob&) = delete;

  schedules::Costs costs() { return costs_with_transfers(request_, layout_, step_.plan.placement, costs_, memory_); }
  const LayoutRequest& request() const { return request_; }

  // Returns the placement with its bytes.
  SimulatedPlacement counted() {
    SimulatedPlacement placed{.offload = request_.offload};
    count_memory(placed);
    placed.fits = static_cast<double>(placed.device) <= room_.device && placed.host <= room_.host && placed.disk <= room_.disk;
    return placed;
  }

  SimulatedPlacement simulated() {
    SimulatedPlacement placed = counted();
    placed.seconds = summarize(simulated_step(step_, costs())).makespan;
    return placed;
  }

 private:
  // By stage the first rank, which needs the most.
  void count_memory(SimulatedPlacement& placed) {
    const double ranks = static_cast<double>(request_.devices) / layout_.pp;  // of a stage
    for (int stage = 0; stage < layout_.pp; ++stage) {
      const MemoryUse use = memory_.use(layout_, step_.plan, step_.needs[static_cast<std::size_t>(stage)], stage);
      placed.device = std::max(placed.device, use.total());
      placed.host += ranks * static_cast<double>(use.host);
      placed.disk += ranks * static_cast<double>(use.disk);
    }
  }

  DataRoom room_;
  const WholeStep& step_;
  LayoutRequest request_;
  Layout layout_;
  LayoutCosts costs_{request_};
  LayoutMemory memory_{request_, costs_};
};

// Returns null where the choice does not go with the job.
std::shared_ptr<const schedules::Plan> plan_with(TrainJob job) {
  if (find_refused(features_of(job)) != nullptr) return nullptr;
  job.plan.reset();
  try {
    return build_plan(job);
  } catch (const Error&) {
    if (job.offload.activations) return nullptr;  // they wait too short for a move
    throw;
  }
}

// Returns the least share of the optimizer's states, in hundredths, that must be outside for the devices to have room; all of
// them where even that does not suffice. The more of them are outside, the fewer bytes a device needs, and the more travel.
double least_share(TrainJob job, std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room,
                   const WholeStep& step) {
  constexpr int parts = 100;
  const auto fits = [&](int share) {
    job.offload.optimizer_fraction = static_cast<double>(share) / parts;
    return static_cast<double>(PlacedJob(job, sequence, speed, room, step).counted().device) <= room.device;
  };
  int below = 0, least = parts;
  while (least - below > 1) {
    const int middle = below + (least - below) / 2;
    (fits(middle) ? least : below) = middle;
  }
  return static_cast<double>(least) / parts;
}

// Returns the fastest of `placements`, see fastest_placement().
const SimulatedPlacement* fastest_of(const std::vector<SimulatedPlacement>& placements) {
  constexpr double equal = 1 + 1e-9;
  const SimulatedPlacement* best = nullptr;
  for (const SimulatedPlacement& one : placements) {
    if (!one.fits) continue;
    const bool is_faster = best == nullptr || one.seconds * equal < best->seconds;
    const bool moves_less =
        best != nullptr && one.seconds <= best->seconds * equal && one.host + one.disk < best->host + best->disk;
    if (is_faster || moves_less) best = &one;
  }
  return best;
}

// Returns the seconds of all stages' optimizer.
double optimizer_seconds(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed, const WholeStep& step) {
  double seconds = 0;
  for (const double one : PlacedJob(job, sequence, speed, {.device = speed.speed.memory_bytes}, step).costs().optimizer)
    seconds += one;
  return seconds;
}

}  // namespace

std::vector<SimulatedPlacement> simulate_placements(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed,
                                                    const DataRoom& room) {
  std::vector<SimulatedPlacement> placements;
  for (const Offload& choice : choices_for(job)) {
    TrainJob other = job;
    other.offload = choice;
    const auto plan = plan_with(other);
    if (!plan) continue;
    const WholeStep step = step_of(*plan);
    if (choice.optimizer) other.offload.optimizer_fraction = least_share(other, sequence, speed, room, step);
    placements.push_back(PlacedJob(other, sequence, speed, room, step).simulated());
  }
  return placements;
}

std::optional<SimulatedPlacement> fastest_placement(const std::vector<SimulatedPlacement>& placements) {
  const SimulatedPlacement* const best = fastest_of(placements);
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

// The optimizer takes as long as the slower of its work on the device and its transfers. The one that is expected to bound it
// has the rate that the measured time shows. Where that is the work but the time is far too long, the transfers bound it.
PlacementSpeed corrected_speed(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed,
                               const Profile& measured) {
  constexpr double most = 1e3;     // a factor beyond it is an error of the clock
  constexpr double far = 1.25;     // times as long as expected
  constexpr double endless = 1e9;  // times a rate: its part of the time vanishes
  const WholeStep step = step_of(*job.plan);
  PlacementSpeed corrected = speed;
  const Offload& offload = job.offload;
  double& link = offload.to_disk() ? corrected.disk_rate : corrected.speed.offload_rate;
  PlacementSpeed work = speed, transfers = speed;
  (offload.to_disk() ? work.disk_rate : work.speed.offload_rate) *= endless;
  transfers.speed.memory_rate *= endless, transfers.speed.flops *= endless;
  const double works = optimizer_seconds(job, sequence, work, step);
  const bool moves = offload.optimizer || offload.parameters || offload.gradients;
  const double travels = moves ? optimizer_seconds(job, sequence, transfers, step) : 0;
  double took = 0;
  for (const StageProfile& stage : measured.stages) took += stage.optimizer;
  if (took > 0 && works > 0) {
    const bool link_bound = travels >= works || (moves && took > far * works);
    double& rate = link_bound ? link : corrected.speed.memory_rate;
    rate *= std::clamp((link_bound ? travels : works) / took, 1 / most, most);
  }
  corrected.scales = profiled_scales(request_of(job, sequence, corrected, {.device = speed.speed.memory_bytes}), measured);
  return corrected;
}

std::optional<SimulatedPlacement> better_placement(const TrainJob& job, const std::filesystem::path& folder,
                                                   std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room) {
  constexpr double least_gain = 0.03;
  TrainJob other = job;
  other.offload.folder = folder;
  const auto placements = simulate_placements(other, sequence, speed, room);
  const SimulatedPlacement* const best = fastest_of(placements);
  const WholeStep step = step_of(*job.plan);
  const double now = PlacedJob(job, sequence, speed, room, step).simulated().seconds;
  if (best == nullptr || best->seconds > (1 - least_gain) * now) return {};
  return *best;
}

}  // namespace pipetrain
