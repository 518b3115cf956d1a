#include "bindings/guest/guest_pipeline.hpp"

#include <utility>

#include "bindings/guest/guest_compute.hpp"
#include "bindings/guest/misuse.hpp"
#include "bindings/guest/plan_building.hpp"
#include "bindings/guest/step_timeline.hpp"
#include "core/error.hpp"
#include "schedules/plan/activation_offload.hpp"

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

// Sets a flag while a step runs, or while the pipeline ends.
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

class HookGuard {
 public:
  explicit HookGuard(const StepHooks& hooks) : hooks_(hooks) {}
  ~HookGuard() { hooks_.end(); }
  HookGuard(const HookGuard&) = delete;
  HookGuard& operator=(const HookGuard&) = delete;

 private:
  const StepHooks& hooks_;
};

void refuse_inside_call(const char* what) {
  if (CallbackWatch::inside_call())
    throw Misuse(std::string(what) + ": called from inside a callback, which would wait for itself");
}

}  // namespace

GuestPipeline::GuestPipeline(PipelineOptions options, const GuestFactory& make_guest, const SourceFactory& make_source,
                             std::shared_ptr<GuestProcesses> processes)
    : grace_(options.grace),
      processes_(std::move(processes)),
      joint_(processes_ ? std::make_shared<JointSteps>(processes_, options.stall) : nullptr) {
  refuse_inside_call("a new pipeline");
  if (schedules::moves_activations(options.plan))
    throw Error(ErrorKind::input, "the plan moves activations (P and G), which only pipetrain's own models do; leave them out");
  if (!has_end_of_step(options.plan)) options.plan = end_plan(options.plan, {});
  plan_ = options.plan;
  const auto compute = [&](StageId id, const schedules::StageNeeds& needs) -> std::shared_ptr<StageCompute> {
    auto stage = stages_.emplace_back(std::make_shared<GuestAnswers>(id));
    return std::make_shared<GuestCompute>(make_guest({id, needs, stage, watch_, processes_}), stage, watch_, threads_);
  };
  const auto source = [&](int replica) -> std::shared_ptr<InputSource> {
    return std::make_shared<WatchedSource>(make_source(replica), watch_);
  };
  if (processes_) options.processes = processes_->begin(options);
  try {
    pipeline_ = std::make_shared<Pipeline>(std::move(options), compute, source);
  } catch (...) {
    close_stages();
    if (processes_) std::rethrow_exception(processes_->fail(std::current_exception()));
    throw;
  }
}

GuestPipeline::~GuestPipeline() {
  try {
    close(false);
    if (!pipeline_) return;
  } catch (const Error&) {
  }
  new std::pair(pipeline_, processes_);  // its threads cannot be ended, so what they use must stay
}

void GuestPipeline::refuse_forked(const char* call) const {
  if (getpid() != made_in_)
    throw Misuse(std::string(call) + ": the pipeline was made in process " + std::to_string(made_in_) +
                 ", and a fork has none of its threads; make one in this process");
}

StepEnd GuestPipeline::step(StepInfo info, Decide decide, const StepHooks& hooks) {
  const char* const call = info.kind == schedules::StepKind::training ? "step" : "evaluate";
  refuse_forked(call);
  refuse_inside_call(call);
  const BusyGuard guard(mutex_, busy_, call);
  const auto pipeline = open_pipeline(call);
  if (info.microbatches == 0) info.microbatches = plan_.microbatches;
  if (info.microbatches != plan_.microbatches)
    throw Error(ErrorKind::input, {"microbatches", std::to_string(info.microbatches)},
                "the plan has " + std::to_string(plan_.microbatches) + "; give that or 0");
  const HookGuard ended(hooks);
  hooks.begin();
  const StepCall round{++rounds_, info.kind, info.step};
  if (follows()) return joint_->follow(*pipeline, round, hooks);
  if (joint_) joint_->gather(*pipeline, round, hooks);
  const auto end = std::make_shared<StepEnd>();
  auto running = pipeline->start_step(info, watched(info.kind, std::move(decide), end));
  while (running.wait_for(hooks.interval) != std::future_status::ready) hooks.poll();
  StepOutcome outcome = running.get();
  const std::lock_guard lock(mutex_);
  latest_ = std::move(outcome);
  latest_kind_ = info.kind;
  if (joint_) joint_->end(round, *end);
  return *end;
}

void GuestPipeline::abort(const std::string& why) {
  const auto pipeline = open_pipeline("abort");
  if (joint_) joint_->abort();
  pipeline->abort(std::make_exception_ptr(Error(ErrorKind::aborted, why)));
}

std::vector<std::string> GuestPipeline::waiting() {
  refuse_inside_call("waiting");
  return open_pipeline("waiting")->waiting();
}

schedules::Timeline GuestPipeline::timeline() const {
  refuse_forked("timeline");
  const std::lock_guard lock(mutex_);
  if (follows()) throw Misuse("timeline: process 0 alone has it");
  if (!latest_) throw Misuse("timeline: no step has ended yet");
  return step_timeline(plan_, *latest_, latest_kind_);
}

void GuestPipeline::close() { close(true); }

void GuestPipeline::close(bool waits) {
  if (getpid() != made_in_) return;
  refuse_inside_call("the end of a pipeline");
  const BusyGuard guard(mutex_, busy_, "the end of a pipeline");
  const std::string hangs = watch_->wait_until_idle(grace_);
  if (!hangs.empty())
    throw Misuse("the end of a pipeline: the call " + hangs + " has not returned, and its thread cannot be ended");
  std::shared_ptr<Pipeline> ended;  // its destructor waits for the actors: outside the lock
  {
    const std::lock_guard lock(mutex_);
    ended.swap(pipeline_);
  }
  if (ended && waits && follows()) joint_->wait_for_close(*ended);
  close_stages();
  ended.reset();
  joint_.reset();
  processes_.reset();
}

void GuestPipeline::close_stages() {
  for (const auto& stage : stages_) stage->close();
}

std::shared_ptr<Pipeline> GuestPipeline::open_pipeline(const char* call) const {
  refuse_forked(call);
  const std::lock_guard lock(mutex_);
  if (!pipeline_) throw Misuse(std::string(call) + ": the pipeline has been closed");
  return pipeline_;
}

Decide GuestPipeline::watched(schedules::StepKind kind, Decide decide, std::shared_ptr<StepEnd> end) const {
  return [kind, decide = std::move(decide), watch = watch_, end = std::move(end)](const std::vector<StageResult>& results) {
    const CallbackWatch::Call call(*watch, {.call = "decide"});
    end->results = results;
    end->verdict = decide(results);
    if (kind == schedules::StepKind::evaluation) end->verdict.apply = false;
    return end->verdict;
  };
}

}  // namespace pipetrain
