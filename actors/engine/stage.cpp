#include "actors/engine/stage.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain {
namespace {

using schedules::Action;
using schedules::ActionKind;

class MailboxEvents : public StageEvents {
 public:
  explicit MailboxEvents(caf::event_based_actor* stage) : stage_(stage), mailbox_(caf::actor_cast<caf::actor>(stage)) {}

  void enqueued(const Action& action) override { caf::anon_send(mailbox_, Enqueued{action}); }
  void completed(const Action& action, const ActionTimes& times, StageResult result) override {
    caf::anon_send(mailbox_, Completed{action, times, std::move(result)});
  }
  void ran(const Action& action, const ActionTimes& times, StageResult result) override {
    ActorRunner(stage_->home_system()).send(mailbox_, Ran{{action, times, std::move(result)}});
  }
  void complete_at(const Action& action, const ActionTimes& times) override {
    stage_->delayed_send(stage_, std::max(times.end - now(), std::chrono::steady_clock::duration::zero()),
                         Completed{action, times, {}});
  }
  void failed(std::exception_ptr cause) override { caf::anon_send(mailbox_, Failed{failure_of(cause)}); }
  void state_read(std::int64_t number) override { caf::anon_send(mailbox_, StateRead{number}); }
  void state_saved(std::int64_t number, std::string report, std::exception_ptr failure) override {
    StateSaved saved{number, {}, std::move(report), {}};
    if (failure) saved.failure = failure_of(failure);
    caf::anon_send(mailbox_, std::move(saved));
  }
  std::chrono::steady_clock::time_point now() const override { return stage_->clock().now(); }

 private:
  caf::event_based_actor* stage_;
  caf::actor mailbox_;
};

}  // namespace

const std::vector<Action>* StageSetup::replayed_list(const StepInfo& step) const {
  if (!replayed || step.kind == schedules::StepKind::evaluation) return nullptr;
  const auto* list = replayed->list(step.step, id.replica, id.stage);
  if (!list)
    throw Error(ErrorKind::input, {"order", "replay"},
                "step " + std::to_string(step.step) + " was not recorded; run fewer steps");
  return list;
}

StageActor::StageActor(caf::actor_config& config, StageSetup setup)
    : caf::event_based_actor(config),
      setup_(std::move(setup)),
      protocol_(setup_.plan, setup_.id.stage, setup_.order, setup_.run_ahead),
      slots_(*this, setup_, protocol_) {
  if (setup_.record) record_.log.emplace(setup_.plan->placement.chunks(), setup_.plan->microbatches);
  setup_.compute->attach(std::make_shared<MailboxEvents>(this));
}

// CAF tries the handlers in this order, so those that every action needs come first.
caf::behavior StageActor::make_behavior() {
  return {
      [this](Arrived& message) {
        guarded([&] {
          log([&](auto& writer, auto now) { writer.input(message.kind, message.chunk, message.microbatch, now); });
          slots_.take_input(std::move(message));
          pump();
        });
      },
      [this](Credit& message) { guarded([&] { credit(message); }); },
      [this](Ran& message) {
        guarded([&] {
          enqueued(message.completed.action);
          completed(message.completed);
        });
      },
      [this](Enqueued& message) { guarded([&] { enqueued(message.action); }); },
      [this](Completed& message) { guarded([&] { completed(message); }); },
      [this](BeginStep& message) { guarded([&] { begin(message); }); },
      [this](GiveVerdict& message) { guarded([&] { verdict(message.verdict); }); },
      [this](Signalled& message) { guarded([&] { signalled(message.custom); }); },
      [this](Failed& message) { fail(std::move(message.cause)); },
      [this](Abort& message) { abort(message.cause); },
      [this](ReportWaiting& message) {
        send(setup_.supervisor, Waiting{message.report, setup_.id, protocol_.waiting_for(), completed_, protocol_.running()});
      },
      [this](ReportMemory& message) {
        send(setup_.supervisor, MemoryReport{message.report, setup_.id, setup_.compute->memory()});
      },
      [this](ReadState& message) { guarded([&] { setup_.compute->read_state(message.number, message.part, message.out); }); },
      [this](StateRead& message) { send(setup_.supervisor, message); },
      [this](SaveState& message) { guarded([&] { setup_.compute->save_state(message.number, message.where); }); },
      [this](StateSaved& message) {
        message.stage = setup_.id;
        send(setup_.supervisor, std::move(message));
      },
  };
}

void StageActor::on_exit() {
  // Messages from this stage no longer arrive: its compute must not keep others waiting.
  if (in_step_ && !aborted_)
    setup_.compute->abort(std::make_exception_ptr(Error(ErrorKind::peer_lost, "the stage's actor stopped")));
  setup_.supervisor = nullptr;
  setup_.chunks.clear();
  setup_.compute.reset();
  slots_.clear();
  launched_.clear();
}

caf::resumable::resume_result StageActor::resume(caf::execution_unit* unit, std::size_t most_messages) {
  ForwardingUnit forwarding(*unit);
  return caf::event_based_actor::resume(&forwarding, most_messages);
}

template <class Work>
void StageActor::guarded(Work work) {
  try {
    work();
  } catch (...) {
    fail(failure_of(std::current_exception()));
  }
}

void StageActor::begin(const BeginStep& message) {
  if (aborted_) return;
  const StepInfo& step = message.step;
  log([&](auto& writer, auto now) { writer.begin(step.kind, now); });
  in_step_ = true;
  if (begun_early_ && (step.kind != schedules::StepKind::training || step.step != coming_->step))
    throw Error(ErrorKind::internal, "step " + std::to_string(step.step) + " begins, but another one was announced");
  coming_ = message.coming;
  begun_early_ = false;
  record_.begin_step();
  slots_.begin_step(step);
  setup_.compute->begin_step(step);
  protocol_.begin_step(step.kind, setup_.replayed_list(step),
                       !coming_                       ? schedules::NextStep::unknown
                       : setup_.begins_before_verdict ? schedules::NextStep::at_once
                                                      : schedules::NextStep::after_verdict);
  pump();
}

void StageActor::credit(Credit& message) {
  log([&](auto& writer, auto now) { writer.credit(message.kind, message.chunk, now); });
  slots_.add_credit(message);
  if (aborted_) return;
  protocol_.credit_returned(message.kind, message.chunk);
  pump();
}

void StageActor::signalled(int custom) {
  if (aborted_) return;
  log([&](auto& writer, auto now) { writer.signalled(custom, now); });
  protocol_.signalled(custom);
  pump();
}

void StageActor::pump() {
  if (aborted_) return;
  while (auto action = protocol_.next()) launch_action(*action);
  if (in_step_ && protocol_.step_done()) {
    in_step_ = false;
    StageTrace trace{setup_.id, std::exchange(record_.running, {})};
    auto devices = setup_.compute->add_times(trace);
    auto logged = record_.take_log(trace.actions);
    send(setup_.supervisor, StepDone{std::move(trace), std::move(devices), std::move(logged)});
  }
}

void StageActor::launch_action(const Action& action) {
  if (record_.log) record_.log->launched(action);
  Launch launch;
  launch.action = action;
  launch.early = coming_ && protocol_.is_early();
  launch.begins_braid = protocol_.begins_braid();
  if (launch.early || action.kind == ActionKind::preview) begin_early();
  if (schedules::is_compute(action.kind)) {
    slots_.add_to(launch);
  } else if (schedules::is_custom(action.kind)) {
    launch.custom = &custom(action.microbatch);
  }
  ++running_;
  setup_.compute->launch(launched_.emplace_back(Launched{std::move(launch)}).launch);
}

void StageActor::enqueued(const Action& action) {
  if (!aborted_) log([&](auto& writer, auto now) { writer.enqueued(action, now); });
  if (!sends_when_enqueued()) return;
  end_launch(action, "enqueued");
  pump();
}

void StageActor::end_launch(const Action& action, const char* what) {
  const auto found =
      std::find_if(launched_.begin(), launched_.end(), [&](const Launched& one) { return one.launch.action == action; });
  if (found == launched_.end())
    throw Error(ErrorKind::internal, std::string(what) + " " + to_string(action) + " was not launched");
  Launched ended = std::move(*found);
  launched_.erase(found);
  if (aborted_) return;
  if (ended.taken_back) return slots_.give_back(ended.launch);
  if (ended.launch.early && protocol_.waits_for_verdict()) return slots_.enqueued_early(ended.launch);
  slots_.pass_on(ended.launch);
}

void StageActor::completed(Completed& message) {
  --running_;
  ++completed_;
  if (aborted_) return report_if_stopped();
  log([&](auto& writer, auto now) { writer.completed(message.action, now); });
  if (!sends_when_enqueued()) end_launch(message.action, "completed");
  const schedules::StepOf step = protocol_.step_of(message.action);
  if (step == schedules::StepOf::taken_back) {
    slots_.end_stale(message.action);
  } else {
    (step == schedules::StepOf::coming ? record_.coming : record_.running).push_back({message.action, message.times});
  }
  if (message.action.kind == ActionKind::norm) send(setup_.supervisor, NormDone{setup_.id, std::move(message.result)});
  for (const int waiting : protocol_.completed(message.action))
    send(setup_.supervisor, Signal{setup_.id, waiting, custom(waiting).stage});
  pump();
}

void StageActor::begin_early() {
  if (std::exchange(begun_early_, true)) return;
  setup_.compute->begin_early(*coming_);
}

void StageActor::verdict(const Verdict& verdict) {
  if (aborted_) return;
  log([&](auto& writer, auto now) { writer.verdict(verdict.apply, now); });
  setup_.compute->verdict(verdict);
  if (protocol_.verdict(verdict.apply, verdict.confirms)) {
    record_.coming.clear();
    for (Launched& one : launched_) one.taken_back = one.launch.early;
    slots_.take_back();
  } else {
    slots_.confirm();
  }
  pump();
}

void StageActor::fail(Failure cause) {
  if (aborted_) return;
  cause.where = "stage " + std::to_string(setup_.id.stage);
  send(setup_.supervisor, Failed{std::move(cause)});
}

void StageActor::abort(const Failure& cause) {
  if (aborted_) return;
  waiting_at_abort_ = protocol_.waiting_for();
  log([](auto& writer, auto now) { writer.abort(now); });
  if (record_.log) send(setup_.supervisor, Logged{setup_.id, record_.take_log(record_.running)});
  aborted_ = true;
  slots_.abort();
  protocol_.abort();
  setup_.compute->abort(exception_of(cause));
  report_if_stopped();
}

void StageActor::report_if_stopped() {
  if (running_ > 0 || stop_reported_) return;
  stop_reported_ = true;
  send(setup_.supervisor, Stopped{setup_.id, waiting_at_abort_});
}

}  // namespace pipetrain
