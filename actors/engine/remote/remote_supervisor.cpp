#include "actors/engine/remote/remote_supervisor.hpp"

#include <algorithm>
#include <utility>

#include "actors/engine/remote/codec.hpp"
#include "actors/engine/run_failed.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// Converts a time of this process to process 0's clock. An unset time stays unset.
void shift(TimePoint& time, std::chrono::nanoseconds offset) {
  if (time != TimePoint{}) time += std::chrono::duration_cast<TimePoint::duration>(offset);
}
void shift(ActionTimes& times, std::chrono::nanoseconds offset) {
  shift(times.start, offset);
  shift(times.end, offset);
}

}  // namespace

RemoteSupervisorActor::RemoteSupervisorActor(caf::actor_config& config, Setup setup)
    : caf::event_based_actor(config), setup_(std::move(setup)) {
  set_down_handler([this](const caf::down_msg& message) { actor_down(message); });
}

caf::behavior RemoteSupervisorActor::make_behavior() {
  return {
      [this](ConnectSupervisor& message) {
        for (std::size_t i = 0; i < message.stages.size(); ++i) {
          stages_.push_back({message.ids[i], message.stages[i], {}});
          monitor(message.stages[i]);
        }
        feeders_ = std::move(message.feeders);
        for (auto& feeder : feeders_) monitor(feeder);
        still_running_ = stages_.size();
      },
      // --- this process's stages and feeders ---
      [this](NormDone& message) { cross(message.stage, std::move(message)); },
      [this](Signal& message) { cross(message.stage, message); },
      [this](StepDone& message) { step_done(message); },
      [this](Waiting& message) { cross(message.stage, std::move(message)); },
      [this](MemoryReport& message) { cross(message.stage, std::move(message)); },
      [this](StateRead& message) { state_read(message); },
      [this](Logged& message) {
        shift(message.log.base, clock_offset());
        cross(message.stage, std::move(message));
      },
      [this](StateSaved& message) { cross(message.stage, std::move(message)); },
      [this](Stopped& message) { stopped(message); },
      [this](Failed& message) { fail(std::move(message.cause)); },
      // --- process 0 ---
      [this](SendState& message) { send_state(message); },
      [this](Abort& message) { abort(message.cause); },
      [this](WaitingLines& message) {
        const auto asked = waiting_asked_.find(message.number);
        if (asked == waiting_asked_.end()) return;
        asked->second(std::move(message.lines));
        waiting_asked_.erase(asked);
      },
      [this](RunEnds&) {
        if (!failure_ && setup_.end) std::exchange(setup_.end, nullptr)->set_value();
      },
      // --- this process itself ---
      [this](AskWaiting& message) {
        waiting_asked_[asked_] = std::move(message.answer);
        setup_.channel->send(0, {{}, WaitingWanted{asked_++}});
      },
      [this](GraceOver&) { end_failure(); },
  };
}

// A worker may still fill this memory, and only the channel outlives the workers.
void RemoteSupervisorActor::on_exit() {
  for (auto& [number, reading] : readings_) setup_.channel->keep(std::move(reading.values));
  readings_.clear();
  stages_.clear();
  feeders_.clear();
  setup_ = {};
}

std::chrono::nanoseconds RemoteSupervisorActor::clock_offset() const {
  return setup_.channel->control().info(setup_.channel->process()).clock_offset;
}

void RemoteSupervisorActor::step_done(StepDone& message) {
  const auto offset = clock_offset();
  for (TracedAction& traced : message.trace.actions) shift(traced.times, offset);
  for (DeviceActions& actions : message.devices) {
    for (DeviceAction& one : actions) {
      shift(one.times, offset);
      shift(one.issued, offset);
    }
  }
  shift(message.log.base, offset);
  cross(message.trace.stage, std::move(message));
}

void RemoteSupervisorActor::stopped(const Stopped& message) {
  const auto stage = std::find_if(stages_.begin(), stages_.end(), [&](const Member& one) { return one.id == message.stage; });
  if (stage == stages_.end() || !stage->line.empty()) return;
  stage->line = message.line;
  cross(message.stage, message);
  if (--still_running_ == 0) end_when_explained();
}

// The same rule as in SupervisorActor.
void RemoteSupervisorActor::end_when_explained() {
  if (failure_ && may_have_another_cause(*failure_)) {
    delayed_send(this, time_to_notice_a_loss, GraceOver{});
  } else {
    end_failure();
  }
}

void RemoteSupervisorActor::abort(const Failure& cause) {
  if (failure_) {
    if (!cause.process_lost || !may_have_another_cause(*failure_)) return;
    failure_ = cause;
    if (still_running_ == 0) end_failure();
    return;
  }
  failure_ = cause;
  setup_.on_abort(cause);
  for (auto& stage : stages_) send(stage.actor, Abort{cause});
  for (auto& feeder : feeders_) send(feeder, Abort{cause});
  delayed_send(this, setup_.grace, GraceOver{});
  if (still_running_ == 0) end_when_explained();  // a process without stages
}

void RemoteSupervisorActor::actor_down(const caf::down_msg& message) {
  const auto stage =
      std::find_if(stages_.begin(), stages_.end(), [&](const Member& one) { return one.actor == message.source; });
  if (stage == stages_.end()) return fail({ErrorKind::peer_lost, "a feeder's actor stopped in the middle of the run"});
  fail({ErrorKind::peer_lost, "stage " + std::to_string(stage->id.stage) + ": its actor stopped in the middle of the run"});
  stopped({stage->id, "its actor is gone"});
}

void RemoteSupervisorActor::end_failure() {
  if (!failure_ || !setup_.end) return;
  std::vector<std::string> lines;
  for (const Member& stage : stages_) {
    lines.push_back("stage " + std::to_string(stage.id.stage) + ": " +
                    (stage.line.empty() ? "still running, does not answer" : stage.line));
  }
  std::exchange(setup_.end, nullptr)
      ->set_exception(std::make_exception_ptr(RunFailed(*failure_, std::move(lines), still_running_ == 0)));
}

void RemoteSupervisorActor::send_state(SendState& message) {
  const auto stage = std::find_if(stages_.begin(), stages_.end(), [&](const Member& one) { return one.id == message.stage; });
  if (failure_ || stage == stages_.end()) return;
  try {
    const StatePart& part = message.wanted.part;
    Reading reading{message.stage, std::vector<float>(setup_.state_elements(message.stage, part))};
    if (reading.values.size() != part.elements) throw Error(ErrorKind::internal, "a part of a state has another size here");
    Reading& kept = readings_[message.wanted.number];
    kept = std::move(reading);
    send(stage->actor, ReadState{message.wanted.number, part, kept.values.data()});
  } catch (...) {
    Failure cause = failure_of(std::current_exception());
    cause.where = "stage " + std::to_string(message.stage.stage);
    fail(std::move(cause));
  }
}

void RemoteSupervisorActor::state_read(const StateRead& message) {
  const auto found = readings_.find(message.number);
  if (found == readings_.end()) return;
  const Reading reading = std::move(found->second);
  readings_.erase(found);
  if (failure_) return;
  const std::size_t total = reading.values.size();
  for (std::size_t begin = 0; begin == 0 || begin < total; begin += most_values_a_piece) {
    const std::size_t end = std::min(total, begin + most_values_a_piece);
    const auto at = [&](std::size_t i) { return reading.values.begin() + static_cast<std::ptrdiff_t>(i); };
    cross(reading.stage, StatePiece{message.number, begin, total, std::vector<float>(at(begin), at(end))});
  }
}

}  // namespace pipetrain
