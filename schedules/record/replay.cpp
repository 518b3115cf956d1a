#include "schedules/record/replay.hpp"

#include <algorithm>

namespace pipetrain::schedules {

namespace {

using Type = StageEvent::Type;

// Checks that queues can be made of the run.
RecordedRun checked(RecordedRun run) {
  const Placement& placement = run.plan.placement;
  if (std::ssize(run.needs) != placement.stages()) throw ReplayError("the record's slots are of another number of stages");
  for (const StageNeeds& stage : run.needs)
    if (std::ssize(stage.chunks) != placement.chunks()) throw ReplayError("the record's slots are of another number of chunks");
  return run;
}

}  // namespace

std::string to_string(const StageEvent& event, const ActionForm& form) {
  static constexpr const char* inputs[] = {"activation", "gradient", "target"};
  const std::string input = inputs[static_cast<std::size_t>(event.input)];
  const std::string chunk = form.chunks > 1 ? " for chunk " + std::to_string(event.action.chunk) : "";
  switch (event.type) {
    case Type::begin_training:
      return "the step begins";
    case Type::begin_evaluation:
      return "a step of an evaluation begins";
    case Type::verdict_apply:
      return "the verdict is to apply the step";
    case Type::verdict_skip:
      return "the verdict is to skip the step";
    case Type::abort:
      return "the step is aborted";
    case Type::input:
      return "the " + input + " of microbatch " + piece_text(event.action.microbatch, form.slices) + chunk + " arrives";
    case Type::credit:
      return "a slot for its " + input + chunk + " comes back";
    case Type::launched:
      return to_string(event.action, form) + " is launched";
    case Type::enqueued:
      return to_string(event.action, form) + " is enqueued";
    case Type::completed:
      return to_string(event.action, form) + " completes";
    case Type::signalled:
      return "a signal for " + to_string(event.action, form) + " comes";
  }
  return "?";
}

Replay::Replay(RecordedRun run)
    : run_(checked(std::move(run))),
      queues_(run_),
      to_advance_(static_cast<std::size_t>(run_.logs())),
      life_(run_.life),
      signals_(static_cast<std::size_t>(run_.replicas * run_.parts) * run_.plan.custom.size()) {
  const std::shared_ptr<const Plan> plan(std::shared_ptr<const Plan>(), &run_.plan);  // outlives the protocols
  stages_.reserve(static_cast<std::size_t>(run_.logs()));
  for (int log = 0; log < run_.logs(); ++log) {
    Stage& stage = stages_.emplace_back(StageProtocol(plan, run_.stage_of(log), run_.order, run_.run_ahead), run_);
    for (int chunk = 0; chunk < run_.plan.placement.chunks(); ++chunk) stage.chunks.push_back(make_chunk(log, chunk));
  }
}

Replay::Chunk Replay::make_chunk(int log, int index) {
  const Placement& placement = run_.plan.placement;
  const int stage = run_.stage_of(log), v = placement.virtual_stage(stage, index);
  const auto queue = [&](int consumer, InputKind kind) {
    return queues_.find(run_.replica_of(log) * run_.parts + log % run_.parts, consumer, kind);
  };
  Chunk chunk;
  chunk.is_first = v == 0;
  chunk.is_last = v + 1 == placement.virtual_stages();
  chunk.activations = queue(v, InputKind::activation);
  chunk.gradients = queue(v, InputKind::gradient);
  chunk.targets = queue(v, InputKind::target);
  if (!chunk.is_last) {
    chunk.next = queue(v + 1, InputKind::activation);
    chunk.next_log = sibling(log, v + 1);
    if (placement.at(v + 1).stage == stage) chunk.own_next = placement.at(v + 1).chunk;
  }
  if (!chunk.is_first) {
    chunk.previous = queue(v - 1, InputKind::gradient);
    chunk.previous_log = sibling(log, v - 1);
    if (placement.at(v - 1).stage == stage) chunk.own_previous = placement.at(v - 1).chunk;
  }
  return chunk;
}

int Replay::sibling(int log, int v) const {
  return (run_.replica_of(log) * run_.plan.placement.stages() + run_.plan.placement.at(v).stage) * run_.parts +
         log % run_.parts;
}

QueueState& Replay::there(int log, QueueState* queue) const {
  if (!queue) fail(log, "uses a queue that the run has no slots for");
  return *queue;
}

void Replay::load(const RecordedStep& step) {
  if (std::ssize(step.logs) != run_.logs())
    throw ReplayError("step " + std::to_string(step.step) + " has " + std::to_string(step.logs.size()) + " logs, not " +
                      std::to_string(run_.logs()));
  step_ = step.step;
  failed_ = step.failed;
  norms_ = 0;
  life_ = step.kind == StepKind::evaluation ? SlotLife{ActionKind::forward} : run_.life;
  for (int log = 0; log < run_.logs(); ++log) {
    const StageLog& bytes = step.logs[static_cast<std::size_t>(log)];
    Stage& stage = of(log);
    const auto base = std::chrono::duration_cast<std::chrono::nanoseconds>(bytes.base.time_since_epoch()).count();
    stage.reader.read(base, bytes.bytes, stage.log);
    stage.next = stage.log.events.data();
    stage.end = stage.next + stage.log.events.size();
    stage.silent = bytes.bytes.empty();
    if (stage.silent) ++norms_;  // it may have reached N
    actions_ += std::ssize(stage.log.actions);
    events_ += std::ssize(stage.log.events);
    to_advance_.insert(log);
  }
}

void Replay::play(std::int64_t until) {
  until_ = until;
  for (int log = to_advance_.take_last(); log >= 0; log = to_advance_.take_last()) advance(log);
  if (until == to_its_end) expect_end();
}

std::int64_t Replay::begins() const {
  std::int64_t message = to_its_end, action = to_its_end;
  for (const Stage& stage : stages_) {
    if (!stage.log.events.empty()) message = std::min(message, stage.log.events.front().time);
    for (const LoggedAction& one : stage.log.actions)
      if (one.end != 0) action = std::min(action, one.start);
  }
  return action == to_its_end ? message : action;
}

std::int64_t Replay::ends() const {
  std::int64_t last = 0;
  for (const Stage& stage : stages_) {
    if (!stage.log.events.empty()) last = std::max(last, stage.log.events.back().time);
    for (const LoggedAction& one : stage.log.actions) last = std::max(last, one.end);
  }
  return last;
}

// Replays the stage's messages as far as their causes have been replayed. Flattened, because calls would be a sixth of
// an event's tens of nanoseconds; code that only throws stays out of line, here and in the protocol.
[[gnu::flatten]] void Replay::advance(int log) {
  Stage& stage = of(log);
  try {
    while (stage.next != stage.end) {
      const StageEvent& event = *stage.next;
      if (event.type == Type::launched) fail(log, "it was launched when nothing had come");
      if (event.time > until_ || !take(log, event)) return;
      decide(log);
    }
  } catch (const std::logic_error& impossible) {  // the protocol's report of an impossible event
    fail(log, impossible.what());
  }
}

bool Replay::take(int log, const StageEvent& event) {
  StageProtocol& protocol = of(log).protocol;
  switch (event.type) {
    case Type::begin_training:
    case Type::begin_evaluation:
      protocol.begin_step(event.type == Type::begin_training ? StepKind::training : StepKind::evaluation);
      break;
    case Type::input:
      return take_input(log, event);
    case Type::credit:
      return take_credit(log, event);
    case Type::enqueued:
      if (run_.order == Order::planned) pass_on(log, event.action);
      break;
    case Type::completed:
      if (run_.order == Order::ready) pass_on(log, event.action);
      complete(log, event.action);
      break;
    case Type::signalled:
      return take_signal(log, event);
    case Type::verdict_apply:
    case Type::verdict_skip:
      if (norms_ < run_.logs()) return false;
      protocol.verdict(event.type == Type::verdict_apply);
      break;
    case Type::abort:     // the end of a failed step: the stage's wait stays visible
    case Type::launched:  // not a message
      break;
  }
  return true;
}

bool Replay::take_input(int log, const StageEvent& event) {
  const Chunk& at = chunk(log, event.action);
  const bool activation = event.input == InputKind::activation;
  QueueState& from = there(log, activation ? at.activations : event.input == InputKind::gradient ? at.gradients : at.targets);
  if (from.fed && from.free == 0) fail(log, "its feeder has no slot free for it");
  if (!from.arrive(event.action.microbatch) && !of(activation ? at.previous_log : at.next_log).silent) return false;
  of(log).protocol.input_arrived(event.input, event.action.chunk, event.action.microbatch);
  return true;
}

bool Replay::take_credit(int log, const StageEvent& event) {
  const Chunk& at = chunk(log, event.action);
  const bool activation = event.input == InputKind::activation;
  QueueState& to = there(log, activation ? at.next : at.previous);
  if (!to.credit() && !of(activation ? at.next_log : at.previous_log).silent) return false;
  of(log).protocol.credit_returned(event.input, event.action.chunk);
  return true;
}

int& Replay::signals(int log, int custom) {
  const int pipeline = run_.replica_of(log) * run_.parts + log % run_.parts;
  return signals_[static_cast<std::size_t>(pipeline) * run_.plan.custom.size() + static_cast<std::size_t>(custom)];
}

bool Replay::take_signal(int log, const StageEvent& event) {
  int& sent = signals(log, event.action.microbatch);
  const auto silent = [](const Stage& stage) { return stage.silent; };
  if (sent == 0 && !std::any_of(stages_.begin(), stages_.end(), silent)) return false;
  sent = std::max(0, sent - 1);
  of(log).protocol.signalled(event.action.microbatch);
  return true;
}

void Replay::complete(int log, const Action& action) {
  for (const int custom : of(log).protocol.completed(action)) {
    ++signals(log, custom);
    const int stage = run_.plan.custom[static_cast<std::size_t>(custom)].stage;
    to_advance_.insert((run_.replica_of(log) * run_.plan.placement.stages() + stage) * run_.parts + log % run_.parts);
  }
  if (action.kind == ActionKind::norm && ++norms_ == run_.logs())
    for (int other = 0; other < run_.logs(); ++other) to_advance_.insert(other);
}

// The protocol must launch what was launched, and no more.
void Replay::decide(int log) {
  Stage& stage = of(log);
  const bool may_launch = stage.next->type != Type::enqueued;  // the protocol gets no event for `enqueued`
  ++stage.next;
  if (!may_launch && !stage.launches_next()) return;
  for (;;) {
    const Action* const chosen = stage.protocol.next();
    if (!chosen && !stage.launches_next()) return;
    if (!chosen || !stage.launches_next() || *chosen != stage.next->action) disagree(log, chosen);
    launch(log, *chosen);
    ++stage.next;
  }
}

void Replay::disagree(int log, const Action* chosen) const {
  const Stage& stage = of(log);
  if (!chosen) fail(log, "in the replay it is not: " + stage.protocol.waiting_for());
  fail(log, "replayed, " + to_string(*chosen, run_.plan.form()) +
                (stage.launches_next() ? " is launched instead" : " is launched before it"));
}

void Replay::launch(int log, const Action& action) {
  const Chunk& at = chunk(log, action);
  if (action.kind == ActionKind::forward && !at.is_last) there(log, at.next).fill(action.microbatch);
  if (gives_input_grad(action.kind) && !at.is_first) there(log, at.previous).fill(action.microbatch);
}

// Sends an action's output once it may leave, and frees the inputs without a later reader, as the stage actor does.
void Replay::pass_on(int log, const Action& action) {
  if (!is_compute(action.kind)) return;
  const Chunk& at = chunk(log, action);
  if (action.kind == ActionKind::forward && !at.is_last) send(log, InputKind::activation, action);
  if (gives_input_grad(action.kind) && !at.is_first) send(log, InputKind::gradient, action);
  if (ends_life(life_.activation, action.kind)) {
    release(log, at.activations, at.previous_log, action);
    if (at.is_last) release(log, at.targets, -1, action);
  }
  if (ends_life(life_.gradient, action.kind) && action.kind != ActionKind::forward && !at.is_last)
    release(log, at.gradients, at.next_log, action);
}

void Replay::send(int log, InputKind kind, const Action& action) {
  const Chunk& at = chunk(log, action);
  const bool activation = kind == InputKind::activation;
  QueueState& to = there(log, activation ? at.next : at.previous);
  to.send(action.microbatch);
  const int own = activation ? at.own_next : at.own_previous;
  if (own < 0) {
    to_advance_.insert(activation ? at.next_log : at.previous_log);
  } else {  // a stage informs itself at once
    to.arrive(action.microbatch);
    of(log).protocol.input_arrived(kind, own, action.microbatch);
  }
}

void Replay::release(int log, QueueState* queue, int producer, const Action& action) {
  QueueState& from = there(log, queue);
  from.release(action.microbatch);
  if (!from.fed) to_advance_.insert(producer);
}

void Replay::expect_end() const {
  for (int log = 0; log < run_.logs(); ++log) {
    const Stage& stage = of(log);
    if (stage.next != stage.end) fail(log, "in the replay nobody has sent it");
    if (!failed_ && !stage.protocol.step_done())
      throw ReplayError("step " + std::to_string(step_) + ", stage " + std::to_string(run_.stage_of(log)) +
                        ": the record ends before the step: " + stage.protocol.waiting_for());
  }
}

std::vector<Action> Replay::launched(int log) const {
  std::vector<Action> actions;
  for (const StageEvent& event : of(log).log.events)
    if (event.type == Type::launched) actions.push_back(event.action);
  return actions;
}

std::vector<StageMoment> Replay::stages() const {
  std::vector<StageMoment> moments;
  for (int log = 0; log < run_.logs(); ++log)
    moments.push_back({run_.replica_of(log), run_.stage_of(log), log % run_.parts, of(log).protocol.running(),
                       of(log).protocol.waiting_for()});
  return moments;
}

void Replay::fail(int log, const std::string& what) const {
  const Stage& stage = of(log);
  const std::string place = "step " + std::to_string(step_) + ", " +
                            (run_.replicas > 1 ? "replica " + std::to_string(run_.replica_of(log)) + " " : "") + "stage " +
                            std::to_string(run_.stage_of(log));
  const std::string event = stage.next != stage.end ? to_string(*stage.next, run_.plan.form()) : "its end";
  throw ReplayError(place + ", event " + std::to_string(stage.next - stage.log.events.data() + 1) + " (" + event +
                    "): " + what);
}

}  // namespace pipetrain::schedules
