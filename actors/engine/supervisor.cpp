#include "actors/engine/supervisor.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {

namespace {

std::string seconds_text(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

SupervisorActor::SupervisorActor(caf::actor_config& config, SupervisorSetup setup)
    : caf::event_based_actor(config), setup_(std::move(setup)) {
  set_down_handler([this](const caf::down_msg& message) { actor_down(message); });
}

caf::behavior SupervisorActor::make_behavior() {
  return {
      [this](ConnectSupervisor& message) {
        stages_ = std::move(message.stages);
        feeders_ = std::move(message.feeders);
        for (auto& stage : stages_) monitor(stage);
        for (auto& feeder : feeders_) monitor(feeder);
        if (setup_.stall.count() > 0) delayed_send(this, setup_.stall, LookAgain{watch_});
      },
      [this](StartStep& message) { start(message); },
      [this](NormDone& message) { norm_done(message); },
      [this](Signal& message) {
        const StageId to{message.stage.replica, message.to_stage, message.stage.part};
        if (!failure_) send(stages_[index(to)], Signalled{message.custom});
      },
      [this](StepDone& message) { step_done(message); },
      [this](Logged& message) { logged(message); },
      [this](Failed& message) { fail(std::move(message)); },
      [this](Stopped& message) { stopped(message); },
      [this](AskWaiting& message) { ask_stages(message.answer); },
      [this](Waiting& message) { waiting(message); },
      [this](GraceOver&) {
        if (failure_ && !failure_->over) end_failure();
      },
      [this](FinishStep& message) { finish_step(message); },
      [this](LeaveStep&) { leave_step(); },
      [this](AskMemory& message) { ask_memory(message); },
      [this](MemoryReport& message) { memory_reported(message); },
      [this](AskState& message) { ask_state(message); },
      [this](StateRead& message) { state_read(message); },
      [this](AskSave& message) { ask_save(message); },
      [this](StateSaved& message) { state_saved(message); },
      [this](LookAgain& message) {
        if (!failure_ && message.watch == watch_) look();
      },
  };
}

void SupervisorActor::on_exit() {
  stages_.clear();
  feeders_.clear();
}

StageId SupervisorActor::stage_at(std::size_t index) const { return stage_id(setup_.stages.at(static_cast<int>(index))); }

std::string SupervisorActor::label(std::size_t index) const {
  const StageId id = stage_at(index);
  const bool replicated = setup_.stages.shape().dp > 1, parted = setup_.stages.shape().part > 1;
  return "stage " + std::to_string(id.stage) + (parted ? ", part " + std::to_string(id.part) : "") +
         (replicated ? " of replica " + std::to_string(id.replica) : "");
}

template <class Element>
std::vector<std::vector<Element>> SupervisorActor::join_parts(std::vector<std::vector<Element>> parts) const {
  const auto each = static_cast<std::size_t>(setup_.stages.shape().part);
  if (each == 1) return parts;
  std::vector<std::vector<Element>> stages(parts.size() / each);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto& stage = stages[i / each];
    stage.insert(stage.end(), std::make_move_iterator(parts[i].begin()), std::make_move_iterator(parts[i].end()));
  }
  return stages;
}

void SupervisorActor::start(StartStep& message) {
  step_.emplace();
  step_->start = std::move(message);
  if (failure_) {
    if (failure_->over) end_failure();
    return;
  }
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
  step_->results[index(message.stage)] = std::move(message.result);
  if (--step_->norms_missing > 0) return;
  step_->judged = true;
  try {
    to_stages(GiveVerdict{step_->start.decide(join_parts(std::move(step_->results)))});
  } catch (...) {
    fail({failure_of(std::current_exception())});
  }
}

void SupervisorActor::step_done(StepDone& message) {
  if (failure_ || !step_) return;
  const auto at = index(message.trace.stage);
  step_->outcome.stages[at] = std::move(message.trace);
  step_->outcome.devices[at] = std::move(message.devices);
  step_->outcome.logs[at] = std::move(message.log);
  if (--step_->stages_missing > 0) return;
  const auto outcome = std::move(step_->start.outcome);
  StepOutcome result;
  for (std::size_t i = 0; i < stages_.size(); ++i) {  // the parts of a stage run the same actions
    if (stage_at(i).part == 0) result.stages.push_back(std::move(step_->outcome.stages[i]));
  }
  result.devices = join_parts(std::move(step_->outcome.devices));
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

void SupervisorActor::logged(Logged& message) {
  if (!failure_) return;
  auto& log = failure_->logs[index(message.stage)];
  if (log.bytes.empty()) log = std::move(message.log);
}

void SupervisorActor::stopped(const Stopped& message) {
  if (!failure_) return;
  auto& line = failure_->waiting[index(message.stage)];
  if (line.empty()) --failure_->still_running;
  line = label(index(message.stage)) + ": " + message.line;
  if (failure_->still_running == 0 && !failure_->over) end_when_explained();
}

void SupervisorActor::actor_down(const caf::down_msg& message) {
  const auto stage = std::find_if(stages_.begin(), stages_.end(), [&](const caf::actor& one) { return one == message.source; });
  if (stage == stages_.end()) {
    const auto feeder =
        std::find_if(feeders_.begin(), feeders_.end(), [&](const caf::actor& one) { return one == message.source; });
    if (feeder != feeders_.end()) {
      fail({{ErrorKind::peer_lost, "the feeder's actor stopped in the middle of the run"}});
    }
    return;
  }
  const auto at = static_cast<std::size_t>(stage - stages_.begin());
  fail({{ErrorKind::peer_lost, label(at) + ": its actor stopped in the middle of the run"}});
  stopped({stage_at(at), "its actor is gone"});
  refuse_saving();
}

void SupervisorActor::end_failure() {
  failure_->over = true;
  refuse_questions();
  // Snapshots taken before the failure are still written where all stages can report on them.
  if (setup_.several_processes || failure_->still_running > 0) refuse_saving();
  if (!step_ || !step_->start.outcome) return;
  for (std::size_t at = 0; at < stages_.size(); ++at) {
    if (failure_->waiting[at].empty()) failure_->waiting[at] = label(at) + ": still running, does not answer";
  }
  auto outcome = std::move(step_->start.outcome);
  step_.reset();
  outcome->set_exception(what_failed());
}

void SupervisorActor::ask_stages(std::function<void(std::vector<std::string>)> answer) {
  const std::int64_t number = reports_asked_++;
  reports_[number] = {
      std::move(answer), std::vector<std::string>(stages_.size()), {}, 0, static_cast<int>(stages_.size()), watch_};
  to_stages(ReportWaiting{number});
}

std::exception_ptr SupervisorActor::what_failed() const {
  return std::make_exception_ptr(
      RunFailed(failure_->first.cause, failure_->waiting, failure_->still_running == 0, failure_->logs));
}

void SupervisorActor::refuse_questions() {
  for (auto& [number, report] : memory_reports_) report.answer->set_exception(what_failed());
  for (auto& [number, answer] : states_asked_) answer->set_exception(what_failed());
  memory_reports_.clear();
  states_asked_.clear();
}

void SupervisorActor::ask_memory(AskMemory& message) {
  if (failure_ && failure_->over) return message.answer->set_exception(what_failed());
  const std::int64_t number = reports_asked_++;
  memory_reports_[number] = {std::move(message.answer), std::vector<std::vector<MemoryUse>>(stages_.size()),
                             static_cast<int>(stages_.size())};
  to_stages(ReportMemory{number});
}

void SupervisorActor::memory_reported(MemoryReport& message) {
  const auto found = memory_reports_.find(message.report);
  if (found == memory_reports_.end()) return;
  MemoryQuestion& question = found->second;
  question.stages[index(message.stage)] = std::move(message.ranks);
  if (--question.missing > 0) return;
  std::vector<MemoryUse> ranks;
  for (const auto& stage : question.stages) ranks.insert(ranks.end(), stage.begin(), stage.end());
  question.answer->set_value(std::move(ranks));
  memory_reports_.erase(found);
}

void SupervisorActor::ask_state(AskState& message) {
  if (failure_ && failure_->over) return message.answer->set_exception(what_failed());
  const std::int64_t number = reports_asked_++;
  states_asked_[number] = std::move(message.answer);
  send(stages_[index(message.stage)], ReadState{number, std::move(message.part), message.out});
}

void SupervisorActor::state_read(const StateRead& message) {
  const auto found = states_asked_.find(message.number);
  if (found == states_asked_.end()) return;
  found->second->set_value();
  states_asked_.erase(found);
}

void SupervisorActor::ask_save(AskSave& message) {
  if (failure_) return message.answer->set_exception(what_failed());
  const std::int64_t number = reports_asked_++;
  saving_[number] = {std::move(message.answer), std::vector<std::string>(stages_.size()), {}, static_cast<int>(stages_.size())};
  to_stages(SaveState{number, message.where});
}

// Waits for all stages, even after a failure: when the answer comes, no stage writes any more.
void SupervisorActor::state_saved(StateSaved& message) {
  const auto found = saving_.find(message.number);
  if (found == saving_.end()) return;
  Saving& saving = found->second;
  if (message.failure && !saving.failure) saving.failure = std::move(message.failure);
  saving.reports[index(message.stage)] = std::move(message.report);
  if (--saving.missing > 0) return;
  if (saving.failure) {
    saving.answer->set_exception(exception_of(*saving.failure));
  } else {
    saving.answer->set_value(std::move(saving.reports));
  }
  saving_.erase(found);
}

void SupervisorActor::refuse_saving() {
  for (auto& [number, saving] : saving_) saving.answer->set_exception(what_failed());
  saving_.clear();
}

// The new, shorter watch begins from the actions completed by now.
void SupervisorActor::finish_step(const FinishStep& message) {
  if (failure_) return;
  finishing_ = true;
  if (setup_.stall.count() == 0 || message.patience < setup_.stall) setup_.stall = message.patience;
  completed_seen_ = -1;
  ++watch_;
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

// If a stage has not answered the previous look, its compute does not return from a call.
void SupervisorActor::look() {
  for (const auto& [number, report] : reports_) {
    if (!step_ || report.answer || report.watch != watch_) continue;
    std::string silent;
    for (std::size_t at = 0; at < stages_.size(); ++at) {
      if (report.lines[at].empty()) silent += (silent.empty() ? "" : " and ") + label(at);
    }
    return fail({{ErrorKind::peer_lost, silent + " did not answer for " + seconds_text(setup_.stall) +
                                            ": its compute does not return from a call, or the stall timeout is too short"}});
  }
  ask_stages(nullptr);
  delayed_send(this, setup_.stall, LookAgain{watch_});
}

void SupervisorActor::waiting(Waiting& message) {
  const auto found = reports_.find(message.report);
  if (found == reports_.end()) return;
  WaitingReport& report = found->second;
  report.lines[index(message.stage)] = label(index(message.stage)) + ": " + message.line;
  report.completed += message.completed;
  report.running.push_back({message.stage.replica, message.stage.stage, std::move(message.running)});
  if (--report.missing > 0) return;
  if (report.answer) {
    report.answer(std::move(report.lines));
  } else if (report.watch == watch_) {
    judge_progress(report);
  }
  reports_.erase(found);
}

// Returns " of stage 2 or stage 3", in the order of stages, without the parts.
std::string SupervisorActor::hanging_workers(const WaitingReport& report) const {
  std::set<std::size_t> stages;
  for (const std::size_t at : schedules::hanging(setup_.placement, report.running))
    stages.insert(index({report.running[at].replica, report.running[at].stage}));
  std::string text;
  for (const std::size_t at : stages) text += (text.empty() ? " of " : " or ") + label(at);
  return text;
}

void SupervisorActor::judge_progress(const WaitingReport& report) {
  if (step_ && report.completed == completed_seen_) {
    const std::string what = "no action completed for " + seconds_text(setup_.stall);
    const std::string who = "a worker" + hanging_workers(report) + " hangs";
    fail({finishing_ ? Failure{ErrorKind::aborted, what + " after the run was asked to stop: " + who}
                     : Failure{ErrorKind::peer_lost, what + ": " + who + ", or the stall timeout is too short"}});
    return;
  }
  completed_seen_ = step_ ? report.completed : -1;
}

}  // namespace pipetrain
