#include "bench/gpu/time_shares.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>

#include "actors/training/run/make_train_job.hpp"
#include "apps/options/train_options.hpp"
#include "bench/gpu/our_run.hpp"
#include "core/device.hpp"
#include "files/json.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {

using schedules::ActionKind;
using TimePoint = std::chrono::steady_clock::time_point;

namespace {

double seconds_of(TimePoint begin, TimePoint end) { return std::chrono::duration<double>(end - begin).count(); }

// The times that the traces of a step show, in seconds.
struct Traced {
  double busy = 0;          // over all devices
  double sums = 0;          // part of busy: sums over replicas, over ranks, and over the two stages of tied weights
  double launch_bound = 0;  // part of busy: actions whose device waited for the host
  double makespan = 0, verdict = 0;
};

// Returns true if the tied weights' two gradients are on two stages. On one stage their sum is a timed operation.
bool tied_over_stages(const std::vector<DeviceTrace>& devices) {
  std::set<int> stages;
  for (const auto& device : devices)
    for (const auto& one : device.actions)
      if (one.action.kind == ActionKind::sum_tied) stages.insert(device.rank.pp);
  return stages.size() > 1;
}

Traced read_traces(const std::vector<DeviceTrace>& devices) {
  Traced traced;
  const bool tied = tied_over_stages(devices);
  const auto is_sum = [tied](ActionKind kind) {
    return kind == ActionKind::reduce_grads || kind == ActionKind::sum_replicated || (kind == ActionKind::sum_tied && tied);
  };
  TimePoint first = TimePoint::max(), last = TimePoint::min(), norm = TimePoint::min(), optimizer = TimePoint::max();
  for (const auto& device : devices) {
    for (const auto& [action, times, issued] : device.actions) {
      const double seconds = seconds_of(times.start, times.end);
      traced.busy += seconds;
      if (is_sum(action.kind)) traced.sums += seconds;
      if (seconds_of(issued, times.end) < seconds / 20) traced.launch_bound += seconds;
      first = std::min(first, times.start);
      last = std::max(last, times.end);
      if (action.kind == ActionKind::norm) norm = std::max(norm, times.end);
      if (action.kind == ActionKind::optimizer) optimizer = std::min(optimizer, times.start);
    }
  }
  traced.makespan = seconds_of(first, last);
  if (optimizer != TimePoint::max()) traced.verdict = std::max(0.0, seconds_of(norm, optimizer));
  return traced;
}

// The timed operations of every rank.
class AllOpTimes {
 public:
  WrapOps wrap() {
    return [this](std::unique_ptr<Ops> ops, const MeshCoordinate&) {
      auto times = std::make_shared<OpTimes>();
      const std::lock_guard lock(mutex_);
      times_.push_back(times);
      return make_timed_ops(std::move(ops), std::move(times));
    };
  }
  void set_measuring(bool measuring) {
    for (const auto& one : times_) one->set_measuring(measuring);
  }
  std::vector<OpTimes::Seconds> take() {
    std::vector<OpTimes::Seconds> all;
    for (const auto& one : times_) all.push_back(one->take());
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<OpTimes>> times_;
};

double total_of(const std::vector<OpTimes::Seconds>& operations) {
  double seconds = 0;
  for (const auto& one : operations) seconds += one.total();
  return seconds;
}

// Reads the free memory of these GPUs from the driver, now and later.
class FreeMemory {
 public:
  explicit FreeMemory(const std::vector<int>& gpus) {
    for (const int gpu : gpus) {
      devices_.push_back(make_cuda_device(gpu));
      free_.push_back(static_cast<double>(devices_.back()->memory().free));
    }
  }
  std::vector<double> taken() const {
    std::vector<double> bytes;
    for (std::size_t i = 0; i < devices_.size(); ++i)
      bytes.push_back(free_[i] - static_cast<double>(devices_[i]->memory().free));
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<double> free_;
};

}  // namespace

TimeShares time_shares(const std::vector<DeviceTrace>& devices, double seconds,
                       const std::vector<OpTimes::Seconds>& operations) {
  OpTimes::Seconds sum;
  for (const auto& one : operations) {
    sum.matrix += one.matrix;
    sum.attention += one.attention;
    sum.elementwise += one.elementwise;
    sum.communication += one.communication;
  }
  const Traced traced = read_traces(devices);
  const auto count = static_cast<double>(devices.size());
  const double whole = count * seconds;
  TimeShares shares;
  shares.seconds = seconds;
  shares.matrices = sum.matrix / whole;
  shares.attention = sum.attention / whole;
  shares.elementwise = sum.elementwise / whole;
  shares.communication = (sum.communication + traced.sums) / whole;
  shares.bubble = (count * (traced.makespan - traced.verdict) - traced.busy) / whole;
  shares.host = 1 - (shares.matrices + shares.attention + shares.elementwise + shares.communication + shares.bubble);
  shares.launch_bound = traced.launch_bound / traced.busy;
  return shares;
}

StepMeasures measure_step(const Row& row, const Schedule& schedule, const std::filesystem::path& tokens, int warmup) {
  const auto arguments = train_arguments(row, schedule, tokens, warmup + 7);
  TrainOptions options = parse_train_options({arguments.begin() + 1, arguments.end()}, {}, this_machine());
  TrainJob job = make_train_job(options.run, options.notes);
  AllOpTimes times;
  job.wrap_ops = times.wrap();
  const FreeMemory memory(job.devices.gpus);
  Trainer trainer(std::move(job));
  for (int i = 0; i < warmup; ++i) trainer.step();
  std::vector<StepReport> plain;
  for (int i = 0; i < 3; ++i) plain.push_back(trainer.step());
  std::sort(plain.begin(), plain.end(), [](const StepReport& a, const StepReport& b) { return a.seconds < b.seconds; });
  StepMeasures measures;
  measures.taken = memory.taken();
  times.set_measuring(true);
  trainer.step();  // makes events and memory
  times.take();
  std::vector<std::vector<OpTimes::Seconds>> timed;
  for (int i = 0; i < 3; ++i) {
    trainer.step();
    timed.push_back(times.take());
  }
  std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return total_of(a) < total_of(b); });
  measures.shares = time_shares(plain[1].devices, plain[1].seconds, timed[1]);
  return measures;
}

std::string to_json(const StepMeasures& measures) {
  const TimeShares& shares = measures.shares;
  const Json json = Json::object({{"seconds", shares.seconds},
                                  {"matrices", shares.matrices},
                                  {"attention", shares.attention},
                                  {"elementwise", shares.elementwise},
                                  {"communication", shares.communication},
                                  {"bubble", shares.bubble},
                                  {"host", shares.host},
                                  {"launch_bound", shares.launch_bound},
                                  {"taken", measures.taken}});
  return json.dump();
}

StepMeasures measures_from_json(const std::string& text) {
  const Json json = parse_json(text, {"a step's measures", false});
  const auto number = [&](const char* name) { return json.at(name).as_double(); };
  StepMeasures measures;
  measures.shares = {number("seconds"),       number("matrices"), number("attention"), number("elementwise"),
                     number("communication"), number("bubble"),   number("host"),      number("launch_bound")};
  for (const Json& bytes : json.at("taken")) measures.taken.push_back(bytes.as_double());
  return measures;
}

}  // namespace pipetrain::bench
