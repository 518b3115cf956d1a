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

// Returns the ends of the queues of a chunk of the log's stage.
ReplayedChunk chunk_of(const RecordedRun& run, ReplayQueues& queues, int log, int index) {
  const Placement& placement = run.plan.placement;
  const int stage = run.stage_of(log), replica = run.replica_of(log), part = log % run.parts;
  const int v = placement.virtual_stage(stage, index);
  const auto queue = [&](int consumer, InputKind kind) { return queues.find(replica * run.parts + part, consumer, kind); };
  // The stage with this virtual stage in the same replica and part.
  const auto log_of = [&](int other) { return (replica * placement.stages() + placement.at(other).stage) * run.parts + part; };
  const auto own_chunk = [&](int other) { return placement.at(other).stage == stage ? placement.at(other).chunk : -1; };
  ReplayedChunk chunk;
  chunk.is_first = v == 0;
  chunk.is_last = v + 1 == placement.virtual_stages();
  auto& [activations, gradients, targets] = chunk.from;
  QueueEnd &next = chunk.to[static_cast<std::size_t>(InputKind::activation)],
           &previous = chunk.to[static_cast<std::size_t>(InputKind::gradient)];
  activations.queue = queue(v, InputKind::activation);
  gradients.queue = queue(v, InputKind::gradient);
  targets.queue = queue(v, InputKind::target);
  if (!chunk.is_last) {
    next = {queue(v + 1, InputKind::activation), log_of(v + 1), own_chunk(v + 1)};
    gradients.log = next.log;
  }
  if (!chunk.is_first) {
    previous = {queue(v - 1, InputKind::gradient), log_of(v - 1), own_chunk(v - 1)};
    activations.log = previous.log;
  }
  return chunk;
}

}  // namespace

Replay::Replay(RecordedRun run)
    : run_(checked(std::move(run))), queues_(run_), to_advance_(static_cast<std::size_t>(run_.logs())), life_(run_.life) {
  const std::shared_ptr<const Plan> plan(std::shared_ptr<const Plan>(), &run_.plan);  // outlives the protocols
  stages_.reserve(static_cast<std::size_t>(run_.logs()));
  for (int log = 0; log < run_.logs(); ++log) {
    Stage& stage = stages_.emplace_back(StageProtocol(plan, run_.stage_of(log), run_.order, run_.run_ahead), run_);
    for (int chunk = 0; chunk < run_.plan.placement.chunks(); ++chunk)
      stage.chunks.push_back(chunk_of(run_, queues_, log, chunk));
  }
}

QueueState& Replay::queue(int log, const QueueEnd& end) const {
  if (!end.queue) fail(log, "uses a queue that the run has no slots for");
  return *end.queue;
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
    Stage& stage = of(log);
    stage.load(step.logs[static_cast<std::size_t>(log)]);
    if (stage.is_silent()) ++norms_;  // it may have reached N
    actions_ += std::ssize(stage.log().actions);
    events_ += std::ssize(stage.log().events);
    to_advance_.insert(log);
  }
}

void Replay::play(std::int64_t until) {
  until_ = until;
  for (int log = to_advance_.take_last(); log >= 0; log = to_advance_.take_last()) advance(log);
  if (until == to_its_end) expect_end();
}

// Replays the stage's messages as far as their causes have been replayed. Flattened, because calls would be a sixth of
// an event's tens of nanoseconds; code that only throws stays out of line, here and in the protocol.
[[gnu::flatten]] void Replay::advance(int log) {
  Stage& stage = of(log);
  try {
    while (!stage.is_at_end()) {
      const StageEvent& event = stage.next();
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
  const QueueEnd& end = of(log).from(event.input, event.action);
  QueueState& source = queue(log, end);
  if (source.fed && source.free == 0) fail(log, "its feeder has no slot free for it");
  if (!source.arrive(event.action.microbatch) && !of(end.log).is_silent()) return false;
  of(log).protocol.input_arrived(event.input, event.action.chunk, event.action.microbatch);
  return true;
}

bool Replay::take_credit(int log, const StageEvent& event) {
  const QueueEnd& end = of(log).to(event.input, event.action);
  if (!queue(log, end).credit() && !of(end.log).is_silent()) return false;
  of(log).protocol.credit_returned(event.input, event.action.chunk);
  return true;
}

bool Replay::take_signal(int log, const StageEvent& event) {
  int& sent = signals(log, event.action.microbatch);
  const auto silent = [](const Stage& stage) { return stage.is_silent(); };
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
  const bool may_launch = stage.next().type != Type::enqueued;  // the protocol gets no event for `enqueued`
  stage.advance();
  if (!may_launch && !stage.launches_next()) return;
  for (;;) {
    const Action* const chosen = stage.protocol.next();
    if (!chosen && !stage.launches_next()) return;
    if (!chosen || !stage.launches_next() || *chosen != stage.next().action) disagree(log, chosen);
    launch(log, *chosen);
    stage.advance();
  }
}

void Replay::disagree(int log, const Action* chosen) const {
  const Stage& stage = of(log);
  if (!chosen) fail(log, "in the replay it is not: " + stage.protocol.waiting_for());
  fail(log, "replayed, " + to_string(*chosen, run_.plan.form()) +
                (stage.launches_next() ? " is launched instead" : " is launched before it"));
}

void Replay::launch(int log, const Action& action) {
  const Stage& stage = of(log);
  if (const auto output = stage.chunk(action).output_of(action)) queue(log, stage.to(*output, action)).fill(action.microbatch);
}

// Sends an action's output once it may leave, and frees the inputs without a later reader, as the stage actor does.
void Replay::pass_on(int log, const Action& action) {
  if (!is_compute(action.kind)) return;
  const ReplayedChunk& at = of(log).chunk(action);
  if (const auto output = at.output_of(action)) send(log, *output, action);
  if (ends_life(life_.activation, action.kind)) {
    release(log, InputKind::activation, action);
    if (at.is_last) release(log, InputKind::target, action);
  }
  if (ends_life(life_.gradient, action.kind) && action.kind != ActionKind::forward && !at.is_last)
    release(log, InputKind::gradient, action);
}

void Replay::send(int log, InputKind kind, const Action& action) {
  const QueueEnd& end = of(log).to(kind, action);
  QueueState& target = queue(log, end);
  target.send(action.microbatch);
  if (end.own_chunk < 0) {
    to_advance_.insert(end.log);
  } else {  // a stage informs itself at once
    target.arrive(action.microbatch);
    of(log).protocol.input_arrived(kind, end.own_chunk, action.microbatch);
  }
}

void Replay::release(int log, InputKind kind, const Action& action) {
  const QueueEnd& end = of(log).from(kind, action);
  QueueState& source = queue(log, end);
  source.release(action.microbatch);
  if (!source.fed) to_advance_.insert(end.log);
}

void Replay::expect_end() const {
  for (int log = 0; log < run_.logs(); ++log) {
    const Stage& stage = of(log);
    if (!stage.is_at_end()) fail(log, "in the replay nobody has sent it");
    if (!failed_ && !stage.protocol.step_done())
      throw ReplayError("step " + std::to_string(step_) + ", stage " + std::to_string(run_.stage_of(log)) +
                        ": the record ends before the step: " + stage.protocol.waiting_for());
  }
}

std::vector<StageMoment> Replay::stages() const {
  std::vector<StageMoment> moments;
  for (int log = 0; log < run_.logs(); ++log)
    moments.push_back({run_.replica_of(log), run_.stage_of(log), log % run_.parts, of(log).protocol.running(),
                       of(log).protocol.waiting_for()});
  return moments;
}

void Replay::fail(int log, const std::string& what) const {
  const std::string replica = run_.replicas > 1 ? "replica " + std::to_string(run_.replica_of(log)) + " " : "";
  throw ReplayError("step " + std::to_string(step_) + ", " + replica + "stage " + std::to_string(run_.stage_of(log)) + ", " +
                    of(log).place(run_.plan.form()) + ": " + what);
}

}  // namespace pipetrain::schedules
