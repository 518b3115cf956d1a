#include "actors/engine/supervisor.hpp"

#include <algorithm>
#include <utility>

#include "actors/engine/run_failed.hpp"
#include "core/error_kind.hpp"

namespace pipetrain {

SupervisorActor::SupervisorActor(caf::actor_config& config, SupervisorSetup setup)
    : caf::event_based_actor(config),
      setup_(std::move(setup)),
      stages_{setup_.stages, {}},
      questions_(*this, stages_),
      watch_(stages_, setup_.placement, setup_.stall) {
  set_down_handler([this](const caf::down_msg& message) { actor_down(message); });
}

caf::behavior SupervisorActor::make_behavior() {
  return {
      [this](ConnectSupervisor& message) {
        stages_.actors = std::move(message.stages);
        feeders_ = std::move(message.feeders);
        for (auto& stage : stages_.actors) monitor(stage);
        for (auto& feeder : feeders_) monitor(feeder);
        if (watch_.stall().count() > 0) delayed_send(this, watch_.stall(), LookAgain{watch_.series()});
      },
      [this](StartStep& message) { start(message); },
      [this](NormDone& message) { norm_done(message); },
      [this](Signal& message) {
        const StageId to{message.stage.replica, message.to_stage, message.stage.part};
        if (!failure_) send(stages_.at(to), Signalled{message.custom});
      },
      [this](StepDone& message) { step_done(message); },
      [this](Logged& message) { logged(std::move(message)); },
      [this](Failed& message) { fail(std::move(message)); },
      [this](Stopped& message) { stopped(message); },
      [this](AskWaiting& message) {
        questions_.ask_waiting([answer = message.answer](WaitingReport& report) { answer(std::move(report.lines)); });
      },
      [this](Waiting& message) { questions_.answered(message); },
      [this](GraceOver&) {
        if (failure_ && !failure_->over) end_failure();
      },
      [this](FinishStep& message) { finish_step(message); },
      [this](LeaveStep&) { leave_step(); },
      [this](AskMemory& message) {
        if (failure_ && failure_->over) return message.answer->set_exception(what_failed());
        questions_.ask_memory(message);
      },
      [this](MemoryReport& message) { questions_.answered(message); },
      [this](AskState& message) {
        if (failure_ && failure_->over) return message.answer->set_exception(what_failed());
        questions_.ask_state(message);
      },
      [this](StateRead& message) { questions_.answered(message); },
      [this](AskSave& message) {
        if (failure_) return message.answer->set_exception(what_failed());
        questions_.ask_save(message);
      },
      [this](StateSaved& message) { questions_.answered(message); },
      [this](LookAgain& message) {
        if (!failure_ && message.watch == watch_.series()) look();
      },
  };
}

void SupervisorActor::on_exit() {
  stages_.actors.clear();
  feeders_.clear();
}

void SupervisorActor::start(StartStep& message) {
  step_.emplace();
  step_->start = std::move(message);
  if (failure_ && failure_->over) end_failure();
  if (failure_) return;
  if (leaving_) return leave_step();
  step_->results.resize(stages_.size());
  step_->outcome.stages.resize(stages_.size());
  step_->outcome.devices.resize(stages_.size());
  step_->outcome.logs.resize(stages_.size());
  step_->norms_missing = step_->stages_missing = static_cast<int>(stages_.size());
  const BeginStep begin{step_->start.step, step_->start.coming};
  to_stages(begin);
  for (auto& feeder : feeders_) send(feeder, begin);
}

void SupervisorActor::norm_done(NormDone& message) {
  if (failure_ || !step_) return;
  step_->results[stages_.index(message.stage)] = std::move(message.result);
  if (--step_->norms_missing > 0) return;
  step_->judged = true;
  try {
    to_stages(GiveVerdict{step_->start.decide(stages_.join_parts(std::move(step_->results)))});
  } catch (...) {
    fail({failure_of(std::current_exception())});
  }
}

// A stage whose step ended just before it is aborted has nothing more to log.
void SupervisorActor::step_done(StepDone& message) {
  if (failure_) return logged({message.trace.stage, std::move(message.log)});
  if (!step_) return;
  const auto at = stages_.index(message.trace.stage);
  step_->outcome.stages[at] = std::move(message.trace);
  step_->outcome.devices[at] = std::move(message.devices);
  step_->outcome.logs[at] = std::move(message.log);
  if (--step_->stages_missing > 0) return;
  const auto outcome = std::move(step_->start.outcome);
  StepOutcome result;
  for (std::size_t i = 0; i < stages_.size(); ++i)  // the parts of a stage run the same actions
    if (stages_.id(i).part == 0) result.stages.push_back(std::move(step_->outcome.stages[i]));
  result.devices = stages_.join_parts(std::move(step_->outcome.devices));
  result.logs = std::move(step_->outcome.logs);
  step_.reset();
  outcome->set_value(std::move(result));
}

// A stage may meet a broken connection before the loss of its process is reported: the loss then replaces the failure as cause.
void SupervisorActor::correct(Failed message) {
  Failure& first = failure_->first.cause;
  if (failure_->over || !message.cause.process_lost || !may_have_another_cause(first)) return;
  first = std::move(message.cause);
  const Abort abort{first};
  to_stages(abort);
  if (failure_->still_running == 0) end_failure();
}

void SupervisorActor::end_when_explained() {
  if (setup_.several_processes && may_have_another_cause(failure_->first.cause)) {
    delayed_send(this, time_to_notice_a_loss, GraceOver{});
  } else {
    end_failure();
  }
}

void SupervisorActor::fail(Failed message) {
  if (failure_) return correct(std::move(message));
  failure_.emplace();
  failure_->first = std::move(message);
  failure_->waiting.resize(stages_.size());
  // Stages whose step had ended have sent their logs already.
  failure_->logs = step_ ? step_->outcome.logs : std::vector<schedules::StageLog>{};
  failure_->logs.resize(stages_.size());
  failure_->still_running = static_cast<int>(stages_.size());
  const Abort abort{failure_->first.cause};
  to_stages(abort);
  for (auto& feeder : feeders_) send(feeder, abort);
  delayed_send(this, setup_.grace, GraceOver{});
}

void SupervisorActor::logged(Logged message) {
  if (!failure_) return;
  auto& log = failure_->logs[stages_.index(message.stage)];
  if (log.bytes.empty()) log = std::move(message.log);
}

void SupervisorActor::stopped(const Stopped& message) {
  if (!failure_) return;
  auto& line = failure_->waiting[stages_.index(message.stage)];
  if (line.empty()) --failure_->still_running;
  line = stages_.label(stages_.index(message.stage)) + ": " + message.line;
  if (failure_->still_running == 0 && !failure_->over) end_when_explained();
}

void SupervisorActor::actor_down(const caf::down_msg& message) {
  const auto find = [&](const std::vector<caf::actor>& actors) {
    return static_cast<std::size_t>(std::find(actors.begin(), actors.end(), message.source) - actors.begin());
  };
  const std::size_t at = find(stages_.actors);
  if (at == stages_.size()) {
    if (find(feeders_) < feeders_.size()) fail({{ErrorKind::peer_lost, "the feeder's actor stopped in the middle of the run"}});
    return;
  }
  fail({{ErrorKind::peer_lost, stages_.label(at) + ": its actor stopped in the middle of the run"}});
  stopped({stages_.id(at), "its actor is gone"});
  questions_.refuse_saving(what_failed());
}

void SupervisorActor::end_failure() {
  failure_->over = true;
  questions_.refuse(what_failed());
  // Snapshots taken before the failure are still written where all stages can report on them.
  if (setup_.several_processes || failure_->still_running > 0) questions_.refuse_saving(what_failed());
  if (!step_ || !step_->start.outcome) return;
  for (std::size_t at = 0; at < stages_.size(); ++at)
    if (failure_->waiting[at].empty()) failure_->waiting[at] = stages_.label(at) + ": still running, does not answer";
  auto outcome = std::move(step_->start.outcome);
  step_.reset();
  outcome->set_exception(what_failed());
}

std::exception_ptr SupervisorActor::what_failed() const {
  return std::make_exception_ptr(
      RunFailed(failure_->first.cause, failure_->waiting, failure_->still_running == 0, failure_->logs));
}

void SupervisorActor::finish_step(const FinishStep& message) {
  if (failure_) return;
  watch_.finish(message.patience);
  last_look_ = -1;
  look();
}

// Without a verdict no stage runs its optimizer, so all state stays as the step before left it.
void SupervisorActor::leave_step() {
  leaving_ = true;
  if (failure_ || !step_ || step_->judged) return;
  const auto outcome = std::move(step_->start.outcome);
  step_.reset();
  outcome->set_exception(std::make_exception_ptr(StepLeft()));
}

void SupervisorActor::look() {
  if (const WaitingReport* const report = step_ ? questions_.unanswered(last_look_) : nullptr)
    return fail({watch_.silence(*report)});
  last_look_ = questions_.ask_waiting([this, series = watch_.series()](const WaitingReport& report) {
    if (series != watch_.series()) return;
    if (auto failure = watch_.judge(report, step_.has_value())) fail({std::move(*failure)});
  });
  delayed_send(this, watch_.stall(), LookAgain{watch_.series()});
}

}  // namespace pipetrain
