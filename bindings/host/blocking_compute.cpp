#include "bindings/host/blocking_compute.hpp"

#include <chrono>
#include <utility>

#include "bindings/host/hosted_compute.hpp"
#include "core/error.hpp"

namespace pipetrain {

BlockingCompute::BlockingCompute(std::shared_ptr<BlockingStage> stage, std::shared_ptr<HostedStage> events,
                                 std::shared_ptr<CallbackWatch> watch, std::shared_ptr<ActionThreads> threads)
    : stage_(std::move(stage)),
      events_(std::move(events)),
      watch_(std::move(watch)),
      threads_(threads ? std::move(threads) : std::make_shared<ActionThreads>()) {
  threads_->join(*this);
}

BlockingCompute::~BlockingCompute() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  threads_->leave(*this);
}

std::vector<SlotHandle> BlockingCompute::make_slots(schedules::InputKind kind, int chunk, int count) {
  return stage_->make_slots(kind, chunk, count);
}

void BlockingCompute::attach(std::shared_ptr<StageEvents>) {}  // hosted_stage.hpp has them

void BlockingCompute::begin_step(const StepInfo& step) { stage_->begin_step(step); }

void BlockingCompute::launch(const Launch& launch) { threads_->add(*this, launch); }

void BlockingCompute::verdict(const Verdict& verdict) { stage_->verdict(verdict); }

void BlockingCompute::abort(std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
  threads_->look_again();
  stage_->abort(text_of(cause));
}

void BlockingCompute::act(const Launch& launch) noexcept {
  bool skip = false;
  {
    const std::lock_guard lock(mutex_);
    skip = aborted_;
  }
  if (skip) {
    answer(launch.action, {}, {});
  } else {
    run(launch);
  }
}

void BlockingCompute::run(const Launch& launch) {
  ActionTimes times;
  StageResult result;
  times.start = std::chrono::steady_clock::now();
  try {
    const CallbackWatch::Call call(*watch_, {.action = &launch.action, .stage = &events_->id()});
    result = stage_->run(launch);
  } catch (...) {
    tell([&] { events_->failed(std::current_exception()); });
    // An answer would send on an output that is none, and others would fail of it too.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || aborted_; });
  }
  times.end = std::chrono::steady_clock::now();
  answer(launch.action, times, std::move(result));
}

void BlockingCompute::answer(const schedules::Action& action, const ActionTimes& times, StageResult result) {
  tell([&] { events_->ran(action, times, std::move(result)); });
}

template <class Tell>
void BlockingCompute::tell(Tell tell) noexcept {
  try {
    tell();
  } catch (const Error&) {  // the pipeline has gone meanwhile: nobody listens
  }
}

}  // namespace pipetrain
