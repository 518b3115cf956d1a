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

// A placement of the job's data, and what its simulation needs.
class PlacedJob {
 public:
  PlacedJob(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room,
            const schedules::Plan& plan)
      : room_(room),
        step_{plan, validate(plan, schedules::Order::planned, TransformerCompute::slot_life())},
        request_(request_of(job, sequence, speed, room)),
        layout_(layout_of(job, plan)) {}
  PlacedJob(const PlacedJob&) = delete;
  PlacedJob& operator=(const PlacedJob&) = delete;

  schedules::Costs costs() { return costs_with_transfers(request_, layout_, step_.plan.placement, costs_, memory_); }
  const LayoutRequest& request() const { return request_; }

  SimulatedPlacement simulated() {
    SimulatedPlacement placed{.offload = request_.offload};
    count_memory(placed);
    placed.fits = static_cast<double>(placed.device) <= room_.device && placed.host <= room_.host && placed.disk <= room_.disk;
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
  WholeStep step_;
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

}  // namespace

std::vector<SimulatedPlacement> simulate_placements(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed,
                                                    const DataRoom& room) {
  std::vector<SimulatedPlacement> placements;
  for (const Offload& choice : choices_for(job)) {
    TrainJob other = job;
    other.offload = choice;
    if (const auto plan = plan_with(other)) placements.push_back(PlacedJob(other, sequence, speed, room, *plan).simulated());
  }
  return placements;
}

std::optional<SimulatedPlacement> fastest_placement(const std::vector<SimulatedPlacement>& placements) {
  constexpr double equal = 1 + 1e-9;
  const SimulatedPlacement* best = nullptr;
  for (const SimulatedPlacement& one : placements) {
    if (!one.fits) continue;
    const bool is_faster = best == nullptr || one.seconds * equal < best->seconds;
    const bool moves_less =
        best != nullptr && one.seconds <= best->seconds * equal && one.host + one.disk < best->host + best->disk;
    if (is_faster || moves_less) best = &one;
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

PlacementSpeed corrected_speed(const TrainJob& job, std::int64_t sequence, const PlacementSpeed& speed,
                               const Profile& measured) {
  constexpr double most = 1e3;  // a factor beyond it is an error of the clock
  PlacementSpeed corrected = speed;
  PlacedJob placed(job, sequence, speed, {.device = speed.speed.memory_bytes}, *job.plan);
  corrected.scales = profiled_scales(placed.request(), measured);
  double took = 0, expected = 0;
  for (const StageProfile& stage : measured.stages) took += stage.optimizer;
  for (const double seconds : placed.costs().optimizer) expected += seconds;
  if (took <= 0 || expected <= 0) return corrected;
  const double factor = std::clamp(expected / took, 1 / most, most);
  const bool moves = job.offload.optimizer || job.offload.parameters;
  double& rate = !moves                  ? corrected.speed.memory_rate
                 : job.offload.to_disk() ? corrected.disk_rate
                                         : corrected.speed.offload_rate;
  rate *= factor;
  return corrected;
}

std::optional<SimulatedPlacement> better_placement(const TrainJob& job, const std::filesystem::path& folder,
                                                   std::int64_t sequence, const PlacementSpeed& speed, const DataRoom& room) {
  constexpr double least_gain = 1.0 / 30;
  TrainJob other = job;
  other.offload.folder = folder;
  const auto placements = simulate_placements(other, sequence, speed, room);
  const auto best = fastest_placement(placements);
  const auto own = std::find_if(placements.begin(), placements.end(), [&](const SimulatedPlacement& one) {
    return to_string(one.offload) == to_string(job.offload) && one.offload.to_disk() == job.offload.to_disk() &&
           one.offload.activation_share() == job.offload.activation_share();
  });
  if (!best || own == placements.end() || best->seconds > (1 - least_gain) * own->seconds) return {};
  return best;
}

}  // namespace pipetrain
