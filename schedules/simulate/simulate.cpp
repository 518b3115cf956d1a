#include "schedules/simulate/simulate.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <queue>
#include <stdexcept>

#include "schedules/plan/braids.hpp"
#include "schedules/plan/stage_set.hpp"
#include "schedules/simulate/free_slots.hpp"
#include "schedules/simulate/jitter.hpp"
#include "schedules/simulate/recorded_times.hpp"
#include "schedules/simulate/replica_exchanges.hpp"
#include "schedules/simulate/simulated_moves.hpp"

namespace pipetrain::schedules {

namespace {

// In planned order the lists decide what runs next, and times only follow. So the simulator may run stages in any
// order, each as far as its inputs reach, and delivers a completion at once with its time. In ready order stages choose
// by what has happened, so the simulator takes events in order of time.
class Simulation {
 public:
  Simulation(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs, const SimulationOptions& options);
  Timeline run();

 private:
  struct Stage {
    Stage(StageProtocol p, ReplicaExchanges e) : protocol(std::move(p)), exchanges(std::move(e)) {}
    StageProtocol protocol;
    ReplicaExchanges exchanges;
    double free_at = 0;             // when the device has finished all launched actions
    std::size_t completed = 0;      // spans whose completion was delivered
    bool at_collective = false;     // is in a T that not all partners have reached
    std::optional<Action> braided;  // the first action of a braid, whose second comes next
    SimulatedMoves moves;           // empty where times are recorded
  };
  // The inputs of a virtual stage.
  struct Receiver {
    std::vector<double> activation, gradient;  // [microbatch], when the data arrives
    FreeSlots activation_slots, gradient_slots;
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
  Receiver& receiver(int v) { return receivers_[static_cast<std::size_t>(v)]; }
  int virtual_stage(int s, const Action& action) const { return plan_.placement.virtual_stage(s, action.chunk); }
  std::vector<Span>& spans(int s) { return timeline_.stages[static_cast<std::size_t>(s)]; }
  const std::vector<Span>& spans_of(int s) const { return timeline_.stages[static_cast<std::size_t>(s)]; }
  bool is_planned() const { return options_.order == Order::planned; }
  bool has_room() const { return options_.room == QueueRoom::all; }

  void give_slots(const std::vector<StageNeeds>& needs);
  void give_room(int v);
  void free_slot(InputKind kind, int v, double time);
  void deliver(InputKind kind, int v, int microbatch);
  void pump_all();
  void launch(int s, const Action& action);
  void launch_braid(int s, const Action& first, const Action& second);
  void wait_for_inputs(int s, const Action& action, Span& span);
  BraidPart braid_part(int s, const Action& action) const;
  void launch_move(int s, const Action& action);
  ReplicaExchanges exchanges(int s) const;
  double cost(int s, const Action& action) const;
  double transfer(InputKind kind, int v, int microbatch) const;
  void announce(int s, const Action& action, double end);
  void send(InputKind kind, int v, int microbatch, double arrival);
  void join_tied(int s);
  void handle(const Event& event);
  void complete(int s, const Action& action, double end);

  const Plan& plan_;
  const Costs& costs_;
  SimulationOptions options_;
  Timeline timeline_;
  std::vector<Stage> stages_;
  std::vector<Receiver> receivers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;  // in ready order only
  StageSet to_pump_;
  bool moves_ = false;     // the plan moves activations
  std::vector<int> tied_;  // stages in T
  int tied_holders_ = 0;   // number of stages that meet in T
  double now_ = 0;         // for ready stages only
  int norms_ = 0;
  double verdict_at_ = 0;
  std::vector<double> signalled_at_;  // by custom action: the last end of what it waits for
  int fed_tokens_ = 0, fed_targets_ = 0;
};

Simulation::Simulation(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                       const SimulationOptions& options)
    : plan_(plan),
      costs_(costs),
      options_(options),
      receivers_(static_cast<std::size_t>(plan.placement.virtual_stages())),
      to_pump_(plan.stages.size()),
      signalled_at_(plan.custom.size()) {
  check_costs(costs, plan.placement);
  if (costs.slices != plan.slices)
    throw std::invalid_argument("the costs are for " + std::to_string(costs.slices) + " slices a microbatch, the plan has " +
                                std::to_string(plan.slices));
  if (!costs.custom.empty() && costs.custom.size() != plan.custom.size())
    throw std::invalid_argument("times of " + std::to_string(costs.custom.size()) +
                                " custom actions are given, and the plan has " + std::to_string(plan.custom.size()));
  if (options.recorded && (!is_planned() || has_room()))
    throw std::invalid_argument("recorded times are those of the order and the slots that the run had");
  if (has_room() && !is_planned()) throw std::invalid_argument("ready stages choose by the slots that a run reserves");
  const auto counted = [](int count, const char* one, const char* several) {
    return std::to_string(count) + " " + (count == 1 ? one : several);
  };
  timeline_.title = plan.schedule + ", " + counted(plan.placement.stages(), "stage", "stages") + ", " +
                    counted(plan.microbatches / plan.slices, "microbatch", "microbatches") +
                    (plan.slices > 1 ? " of " + std::to_string(plan.slices) + " slices" : "");
  timeline_.placement = plan.placement;
  timeline_.microbatches = plan.microbatches;
  timeline_.slices = plan.slices;
  for (const CustomAction& one : plan.custom) timeline_.custom.push_back(one.name);
  timeline_.stages.resize(plan.stages.size());
  stages_.reserve(plan.stages.size());
  tied_holders_ = static_cast<int>(tied_sum_places(plan.placement).size());
  const std::shared_ptr<const Plan> shared(std::shared_ptr<const Plan>(), &plan);  // outlives the protocols
  for (int s = 0; s < plan.placement.stages(); ++s) {
    const auto& list = plan.stages[static_cast<std::size_t>(s)];
    stages_.emplace_back(StageProtocol(shared, s, options.order, options.run_ahead), exchanges(s));
    stage(s).protocol.begin_step();
    spans(s).reserve(list.size());
    moves_ = moves_ || std::any_of(list.begin(), list.end(), [](const Action& action) { return is_move(action.kind); });
  }
  if (moves_) timeline_.moves.resize(plan.stages.size());
  give_slots(needs);
  if (moves_ && options.recorded == nullptr)
    for (int s = 0; s < plan.placement.stages(); ++s)
      stage(s).moves = SimulatedMoves(needs[static_cast<std::size_t>(s)], plan.microbatches);
}

void Simulation::give_slots(const std::vector<StageNeeds>& needs) {
  for (int v = 0; v < plan_.placement.virtual_stages(); ++v) {
    const StageChunk at = plan_.placement.at(v);
    const ChunkNeeds& slots = needs[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
    receiver(v).activation.resize(static_cast<std::size_t>(plan_.microbatches));
    receiver(v).gradient.resize(static_cast<std::size_t>(plan_.microbatches));
    for (int i = 0; i < slots.target_slots; ++i) free_slot(InputKind::target, v, 0);
    if (has_room()) {
      give_room(v);
      continue;
    }
    receiver(v).activation_slots.resize(slots.activation_slots);
    receiver(v).gradient_slots.resize(slots.gradient_slots);
    for (int i = 0; i < slots.activation_slots; ++i) free_slot(InputKind::activation, v, 0);
    for (int i = 0; i < slots.gradient_slots; ++i) free_slot(InputKind::gradient, v, 0);
  }
}

// Gives virtual stage v, once for the step, a credit for every message and all inputs from the feeder.
void Simulation::give_room(int v) {
  const StageChunk at = plan_.placement.at(v);
  for (int i = 0; i < plan_.microbatches; ++i) {
    if (v == 0) free_slot(InputKind::activation, 0, 0);
    if (v > 0) stage(at.stage).protocol.credit_returned(InputKind::gradient, at.chunk);
    if (v + 1 < plan_.placement.virtual_stages()) stage(at.stage).protocol.credit_returned(InputKind::activation, at.chunk);
  }
  to_pump_.insert(at.stage);
}

// Frees a slot of the queue into virtual stage v. The feeders are never late: they fill their slots at once.
void Simulation::free_slot(InputKind kind, int v, double time) {
  if (kind == InputKind::target) {
    if (fed_targets_ < plan_.microbatches) deliver(InputKind::target, v, fed_targets_++);
  } else if (kind == InputKind::activation && v == 0) {
    if (fed_tokens_ == plan_.microbatches) return;
    receiver(0).activation[static_cast<std::size_t>(fed_tokens_)] = time;
    deliver(InputKind::activation, 0, fed_tokens_++);
  } else {
    if (has_room()) return;  // no producer waits for it
    const bool is_activation = kind == InputKind::activation;
    (is_activation ? receiver(v).activation_slots : receiver(v).gradient_slots).give_back(time);
    const StageChunk sender = plan_.placement.at(is_activation ? v - 1 : v + 1);
    stage(sender.stage).protocol.credit_returned(kind, sender.chunk);
    to_pump_.insert(sender.stage);
  }
}

void Simulation::deliver(InputKind kind, int v, int microbatch) {
  const StageChunk to = plan_.placement.at(v);
  stage(to.stage).protocol.input_arrived(kind, to.chunk, microbatch);
  to_pump_.insert(to.stage);
}

void Simulation::pump_all() {
  for (int s = to_pump_.take_last(); s >= 0; s = to_pump_.take_last()) {
    while (!stage(s).at_collective) {
      const auto action = stage(s).protocol.next();
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

// Returns the time of the stage's last launched action.
double Simulation::cost(int s, const Action& action) const {
  if (options_.recorded) return options_.recorded->times[static_cast<std::size_t>(s)][spans_of(s).size() - 1];
  const double time = costs_.of(s, action);
  return options_.jitter == 0 ? time : time * jitter_factor(options_.jitter, options_.seed, s, action);
}

// Returns the time of a message to virtual stage v.
double Simulation::transfer(InputKind kind, int v, int microbatch) const {
  const bool is_activation = kind == InputKind::activation;
  if (!options_.recorded) return costs_.transfer(is_activation ? v - 1 : v);
  const auto& queues = is_activation ? options_.recorded->activations : options_.recorded->gradients;
  return queues[static_cast<std::size_t>(v)][static_cast<std::size_t>(microbatch)];
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
  at.protocol.completed(action);
}

// A braid without communication to hide runs its actions one after the other.
BraidPart Simulation::braid_part(int s, const Action& action) const {
  const ChunkCost& chunk = costs_.chunks[static_cast<std::size_t>(s)][static_cast<std::size_t>(action.chunk)];
  const bool communicates = action.kind == ActionKind::forward || gives_input_grad(action.kind);
  const double communication = communicates ? chunk.tp_communication : 0;
  const double time = costs_.of(s, action);
  const double factor = options_.jitter == 0 ? 1 : jitter_factor(options_.jitter, options_.seed, s, action);
  return {(time - communication) * factor, communication * factor};
}

void Simulation::launch_braid(int s, const Action& first, const Action& second) {
  const ChunkCost& chunk = costs_.chunks[static_cast<std::size_t>(s)][static_cast<std::size_t>(first.chunk)];
  const BraidTimes times = braid_times(braid_part(s, first), braid_part(s, second), chunk.tp_collectives);
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
  const bool hides = costs_.chunks[static_cast<std::size_t>(s)][static_cast<std::size_t>(action.chunk)].tp_communication > 0;
  if (stage(s).protocol.begins_braid() && hides && !options_.recorded) {
    stage(s).braided = action;
    return;
  }
  Span span{action, WaitedFor::nothing, stage(s).free_at, 0};
  wait_for_inputs(s, action, span);
  if (options_.recorded) span.start += options_.recorded->delays[static_cast<std::size_t>(s)][spans(s).size()];
  spans(s).push_back(span);
  __builtin_prefetch(&spans(s).back() + 2, 1);  // with many stages, each is visited again long after its lines left the cache
  if (action.kind == ActionKind::sum_tied && tied_holders_ > 1) {
    join_tied(s);
  } else {
    const double time = cost(s, action);
    announce(s, action, span.start + (options_.recorded ? time : stage(s).exchanges.time_of(action, span.start, time)));
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
    wait(receiver(v).activation[static_cast<std::size_t>(action.microbatch)], WaitedFor::activation);
    if (!is_last && !has_room()) wait(receiver(v + 1).activation_slots.take(), WaitedFor::slot);
    if (moves_) wait(stage(s).moves.take_place(action.chunk), WaitedFor::memory);
  } else if (gives_input_grad(action.kind)) {
    if (!is_last) wait(receiver(v).gradient[static_cast<std::size_t>(action.microbatch)], WaitedFor::gradient);
    if (v > 0 && !has_room()) wait(receiver(v - 1).gradient_slots.take(), WaitedFor::slot);
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
    send(InputKind::activation, v + 1, m, end + transfer(InputKind::activation, v + 1, m));
  if (gives_input_grad(action.kind) && v > 0)
    send(InputKind::gradient, v - 1, m, end + transfer(InputKind::gradient, v - 1, m));
  if (is_planned()) {
    complete(s, action, end);
  } else if (spans(s).size() == at.completed + 1) {
    events_.push({end, s, 0, EventType::completion});
  }
}

void Simulation::send(InputKind kind, int v, int microbatch, double arrival) {
  const bool is_activation = kind == InputKind::activation;
  (is_activation ? receiver(v).activation : receiver(v).gradient)[static_cast<std::size_t>(microbatch)] = arrival;
  if (is_planned()) {
    deliver(kind, v, microbatch);
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
    longest = std::max(longest, cost(partner, spans(partner).back().action));
  }
  for (const int partner : std::exchange(tied_, {})) {
    Span& span = spans(partner).back();
    if (start > span.start) span.start = start, span.waited_for = WaitedFor::partner;
    stage(partner).at_collective = false;
    announce(partner, span.action, start + longest);
    to_pump_.insert(partner);
  }
}

void Simulation::complete(int s, const Action& action, double end) {
  for (const int custom : stage(s).protocol.completed(action)) {
    const int other = plan_.custom[static_cast<std::size_t>(custom)].stage;
    double& at = signalled_at_[static_cast<std::size_t>(custom)];
    at = std::max(at, end);
    stage(other).protocol.signalled(custom);
    to_pump_.insert(other);
  }
  ++stage(s).completed;
  if (action.kind == ActionKind::norm) {
    verdict_at_ = std::max(verdict_at_, end + costs_.verdict);
    if (++norms_ == plan_.placement.stages())
      for (int other = 0; other < norms_; ++other) stage(other).protocol.verdict(true), to_pump_.insert(other);
  }
  if (!is_compute(action.kind)) return;
  if (moves_ && gives_weight_grad(action.kind)) stage(s).moves.give_place_back(action.chunk, end);
  const int v = virtual_stage(s, action);
  const bool is_last = v + 1 == plan_.placement.virtual_stages();
  if (ends_life(options_.life.activation, action.kind)) {
    free_slot(InputKind::activation, v, end);
    if (is_last) free_slot(InputKind::target, v, end);
  }
  if (ends_life(options_.life.gradient, action.kind) && !is_last) free_slot(InputKind::gradient, v, end);
}

void Simulation::handle(const Event& event) {
  if (event.type == EventType::activation) return deliver(InputKind::activation, event.place, event.microbatch);
  if (event.type == EventType::gradient) return deliver(InputKind::gradient, event.place, event.microbatch);
  const int s = event.place;
  Stage& at = stage(s);
  complete(s, spans(s)[at.completed].action, event.time);
  const bool is_end_known = at.completed < spans(s).size() && !at.at_collective;
  if (is_end_known) events_.push({spans(s)[at.completed].end, s, 0, EventType::completion});
  to_pump_.insert(s);
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
  for (int s = 0; s < plan_.placement.stages(); ++s)
    if (!stage(s).protocol.step_done())
      throw std::logic_error("the simulation stopped: stage " + std::to_string(s) + ": " + stage(s).protocol.waiting_for());
  return std::move(timeline_);
}

}  // namespace

Timeline simulate(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                  const SimulationOptions& options) {
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
