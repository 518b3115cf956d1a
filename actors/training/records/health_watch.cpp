#include "actors/training/records/health_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "schedules/simulate/simulate.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t losses_kept = 50, least_losses = 20, norms_kept = 20;

double median_of_waits(const std::deque<double>& values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

// Estimates the standard deviation from the median distance to the median, which outliers do not move.
double deviation(const std::deque<double>& values) {
  const double middle = median_of_waits(values);
  std::deque<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return 1.4826 * median_of_waits(distances);
}

void keep(std::deque<double>& values, double value, std::size_t most) {
  values.push_back(value);
  if (values.size() > most) values.pop_front();
}

// Returns the seconds of computing, without actions that wait for other ranks.
double computing(const DeviceActions& actions) {
  double seconds = 0;
  for (const DeviceAction& one : actions) {
    if (schedules::is_compute(one.action.kind))
      seconds += std::chrono::duration<double>(one.times.end - one.times.start).count();
  }
  return seconds;
}

}  // namespace

HealthWatch::HealthWatch(const TrainJob& job, const WatchSettings& settings)
    : settings_(settings),
      plan_(job.plan),
      order_(job.layout.order),
      chosen_(static_cast<std::size_t>(job.config.experts.chosen)) {
  if (settings_.slow > 0 && settings_.slow_steps > 0) profile_.emplace(job, "");
}

std::vector<std::string> HealthWatch::add(const StepReport& report) {
  std::vector<std::string> lines;
  watch_stages(report, lines);
  watch_loss(report, lines);
  watch_norm(report, lines);
  watch_routers(report, lines);
  return lines;
}

// A layer with fewer than twice the experts that a token chooses has no others to speak of.
void HealthWatch::watch_routers(const StepReport& report, std::vector<std::string>& lines) {
  if (settings_.collapse <= 0) return;
  for (const RoutedLayer& layer : report.routed) {
    if (layer.loads.size() < 2 * chosen_) continue;
    std::vector<double> loads = layer.loads;
    std::sort(loads.begin(), loads.end(), std::greater<>());
    const auto end = loads.begin() + static_cast<std::ptrdiff_t>(chosen_);
    const double share = std::accumulate(loads.begin(), end, 0.0) / std::accumulate(loads.begin(), loads.end(), 0.0);
    if (share < settings_.collapse || !reported_.insert(fmt::format("router {}", layer.layer)).second) continue;
    lines.push_back(fmt::format(
        "step {}: the router of layer {} has collapsed: {:.0f} % of its choices go to {} of {} experts; raise the coefficient "
        "of the balancing loss",
        report.step, layer.layer, 100 * share, chosen_, loads.size()));
  }
}

void HealthWatch::simulate_step() {
  const Profile profile = profile_->profile();
  profile_.reset();
  if (!profile.why_not(*plan_).empty()) return;
  const schedules::Timeline timeline =
      schedules::simulate(*plan_, of_slices(profile.costs(), plan_->slices), {.order = order_});
  for (const auto& spans : timeline.stages) {
    double seconds = 0;
    for (const schedules::Span& span : spans)
      if (schedules::is_compute(span.action.kind)) seconds += span.end - span.start;
    simulated_.push_back(seconds);
  }
  paces_.resize(simulated_.size());
}

void HealthWatch::watch_stages(const StepReport& report, std::vector<std::string>& lines) {
  if (profile_) {
    profile_->add(report);
    if (++measured_ > settings_.slow_steps) simulate_step();
    return;
  }
  std::vector<const DeviceTrace*> slowest(simulated_.size());
  std::vector<double> seconds(simulated_.size());
  for (const DeviceTrace& device : report.devices) {
    const auto stage = static_cast<std::size_t>(device.rank.pp);
    if (stage >= simulated_.size()) continue;
    const double computed = computing(device.actions);
    if (computed > seconds[stage]) seconds[stage] = computed, slowest[stage] = &device;
  }
  for (std::size_t stage = 0; stage < simulated_.size(); ++stage) {
    Pace& pace = paces_[stage];
    const double excess = simulated_[stage] > 0 ? seconds[stage] / simulated_[stage] - 1 : 0;
    if (excess <= settings_.slow) {
      pace = {};
      continue;
    }
    pace.excess += excess;
    if (++pace.slow_steps < settings_.slow_steps || !reported_.insert(fmt::format("stage {}", stage)).second) continue;
    lines.push_back(
        fmt::format("step {}: {} has computed for {:.0f} % longer than simulated from the first steps' costs, {} steps in a "
                    "row ({:.1f} ms, "
                    "simulated {:.1f} ms); look at its device",
                    report.step, to_string(slowest[stage]->rank), 100 * pace.excess / static_cast<double>(pace.slow_steps),
                    pace.slow_steps, 1e3 * seconds[stage], 1e3 * simulated_[stage]));
  }
}

void HealthWatch::watch_loss(const StepReport& report, std::vector<std::string>& lines) {
  if (!report.has_loss()) return;
  if (settings_.loss_spike > 0 && losses_.size() >= least_losses) {
    const double middle = median_of_waits(losses_), unit = std::max(deviation(losses_), 1e-3 * std::abs(middle));
    if (report.loss > middle + settings_.loss_spike * unit && reported_.insert("loss").second)
      lines.push_back(
          fmt::format("step {}: the loss jumped to {:.4f} from about {:.4f}; look at the data of this step, or lower "
                      "the learning rate",
                      report.step, report.loss, middle));
  }
  keep(losses_, report.loss, losses_kept);
}

void HealthWatch::watch_norm(const StepReport& report, std::vector<std::string>& lines) {
  if (!report.has_loss()) return;
  keep(norms_, report.grad_norm, norms_kept);
  if (settings_.norm_growth <= 0 || norms_.size() < norms_kept) return;
  const double now = median_of_waits(norms_);
  if (!least_norm_ || now < *least_norm_) least_norm_ = now;
  if (now > settings_.norm_growth * *least_norm_ && reported_.insert("norm").second)
    lines.push_back(
        fmt::format("step {}: the gradient norm has grown to about {:.3g}, {:.1f} times what it was; the run may "
                    "diverge: lower the learning rate",
                    report.step, now, now / *least_norm_));
}

}  // namespace pipetrain
