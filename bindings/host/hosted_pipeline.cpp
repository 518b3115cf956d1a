#include "bindings/host/hosted_pipeline.hpp"

#include <algorithm>
#include <utility>

#include "bindings/host/hosted_compute.hpp"
#include "bindings/host/misuse.hpp"
#include "bindings/host/plan_building.hpp"
#include "bindings/host/step_timeline.hpp"
#include "schedules/activation_offload.hpp"

namespace pipetrain {

namespace {

class WatchedSource : public InputSource {
 public:
  WatchedSource(std::shared_ptr<InputSource> source, std::shared_ptr<CallbackWatch> watch)
      : source_(std::move(source)), watch_(std::move(watch)) {}
  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override {
    const CallbackWatch::Call call(*watch_, {.call = "fill", .microbatch = microbatch});
    source_->fill(kind, step, microbatch, slot);
  }
  bool fills_at_once() const override { return source_->fills_at_once(); }

 private:
  std::shared_ptr<InputSource> source_;
  std::shared_ptr<CallbackWatch> watch_;
};

// Sets a flag for as long as a step runs, or the end of the pipeline does.
class BusyGuard {
 public:
  BusyGuard(std::mutex& mutex, bool& busy, const char* call) : mutex_(mutex), busy_(busy) {
    const std::lock_guard lock(mutex_);
    if (busy_) throw Misuse(std::string(call) + ": a step of this pipeline is running");
    busy_ = true;
  }
  ~BusyGuard() {
    const std::lock_guard lock(mutex_);
    busy_ = false;
  }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  std::mutex& mutex_;
  bool& busy_;
};

void refuse_inside_call(const char* what) {
  if (CallbackWatch::inside_call())
    throw Misuse(std::string(what) + ": called from inside a callback, which would wait for itself");
}

}  // namespace

HostedPipeline::HostedPipeline(PipelineOptions options, const HostedFactory& make_compute, const SourceFactory& make_source)
    : grace_(options.grace) {
  refuse_inside_call("a new pipeline");
  if (schedules::moves_activations(options.plan))
    throw Error(ErrorKind::input, "the plan moves activations (P and G), which only pipetrain's own models do; leave them out");
  if (!has_end_of_step(options.plan)) options.plan = end_plan(options.plan, {});
  plan_ = options.plan;
  const auto compute = [&](StageId id, const schedules::StageNeeds& needs) -> std::shared_ptr<StageCompute> {
    auto stage = stages_.emplace_back(std::make_shared<HostedStage>(id));
    return std::make_shared<HostedCompute>(make_compute({id, needs, stage, watch_}), stage, watch_);
  };
  const auto source = [&](int replica) -> std::shared_ptr<InputSource> {
    return std::make_shared<WatchedSource>(make_source(replica), watch_);
  };
  try {
    pipeline_ = std::make_shared<Pipeline>(std::move(options), compute, source);
  } catch (...) {
    close_stages();
    throw;
  }
}

HostedPipeline::~HostedPipeline() {
  try {
    close();
  } catch (const Error&) {
    new std::shared_ptr<Pipeline>(pipeline_);  // its threads cannot be ended: what they may touch has to stay
  }
}

void HostedPipeline::step(StepInfo info, Decide decide) {
  step(info, std::move(decide), std::chrono::hours(1), [] {});
}

void HostedPipeline::step(StepInfo info, Decide decide, std::chrono::milliseconds interval, const std::function<void()>& poll) {
  refuse_inside_call("step");
  const BusyGuard guard(mutex_, busy_, "step");
  const auto pipeline = open_pipeline("step");
  if (info.microbatches == 0) info.microbatches = plan_.microbatches;
  if (info.microbatches != plan_.microbatches)
    throw Error(ErrorKind::input, {"microbatches", std::to_string(info.microbatches)},
                "the plan has " + std::to_string(plan_.microbatches) + "; give that or 0");
  auto outcome = pipeline->start_step(info, watched(std::move(decide)));
  while (outcome.wait_for(interval) != std::future_status::ready) poll();
  StepOutcome ended = outcome.get();
  const std::lock_guard lock(mutex_);
  latest_ = std::move(ended);
}

void HostedPipeline::abort(const std::string& why) {
  open_pipeline("abort")->abort(std::make_exception_ptr(Error(ErrorKind::aborted, why)));
}

std::vector<std::string> HostedPipeline::waiting() {
  refuse_inside_call("waiting");
  return open_pipeline("waiting")->waiting();
}

schedules::Timeline HostedPipeline::timeline() const {
  const std::lock_guard lock(mutex_);
  if (!latest_) throw Misuse("timeline: no step has ended yet");
  return step_timeline(plan_, *latest_);
}

void HostedPipeline::close() {
  refuse_inside_call("the end of a pipeline");
  const BusyGuard guard(mutex_, busy_, "the end of a pipeline");
  const std::string hangs = watch_->wait_until_idle(grace_);
  if (!hangs.empty())
    throw Misuse("the end of a pipeline: the call " + hangs + " has not returned, and its thread cannot be ended");
  close_stages();
  std::shared_ptr<Pipeline> ended;  // its end waits for the actors: outside the lock
  {
    const std::lock_guard lock(mutex_);
    ended.swap(pipeline_);
  }
}

void HostedPipeline::close_stages() {
  for (const auto& stage : stages_) stage->close();
}

std::shared_ptr<Pipeline> HostedPipeline::open_pipeline(const char* call) const {
  const std::lock_guard lock(mutex_);
  if (!pipeline_) throw Misuse(std::string(call) + ": the pipeline has been closed");
  return pipeline_;
}

Decide HostedPipeline::watched(Decide decide) const {
  return [decide = std::move(decide), watch = watch_](const std::vector<StageResult>& results) {
    const CallbackWatch::Call call(*watch, {.call = "decide"});
    return decide(results);
  };
}

}  // namespace pipetrain
