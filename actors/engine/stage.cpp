#include "actors/engine/stage.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain {
namespace {

using schedules::Action;
using schedules::ActionKind;
using schedules::InputKind;

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

SlotHandle& at(std::vector<SlotHandle>& slots, int microbatch) {
  const auto index = static_cast<std::size_t>(microbatch);
  if (slots.size() <= index) slots.resize(index + 1);
  return slots[index];
}

}  // namespace

StageActor::StageActor(caf::actor_config& config, StageSetup setup)
    : caf::event_based_actor(config),
      setup_(std::move(setup)),
      protocol_(setup_.plan, setup_.id.stage, setup_.order, setup_.run_ahead),
      chunks_(setup_.chunks.size()) {
  if (setup_.record) log_.emplace(setup_.plan->placement.chunks(), setup_.plan->microbatches);
  setup_.compute->attach(std::make_shared<MailboxEvents>(this));
}

// CAF tries the handlers in this order, so those that every action needs come first.
caf::behavior StageActor::make_behavior() {
  return {
      [this](Arrived& message) {
        guarded([&] {
          log([&](auto& writer, auto now) { writer.input(message.kind, message.chunk, message.microbatch, now); });
          take_input(std::move(message));
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
  if (in_step_ && !aborted_) {
    setup_.compute->abort(std::make_exception_ptr(Error(ErrorKind::peer_lost, "the stage's actor stopped")));
  }
  setup_.supervisor = nullptr;
  setup_.chunks.clear();
  setup_.compute.reset();
  chunks_.clear();
  launched_.clear();
  unsent_.clear();
  stale_.clear();
  fresh_.clear();
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
  // In an evaluation nothing reads a forward's inputs after it.
  slot_life_ = step.kind == schedules::StepKind::evaluation ? schedules::SlotLife{ActionKind::forward} : setup_.slot_life;
  if (begun_early_ && (step.kind != schedules::StepKind::training || step.step != coming_->step))
    throw Error(ErrorKind::internal, "step " + std::to_string(step.step) + " begins, but another one was announced");
  step_ = step.kind == schedules::StepKind::training ? step.step : 0;
  judged_ = false;
  coming_ = message.coming;
  begun_early_ = false;
  trace_ = std::exchange(early_trace_, {});
  for (ChunkSlots& slots : chunks_) {
    for (const auto kind : {InputKind::activation, InputKind::gradient, InputKind::target}) {
      auto& came = slots.coming.of(kind);
      for (std::size_t microbatch = 0; microbatch < came.size(); ++microbatch)
        if (came[microbatch])
          at(slots.running.of(kind), static_cast<int>(microbatch)) = std::exchange(came[microbatch], nullptr);
    }
  }
  setup_.compute->begin_step(step);
  protocol_.begin_step(step.kind, replayed_list(step),
                       !coming_                       ? schedules::NextStep::unknown
                       : setup_.begins_before_verdict ? schedules::NextStep::at_once
                                                      : schedules::NextStep::after_verdict);
  pump();
}

const std::vector<Action>* StageActor::replayed_list(const StepInfo& step) const {
  if (!setup_.replayed || step.kind == schedules::StepKind::evaluation) return nullptr;
  const auto* list = setup_.replayed->list(step.step, setup_.id.replica, setup_.id.stage);
  if (!list)
    throw Error(ErrorKind::input, {"order", "replay"},
                "step " + std::to_string(step.step) + " was not recorded; run fewer steps");
  return list;
}

void StageActor::take_input(Arrived message) {
  if (message.depends_on != 0 && message.depends_on == refused_)
    return send(setup_.chunks[static_cast<std::size_t>(message.chunk)].activations, Released{std::move(message.slot)});
  auto& slots = chunks_[static_cast<std::size_t>(message.chunk)];
  const bool provisional = message.depends_on != 0 && message.depends_on == step_ && !judged_;
  if (message.kind == InputKind::activation && slots.coming.is_provisional(message.microbatch))
    return fresh_.push_back(std::move(message));
  const bool comes =
      !aborted_ && protocol_.input_arrived(message.kind, message.chunk, message.microbatch) == schedules::StepOf::coming;
  at((comes ? slots.coming : slots.running).of(message.kind), message.microbatch) = std::move(message.slot);
  if (!provisional) return;
  slots.coming.provisional.resize(static_cast<std::size_t>(setup_.plan->microbatches));
  slots.coming.provisional[static_cast<std::size_t>(message.microbatch)] = true;
}

void StageActor::credit(Credit& message) {
  log([&](auto& writer, auto now) { writer.credit(message.kind, message.chunk, now); });
  auto& slots = chunks_[static_cast<std::size_t>(message.chunk)];
  auto& credits = message.kind == InputKind::activation ? slots.activation_credits : slots.gradient_credits;
  credits.push_back(std::move(message.slot));
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
    StageTrace trace{setup_.id, std::exchange(trace_, {})};
    auto devices = setup_.compute->add_times(trace);
    auto logged = take_log(trace.actions);
    send(setup_.supervisor, StepDone{std::move(trace), std::move(devices), std::move(logged)});
  }
}

void StageActor::launch_action(const Action& action) {
  if (log_) log_->launched(action);
  Launch launch;
  launch.action = action;
  launch.early = coming_ && protocol_.is_early();
  launch.begins_braid = protocol_.begins_braid();
  if (launch.early || action.kind == ActionKind::preview) begin_early();
  if (schedules::is_compute(action.kind)) {
    add_inputs(launch);
    add_output(launch);
  } else if (schedules::is_custom(action.kind)) {
    launch.custom = &custom(action.microbatch);
  }
  ++running_;
  setup_.compute->launch(launched_.emplace_back(Launched{std::move(launch)}).launch);
}

void StageActor::add_inputs(Launch& launch) {
  auto& chunk = chunks_[static_cast<std::size_t>(launch.action.chunk)];
  InputSlots& slots = launch.early ? chunk.coming : chunk.running;
  const auto take = [&](std::vector<SlotHandle>& held, ActionKind last_reader) {
    SlotHandle& slot = at(held, launch.action.microbatch);
    if (!slot || !ends_life(last_reader, launch.action.kind)) return slot;
    launch.release.push_back(slot);
    return std::exchange(slot, nullptr);
  };
  launch.activation = take(slots.activations, slot_life_.activation);
  launch.target = take(slots.targets, slot_life_.activation);
  if (launch.action.kind != ActionKind::forward) launch.gradient = take(slots.gradients, slot_life_.gradient);
}

void StageActor::add_output(Launch& launch) {
  const auto chunk = static_cast<std::size_t>(launch.action.chunk);
  const auto take = [](std::deque<SlotHandle>& credits) {
    SlotHandle slot = std::move(credits.front());
    credits.pop_front();
    return slot;
  };
  const bool forward = launch.action.kind == ActionKind::forward;
  if (forward && setup_.chunks[chunk].next_activations) launch.output = take(chunks_[chunk].activation_credits);
  const bool sends_gradient = launch.action.kind == ActionKind::backward || launch.action.kind == ActionKind::input_grad;
  if (sends_gradient && setup_.chunks[chunk].previous_gradients) launch.output = take(chunks_[chunk].gradient_credits);
}

void StageActor::send_output(Launch& launch, std::int64_t depends_on) {
  const auto& queues = setup_.chunks[static_cast<std::size_t>(launch.action.chunk)];
  const bool forward = launch.action.kind == ActionKind::forward;
  const int own_chunk = forward ? queues.own_next_chunk : queues.own_previous_chunk;
  if (own_chunk >= 0) {
    take_input({forward ? InputKind::activation : InputKind::gradient, own_chunk, launch.action.microbatch,
                std::move(launch.output), depends_on});
  } else {
    send(forward ? queues.next_activations : queues.previous_gradients,
         Filled{launch.action.microbatch, std::move(launch.output), depends_on});
  }
}

void StageActor::pass_on(Launch& launch) {
  if (launch.output) send_output(launch);
  const auto& queues = setup_.chunks[static_cast<std::size_t>(launch.action.chunk)];
  for (auto& slot : launch.release) {
    const auto& owner = slot == launch.activation ? queues.activations
                        : slot == launch.gradient ? queues.gradients
                                                  : queues.targets;
    send(owner, Released{slot});
  }
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
  if (!aborted_) {
    if (found->taken_back) {
      give_back(found->launch);
    } else if (found->launch.early && protocol_.waits_for_verdict()) {
      end_early_launch(found->launch);
    } else {
      pass_on(found->launch);
    }
  }
  launched_.erase(found);
}

void StageActor::completed(Completed& message) {
  --running_;
  ++completed_;
  if (aborted_) return report_if_stopped();
  log([&](auto& writer, auto now) { writer.completed(message.action, now); });
  if (!sends_when_enqueued()) end_launch(message.action, "completed");
  const schedules::StepOf step = protocol_.step_of(message.action);
  if (step == schedules::StepOf::taken_back) {
    end_stale(message.action);
  } else {
    (step == schedules::StepOf::coming ? early_trace_ : trace_).push_back({message.action, message.times});
  }
  if (message.action.kind == ActionKind::norm) send(setup_.supervisor, NormDone{setup_.id, std::move(message.result)});
  for (const int waiting : protocol_.completed(message.action))
    send(setup_.supervisor, Signal{setup_.id, waiting, custom(waiting).stage});
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
  if (log_) send(setup_.supervisor, Logged{setup_.id, take_log(trace_)});
  aborted_ = true;
  protocol_.abort();
  setup_.compute->abort(exception_of(cause));
  report_if_stopped();
}

schedules::StageLog StageActor::take_log(const std::vector<TracedAction>& actions) {
  if (!log_) return {};
  const auto ns = [](std::chrono::steady_clock::time_point time) {
    return static_cast<std::int64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
  };
  std::vector<schedules::LoggedAction> logged;
  logged.reserve(actions.size());
  for (const TracedAction& one : actions) logged.push_back({one.action, ns(one.times.start), ns(one.times.end)});
  return log_->take(logged);
}

void StageActor::report_if_stopped() {
  if (running_ > 0 || stop_reported_) return;
  stop_reported_ = true;
  send(setup_.supervisor, Stopped{setup_.id, waiting_at_abort_});
}

}  // namespace pipetrain
