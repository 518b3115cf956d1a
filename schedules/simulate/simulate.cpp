#include "schedules/simulate/simulate.hpp"

#include <algorithm>
#include <optional>
#include <queue>
#include <stdexcept>

#include "schedules/simulate/action_times.hpp"
#include "schedules/simulate/replica_exchanges.hpp"
#include "schedules/simulate/simulated_moves.hpp"
#include "schedules/simulate/simulated_protocols.hpp"
#include "schedules/simulate/simulated_queues.hpp"

namespace pipetrain::schedules {

namespace {

void check_simulation(const Plan& plan, const Costs& costs, const SimulationOptions& options) {
  check_costs(costs, plan.placement);
  if (costs.slices != plan.slices)
    throw std::invalid_argument("the costs are for " + std::to_string(costs.slices) + " slices a microbatch, the plan has " +
                                std::to_string(plan.slices));
  if (!costs.custom.empty() && costs.custom.size() != plan.custom.size())
    throw std::invalid_argument("times of " + std::to_string(costs.custom.size()) +
                                " custom actions are given, and the plan has " + std::to_string(plan.custom.size()));
  const bool planned = options.order == Order::planned, has_room = options.room == QueueRoom::all;
  if (options.recorded && (!planned || has_room))
    throw std::invalid_argument("recorded times are those of the order and the slots that the run had");
  if (has_room && !planned) throw std::invalid_argument("ready stages choose by the slots that a run reserves");
}

// Returns the plan's timeline without spans.
Timeline empty_timeline(const Plan& plan) {
  const auto counted = [](int count, const char* one, const char* several) {
    return std::to_string(count) + " " + (count == 1 ? one : several);
  };
  Timeline timeline;
  timeline.title = plan.schedule + ", " + counted(plan.placement.stages(), "stage", "stages") + ", " +
                   counted(plan.microbatches / plan.slices, "microbatch", "microbatches") +
                   (plan.slices > 1 ? " of " + std::to_string(plan.slices) + " slices" : "");
  timeline.placement = plan.placement;
  timeline.microbatches = plan.microbatches;
  timeline.slices = plan.slices;
  for (const CustomAction& one : plan.custom) timeline.custom.push_back(one.name);
  timeline.stages.resize(plan.stages.size());
  return timeline;
}

// In planned order the lists decide what runs next, and times only follow. So the simulator may run stages in any
// order, each as far as its inputs reach, and delivers a completion at once with its time. In ready order stages choose
// by what has happened, so the simulator takes events in order of time.
class Simulation {
 public:
  Simulation(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs, const SimulationOptions& options);
  Timeline run();

 private:
  struct Stage {
    explicit Stage(ReplicaExchanges e) : exchanges(std::move(e)) {}
    ReplicaExchanges exchanges;
    double free_at = 0;             // when the device has finished all launched actions
    std::size_t completed = 0;      // spans whose completion was delivered
    bool at_collective = false;     // is in a T that not all partners have reached
    std::optional<Action> braided;  // the first action of a braid, whose second comes next
    SimulatedMoves moves;           // empty where times are recorded
  };
  enum class EventType : std::uint8_t { completion, activation, gradient };
  struct Event {
    double time;
    std::int32_t place;  // stage, or virtual stage
    std::int32_t microbatch;
    EventType type;
    bool operator>(const Event& other) const { return time > other.time; }
  };

  Stage& stage(int index) { return stages_[static_cast<std::size_t>(index)]; }
  int virtual_stage(int s, const Action& action) const { return plan_.placement.virtual_stage(s, action.chunk); }
  std::vector<Span>& spans(int s) { return timeline_.stages[static_cast<std::size_t>(s)]; }
  bool is_planned() const { return options_.order == Order::planned; }

  void pump_all();
  void launch(int s, const Action& action);
  void launch_braid(int s, const Action& first, const Action& second);
  void wait_for_inputs(int s, const Action& action, Span& span);
  void launch_move(int s, const Action& action);
  ReplicaExchanges exchanges(int s) const;
  // Returns the time of the stage's last launched action.
  double last_time(int s) { return times_.of(s, spans(s).size() - 1, spans(s).back().action); }
  void announce(int s, const Action& action, double end);
  void send(InputKind kind, int v, int microbatch, double arrival);
  void join_tied(int s);
  void handle(const Event& event);
  void complete(int s, const Action& action, double end);

  const Plan& plan_;
  const Costs& costs_;
  const SimulationOptions& options_;
  ActionTimes times_;
  Timeline timeline_;
  SimulatedProtocols protocols_;
  SimulatedQueues queues_;
  std::vector<Stage> stages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;  // in ready order only
  bool moves_ = false;                                                     // the plan moves activations
  std::vector<int> tied_;                                                  // stages in T
  int tied_holders_ = 0;                                                   // number of stages that meet in T
  double now_ = 0;                                                         // for ready stages only
  int norms_ = 0;
  double verdict_at_ = 0;
  std::vector<double> signalled_at_;  // by custom action: the last end of what it waits for
};

Simulation::Simulation(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                       const SimulationOptions& options)
    : plan_(plan),
      costs_(costs),
      options_(options),
      times_(costs, options),
      timeline_(empty_timeline(plan)),
      protocols_(plan, options.order, options.run_ahead),
      queues_(plan, needs, options.room, protocols_),
      tied_holders_(static_cast<int>(tied_sum_places(plan.placement).size())),
      signalled_at_(plan.custom.size()) {
  stages_.reserve(plan.stages.size());
  for (int s = 0; s < plan.placement.stages(); ++s) {
    const auto& list = plan.stages[static_cast<std::size_t>(s)];
    stages_.emplace_back(exchanges(s));
    spans(s).reserve(list.size());
    moves_ = moves_ || std::any_of(list.begin(), list.end(), [](const Action& action) { return is_move(action.kind); });
  }
  if (moves_) timeline_.moves.resize(plan.stages.size());
  if (moves_ && !times_.are_recorded())
    for (int s = 0; s < plan.placement.stages(); ++s)
      stage(s).moves = SimulatedMoves(needs[static_cast<std::size_t>(s)], plan.microbatches);
}

void Simulation::pump_all() {
  for (int s = protocols_.take_asked(); s >= 0; s = protocols_.take_asked()) {
    while (!stage(s).at_collective) {
      const auto action = protocols_.of(s).next();
      if (!action) break;
      launch(s, *action);
    }
  }
}

// In ready order, replicas run their last backwards in the same order only where a stage has one chunk.
ReplicaExchanges Simulation::exchanges(int s) const {
  const auto stage = static_cast<std::size_t>(s);
  return ReplicaExchanges(costs_.chunks[stage], costs_.optimizer.empty() ? 0 : costs_.optimizer[stage],
                          is_planned() || plan_.placement.chunks() == 1);
}

// Runs beside the stage's compute: P begins once F is done, G when it is launched.
void Simulation::launch_move(int s, const Action& action) {
  Stage& at = stage(s);
  if (at.moves.active()) {
    const std::vector<Span>& launched = spans(s);
    const auto ahead = static_cast<std::size_t>(options_.run_ahead);
    const double launched_at = launched.size() > ahead ? launched[launched.size() - 1 - ahead].end : 0;
    const double from = action.kind == ActionKind::offload ? at.free_at : launched_at;
    timeline_.moves[static_cast<std::size_t>(s)].push_back(at.moves.launch(action, from, costs_.of(s, action)));
  }
  protocols_.of(s).completed(action);
}

void Simulation::launch_braid(int s, const Action& first, const Action& second) {
  const BraidTimes times = times_.of_braid(s, first, second);
  Span span{first, WaitedFor::nothing, stage(s).free_at, 0};
  wait_for_inputs(s, first, span);
  wait_for_inputs(s, second, span);
  span.begins_braid = true;
  spans(s).push_back(span);
  ReplicaExchanges& exchanges = stage(s).exchanges;
  announce(s, first, span.start + exchanges.time_of(first, span.start, times.first_end));
  const double handover = stage(s).free_at;
  spans(s).push_back({second, WaitedFor::nothing, handover, 0});
  announce(s, second, handover + exchanges.time_of(second, handover, times.end - times.first_end));
}

void Simulation::launch(int s, const Action& action) {
  if (is_move(action.kind)) return launch_move(s, action);
  if (const auto first = std::exchange(stage(s).braided, std::nullopt)) return launch_braid(s, *first, action);
  if (times_.hides_in_braid(s, action) && protocols_.of(s).begins_braid()) {
    stage(s).braided = action;
    return;
  }
  Span span{action, WaitedFor::nothing, stage(s).free_at, 0};
  wait_for_inputs(s, action, span);
  span.start += times_.delay(s, spans(s).size());
  spans(s).push_back(span);
  __builtin_prefetch(&spans(s).back() + 2, 1);  // with many stages, each is visited again long after its lines left the cache
  if (action.kind == ActionKind::sum_tied && tied_holders_ > 1) {
    join_tied(s);
  } else {
    const double time = last_time(s);
    announce(s, action, span.start + (times_.are_recorded() ? time : stage(s).exchanges.time_of(action, span.start, time)));
  }
}

// Moves the span's start to the time at which all inputs of the action have arrived.
void Simulation::wait_for_inputs(int s, const Action& action, Span& span) {
  const int v = virtual_stage(s, action);
  const bool is_last = v + 1 == plan_.placement.virtual_stages();
  const auto wait = [&](double time, WaitedFor reason) {
    if (time > span.start) span.start = time, span.waited_for = reason;
  };
  if (action.kind == ActionKind::forward) {
    wait(queues_.activation(v, action.microbatch), WaitedFor::activation);
    if (!is_last) wait(queues_.take_activation_slot(v + 1), WaitedFor::slot);
    if (moves_) wait(stage(s).moves.take_place(action.chunk), WaitedFor::memory);
  } else if (gives_input_grad(action.kind)) {
    if (!is_last) wait(queues_.gradient(v, action.microbatch), WaitedFor::gradient);
    if (v > 0) wait(queues_.take_gradient_slot(v - 1), WaitedFor::slot);
    if (moves_) wait(stage(s).moves.back_at(action), WaitedFor::memory);
  } else if (action.kind == ActionKind::optimizer) {
    wait(verdict_at_, WaitedFor::partner);
  } else if (is_custom(action.kind)) {
    wait(signalled_at_[static_cast<std::size_t>(action.microbatch)], WaitedFor::partner);
  }
  wait(now_, WaitedFor::slot);
}

// The end of the last launched action is known now: delivers it to every stage that may know it already.
void Simulation::announce(int s, const Action& action, double end) {
  Stage& at = stage(s);
  spans(s).back().end = at.free_at = end;
  const int v = virtual_stage(s, action), m = action.microbatch;
  if (action.kind == ActionKind::forward && v + 1 < plan_.placement.virtual_stages())
    send(InputKind::activation, v + 1, m, end + times_.transfer(InputKind::activation, v + 1, m));
  if (gives_input_grad(action.kind) && v > 0)
    send(InputKind::gradient, v - 1, m, end + times_.transfer(InputKind::gradient, v - 1, m));
  if (is_planned()) {
    complete(s, action, end);
  } else if (spans(s).size() == at.completed + 1) {
    events_.push({end, s, 0, EventType::completion});
  }
}

void Simulation::send(InputKind kind, int v, int microbatch, double arrival) {
  const bool is_activation = kind == InputKind::activation;
  (is_activation ? queues_.activation(v, microbatch) : queues_.gradient(v, microbatch)) = arrival;
  if (is_planned()) {
    protocols_.input_arrived(kind, v, microbatch);
  } else {
    events_.push({arrival, v, microbatch, is_activation ? EventType::activation : EventType::gradient});
  }
}

// T runs on all its stages together once the last one has reached it.
void Simulation::join_tied(int s) {
  stage(s).at_collective = true;
  tied_.push_back(s);
  if (static_cast<int>(tied_.size()) < tied_holders_) return;
  double start = 0, longest = 0;
  for (const int partner : tied_) {
    start = std::max(start, spans(partner).back().start);
    longest = std::max(longest, last_time(partner));
  }
  for (const int partner : std::exchange(tied_, {})) {
    Span& span = spans(partner).back();
    if (start > span.start) span.start = start, span.waited_for = WaitedFor::partner;
    stage(partner).at_collective = false;
    announce(partner, span.action, start + longest);
    protocols_.ask(partner);
  }
}

void Simulation::complete(int s, const Action& action, double end) {
  for (const int custom : protocols_.of(s).completed(action)) {
    double& at = signalled_at_[static_cast<std::size_t>(custom)];
    at = std::max(at, end);
    protocols_.signalled(plan_.custom[static_cast<std::size_t>(custom)].stage, custom);
  }
  ++stage(s).completed;
  if (action.kind == ActionKind::norm) {
    verdict_at_ = std::max(verdict_at_, end + costs_.verdict);
    if (++norms_ == plan_.placement.stages()) protocols_.verdict();
  }
  if (!is_compute(action.kind)) return;
  if (moves_ && gives_weight_grad(action.kind)) stage(s).moves.give_place_back(action.chunk, end);
  const int v = virtual_stage(s, action);
  const bool is_last = v + 1 == plan_.placement.virtual_stages();
  if (ends_life(options_.life.activation, action.kind)) {
    queues_.free_slot(InputKind::activation, v, end);
    if (is_last) queues_.free_slot(InputKind::target, v, end);
  }
  if (ends_life(options_.life.gradient, action.kind) && !is_last) queues_.free_slot(InputKind::gradient, v, end);
}

void Simulation::handle(const Event& event) {
  if (event.type == EventType::activation)
    return protocols_.input_arrived(InputKind::activation, event.place, event.microbatch);
  if (event.type == EventType::gradient) return protocols_.input_arrived(InputKind::gradient, event.place, event.microbatch);
  const int s = event.place;
  Stage& at = stage(s);
  complete(s, spans(s)[at.completed].action, event.time);
  const bool is_end_known = at.completed < spans(s).size() && !at.at_collective;
  if (is_end_known) events_.push({spans(s)[at.completed].end, s, 0, EventType::completion});
  protocols_.ask(s);
}

Timeline Simulation::run() {
  pump_all();
  while (!events_.empty()) {
    now_ = events_.top().time;
    // Deliver everything that happens at one instant before any stage chooses.
    while (!events_.empty() && events_.top().time <= now_) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    pump_all();
  }
  protocols_.expect_end();
  return std::move(timeline_);
}

}  // namespace

Timeline simulate(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                  const SimulationOptions& options) {
  check_simulation(plan, costs, options);
  return Simulation(plan, costs, needs, options).run();
}

Timeline simulate(const Plan& plan, const Costs& costs, const SimulationOptions& options) {
  return simulate(plan, costs, validate(plan, options.order, options.life), options);
}

double ideal_time(const Costs& costs, int microbatches) {
  double ideal = 0;
  for (int s = 0; s < static_cast<int>(costs.chunks.size()); ++s) ideal = std::max(ideal, costs.compute(s, microbatches));
  return ideal;
}

}  // namespace pipetrain::schedules
