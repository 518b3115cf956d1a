#include "schedules/simulate/following_steps.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <queue>
#include <stdexcept>
#include <utility>

#include "schedules/plan/activation_offload.hpp"
#include "schedules/plan/braids.hpp"
#include "schedules/simulate/replica_exchanges.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/simulated_protocols.hpp"

namespace pipetrain::schedules {

namespace {

constexpr int first_counted = 4, steps_in_all = 13;  // after the steps in which the pipeline has not settled yet

void check(const Plan& plan, const Costs& costs) {
  check_costs(costs, plan.placement);
  if (plan.slices > 1) throw std::invalid_argument("slices do not begin before the verdict on the step before yet");
  if (moves_activations(plan)) throw std::invalid_argument("moves of activations over consecutive steps are not built yet");
  if (!plan.custom.empty()) throw std::invalid_argument("custom actions are not simulated over consecutive steps");
  const bool communicates = std::any_of(costs.chunks.begin(), costs.chunks.end(), [](const auto& chunks) {
    return std::any_of(chunks.begin(), chunks.end(), [](const ChunkCost& chunk) { return chunk.communication > 0; });
  });
  if (communicates && has_braids(plan))
    throw std::invalid_argument("the communication that braids hide is not simulated over consecutive steps");
}

// Runs events in order of time, because the time of the verdict decides whether a stage continues with the coming step
// or with its O.
class Following {
 public:
  Following(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs, const StepsToFollow& how);
  FollowingSteps run();

 private:
  struct Stage {
    Stage(StageProtocol p, ReplicaExchanges e) : protocol(std::move(p)), exchanges(std::move(e)) {}
    StageProtocol protocol;
    ReplicaExchanges exchanges;  // of the running step
    double free_at = 0;          // when the device has finished all launched actions
    bool at_collective = false;  // is in a T that not all partners have reached
  };
  // The inputs that the feeder fills as slots become free: the tokens of the first virtual stage, the targets of the last.
  struct Feed {
    InputKind kind;
    int chunk, stage;
    int free = 0;
    std::int64_t fed = 0;
  };
  struct Tied {
    int stage;
    Action action;
    double start;  // when the stage could begin it
  };
  enum class EventType : std::uint8_t { completion, wake, verdict, begin };  // wake: a stage looks again at what it can do
  struct Event {
    double time;
    std::uint64_t number;  // orders events of one instant as they were created
    EventType type;
    std::int32_t stage;
    Action action;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : number > other.number; }
  };

  Stage& stage(int index) { return stages_[static_cast<std::size_t>(index)]; }
  double& ready(InputKind kind, int v, int microbatch) {
    auto& all = kind == InputKind::activation ? activations_ : gradients_;
    return all[static_cast<std::size_t>(v)][static_cast<std::size_t>(microbatch)];
  }
  bool begins_early() const { return !how_.early.empty(); }
  bool is_last(int v) const { return v + 1 == plan_.placement.virtual_stages(); }
  ReplicaExchanges exchanges(int s) const {
    const auto at = static_cast<std::size_t>(s);
    return {costs_.chunks[at], costs_.optimizer.empty() ? 0 : costs_.optimizer[at], true};
  }

  void add(double time, EventType type, int s = 0, const Action& action = {}) {
    events_.push({time, events_made_++, type, s, action});
  }
  void give_slots(const std::vector<StageNeeds>& needs);
  void feed(Feed& feed);
  void begin_step();
  void pump(int s);
  void launch(int s, const Action& action);
  void announce(int s, const Action& action, double start, double time);
  void send(InputKind kind, int v, int microbatch, double arrival);
  void join_tied(int s, const Action& action, double start);
  void complete(int s, const Action& action);
  void free_slots(int s, const Action& action);
  void handle(const Event& event);

  const Plan& plan_;
  const Costs& costs_;
  const StepsToFollow& how_;
  std::vector<Stage> stages_;
  std::vector<std::vector<double>> activations_, gradients_;  // [virtual stage][microbatch], when the data arrives
  Feed tokens_, targets_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t events_made_ = 0;
  std::vector<Tied> tied_;  // stages in T
  double now_ = 0;
  int step_ = 0, norms_ = 0, ended_ = 0;
  double busy_ = 0;
  std::vector<double> ends_;  // of steps
};

Following::Following(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs, const StepsToFollow& how)
    : plan_(plan), costs_(costs), how_(how) {
  const int virtual_stages = plan.placement.virtual_stages();
  const StageChunk last = plan.placement.at(virtual_stages - 1);
  tokens_ = {InputKind::activation, 0, plan.placement.at(0).stage};
  targets_ = {InputKind::target, last.chunk, last.stage};
  const std::vector<double> never(static_cast<std::size_t>(plan.microbatches));
  activations_.assign(static_cast<std::size_t>(virtual_stages), never);
  gradients_ = activations_;
  const std::shared_ptr<const Plan> shared(std::shared_ptr<const Plan>(), &plan);  // outlives the protocols
  for (int s = 0; s < plan.placement.stages(); ++s)
    stages_.emplace_back(StageProtocol(shared, s, Order::planned, how.run_ahead), exchanges(s));
  give_slots(needs);
}

void Following::give_slots(const std::vector<StageNeeds>& needs) {
  for (int v = 0; v < plan_.placement.virtual_stages(); ++v) {
    const StageChunk at = plan_.placement.at(v);
    const ChunkNeeds& slots = needs[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
    const auto credit = [&](InputKind kind, int sender, int count) {
      const StageChunk from = plan_.placement.at(sender);
      for (int i = 0; i < count; ++i) stage(from.stage).protocol.credit_returned(kind, from.chunk);
    };
    if (v == 0) tokens_.free = slots.activation_slots;
    if (v > 0) credit(InputKind::activation, v - 1, slots.activation_slots);
    if (is_last(v)) targets_.free = slots.target_slots;
    if (!is_last(v)) credit(InputKind::gradient, v + 1, slots.gradient_slots);
  }
}

// The feeder is never late, and knows the coming step where the stages do.
void Following::feed(Feed& feed) {
  const int known = begins_early() ? std::min(step_ + 1, steps_in_all) : step_;
  for (; feed.free > 0 && feed.fed < std::int64_t{known} * plan_.microbatches; --feed.free, ++feed.fed) {
    const auto microbatch = static_cast<int>(feed.fed % plan_.microbatches);
    if (feed.kind == InputKind::activation) ready(feed.kind, 0, microbatch) = now_;
    stage(feed.stage).protocol.input_arrived(feed.kind, feed.chunk, microbatch);
  }
}

void Following::begin_step() {
  ++step_;
  const bool another = step_ < steps_in_all;
  for (int s = 0; s < plan_.placement.stages(); ++s) {
    const bool early = begins_early() && how_.early[static_cast<std::size_t>(s)];
    const NextStep next = !begins_early() || !another ? NextStep::unknown : early ? NextStep::at_once : NextStep::after_verdict;
    stage(s).exchanges = exchanges(s);
    stage(s).protocol.begin_step(StepKind::training, nullptr, next);
  }
  feed(tokens_);
  feed(targets_);
}

void Following::pump(int s) {
  while (!stage(s).at_collective) {
    const Action* const action = stage(s).protocol.next();
    if (!action) return;
    launch(s, Action(*action));
  }
}

void Following::launch(int s, const Action& action) {
  double start = std::max(stage(s).free_at, now_);
  if (is_compute(action.kind)) {
    const int v = plan_.placement.virtual_stage(s, action.chunk);
    if (action.kind == ActionKind::forward) start = std::max(start, ready(InputKind::activation, v, action.microbatch));
    if (gives_input_grad(action.kind) && !is_last(v)) start = std::max(start, ready(InputKind::gradient, v, action.microbatch));
  }
  if (action.kind == ActionKind::sum_tied && tied_sum_places(plan_.placement).size() > 1) return join_tied(s, action, start);
  const double alone = costs_.of(s, action);
  const bool own = action.kind != ActionKind::preview && !stage(s).protocol.is_early();
  announce(s, action, start, own ? stage(s).exchanges.time_of(action, start, alone) : alone);
}

// The action's end is known: its dependents are told at once, with its time, as devices wait for events.
void Following::announce(int s, const Action& action, double start, double time) {
  const double end = stage(s).free_at = start + time;
  if (action.kind != ActionKind::preview) busy_ += time;
  add(end, EventType::completion, s, action);
  if (!is_compute(action.kind)) return;
  const int v = plan_.placement.virtual_stage(s, action.chunk);
  if (action.kind == ActionKind::forward && !is_last(v))
    send(InputKind::activation, v + 1, action.microbatch, end + costs_.transfer(v));
  if (gives_input_grad(action.kind) && v > 0) send(InputKind::gradient, v - 1, action.microbatch, end + costs_.transfer(v - 1));
}

void Following::send(InputKind kind, int v, int microbatch, double arrival) {
  ready(kind, v, microbatch) = arrival;
  const StageChunk to = plan_.placement.at(v);
  stage(to.stage).protocol.input_arrived(kind, to.chunk, microbatch);
  add(now_, EventType::wake, to.stage);
}

// T runs on all its stages together once the last one has reached it.
void Following::join_tied(int s, const Action& action, double start) {
  stage(s).at_collective = true;
  tied_.push_back({s, action, start});
  if (tied_.size() < tied_sum_places(plan_.placement).size()) return;
  double begin = 0, longest = 0;
  for (const Tied& one : tied_) {
    begin = std::max(begin, one.start);
    longest = std::max(longest, costs_.of(one.stage, one.action));
  }
  for (const Tied& one : std::exchange(tied_, {})) {
    stage(one.stage).at_collective = false;
    announce(one.stage, one.action, begin, longest);
    add(now_, EventType::wake, one.stage);
  }
}

void Following::free_slots(int s, const Action& action) {
  const int v = plan_.placement.virtual_stage(s, action.chunk);
  const auto give_back = [&](InputKind kind, int sender) {
    const StageChunk from = plan_.placement.at(sender);
    stage(from.stage).protocol.credit_returned(kind, from.chunk);
    pump(from.stage);
  };
  if (ends_life(how_.life.activation, action.kind)) {
    if (v == 0) ++tokens_.free, feed(tokens_);
    if (is_last(v)) ++targets_.free, feed(targets_);
    if (v > 0) give_back(InputKind::activation, v - 1);
  }
  if (ends_life(how_.life.gradient, action.kind) && !is_last(v)) give_back(InputKind::gradient, v + 1);
}

void Following::complete(int s, const Action& action) {
  stage(s).protocol.completed(action);
  if (is_compute(action.kind)) free_slots(s, action);
  if (action.kind == ActionKind::norm && ++norms_ == plan_.placement.stages()) {
    norms_ = 0;
    add(now_ + costs_.verdict, EventType::verdict);
  }
  if (action.kind == ActionKind::optimizer && ++ended_ == plan_.placement.stages()) {
    ended_ = 0;
    ends_.push_back(now_);
    if (step_ < steps_in_all) add(now_, EventType::begin);
  }
}

void Following::handle(const Event& event) {
  switch (event.type) {
    case EventType::completion:
      complete(event.stage, event.action);
      [[fallthrough]];
    case EventType::wake:
      return pump(event.stage);
    case EventType::verdict:
      for (Stage& one : stages_) one.protocol.verdict(true, true);
      break;
    case EventType::begin:
      begin_step();
      break;
  }
  for (int s = 0; s < plan_.placement.stages(); ++s) pump(s);
}

FollowingSteps Following::run() {
  add(0, EventType::begin);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    handle(event);
  }
  for (int s = 0; s < plan_.placement.stages(); ++s) expect_end_of_step(stage(s).protocol, s);
  // The last step has no following step.
  const std::size_t last = ends_.size() - 2;
  FollowingSteps result;
  result.step = (ends_[last] - ends_[first_counted]) / static_cast<double>(last - first_counted);
  result.bubble = 1 - busy_ / steps_in_all / (static_cast<double>(stages_.size()) * result.step);
  return result;
}

}  // namespace

FollowingSteps simulate_following(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                                  const StepsToFollow& how) {
  check(plan, costs);
  return Following(plan, costs, needs, how).run();
}

std::vector<bool> stages_that_wait(const Plan& plan, const std::vector<StageNeeds>& needs) {
  const std::vector<double> one(plan.stages.size(), 1);
  const Timeline timeline = simulate(plan, Costs::per_stage(plan.placement, one, one, one), needs);
  std::vector<double> ends;
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (span.action.kind == ActionKind::norm) ends.push_back(span.end);
  const double last = *std::max_element(ends.begin(), ends.end());
  std::vector<bool> waits;
  for (const double end : ends) waits.push_back(last - end >= 0.5);
  return waits;
}

}  // namespace pipetrain::schedules
