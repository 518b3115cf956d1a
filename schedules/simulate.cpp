#include "schedules/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <queue>
#include <stdexcept>

namespace pipetrain::schedules {

namespace {

bool is_input_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::input_grad; }
bool is_weight_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::weight_grad; }

bool frees(ActionKind last_reader, ActionKind kind) {
  if (last_reader == ActionKind::forward) return kind == ActionKind::forward;
  return last_reader == ActionKind::weight_grad ? is_weight_grad(kind) : is_input_grad(kind);
}

// splitmix64 (Steele, Lea, Flood 2014): a good hash of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A normal number that depends only on the arguments (Box-Muller).
double normal(std::uint64_t seed, int stage, const Action& action) {
  const std::uint64_t what = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(action.microbatch)) << 32) |
                             (static_cast<std::uint64_t>(static_cast<std::uint16_t>(action.chunk)) << 8) |
                             static_cast<std::uint64_t>(action.kind);
  const std::uint64_t a = mix(mix(mix(seed) ^ static_cast<std::uint64_t>(stage)) ^ what), b = mix(a);
  const double u = (static_cast<double>(a >> 11) + 1) * 0x1p-53, v = static_cast<double>(b >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

class Simulation {
 public:
  Simulation(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs, const SimulationOptions& options);
  Timeline run();

 private:
  struct Stage {
    explicit Stage(StageProtocol p) : protocol(std::move(p)) {}
    StageProtocol protocol;
    double free_at = 0;          // when the device has done all that was launched
    std::size_t completed = 0;   // spans whose completion was told
    bool at_collective = false;  // stands in a T that not all partners have reached
    bool queued_to_pump = false;
  };
  // What virtual stage v receives.
  struct Arrivals {
    std::vector<double> activation, gradient;  // [microbatch], when the data is there
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
  Arrivals& arrivals(int v) { return arrivals_[static_cast<std::size_t>(v)]; }
  int virtual_stage(int s, const Action& action) const { return plan_.placement.virtual_stage(s, action.chunk); }
  std::vector<Span>& spans(int s) { return timeline_.stages[static_cast<std::size_t>(s)]; }

  void give_slots(const std::vector<StageNeeds>& needs);
  void return_credit(InputKind kind, int v);
  void feed();
  void want_pump(int s);
  void pump_all();
  void launch(int s, const Action& action);
  double cost(int s, const Action& action) const;
  void announce(int s, const Action& action, double end);
  void deliver(InputKind kind, int v, int microbatch);
  void join_tied(int s);
  void handle(const Event& event);
  void complete(int s, const Action& action);

  const Plan& plan_;
  const Costs& costs_;
  SimulationOptions options_;
  Timeline timeline_;
  std::vector<Stage> stages_;
  std::vector<Arrivals> arrivals_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> to_pump_;
  std::vector<int> tied_;  // stages standing in T
  int tied_holders_ = 0;   // stages whose list has T
  double now_ = 0;
  int norms_ = 0;
  int token_slots_ = 0, target_slots_ = 0, fed_tokens_ = 0, fed_targets_ = 0;
};

Simulation::Simulation(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                       const SimulationOptions& options)
    : plan_(plan), costs_(costs), options_(options), arrivals_(static_cast<std::size_t>(plan.placement.virtual_stages())) {
  check_costs(costs, plan.placement);
  timeline_.title = plan.schedule + ", " + std::to_string(plan.placement.stages()) + " stages, " +
                    std::to_string(plan.microbatches) + " microbatches";
  timeline_.placement = plan.placement;
  timeline_.microbatches = plan.microbatches;
  timeline_.stages.resize(plan.stages.size());
  const std::shared_ptr<const Plan> shared(std::shared_ptr<const Plan>(), &plan);  // lives longer than the protocols
  for (int s = 0; s < plan.placement.stages(); ++s) {
    const auto& list = plan.stages[static_cast<std::size_t>(s)];
    stages_.emplace_back(StageProtocol(shared, s, options.order, options.run_ahead));
    spans(s).reserve(list.size());
    for (const Action& action : list)
      if (action.kind == ActionKind::sum_tied) {
        ++tied_holders_;
        break;
      }
  }
  for (Arrivals& arrival : arrivals_) {
    arrival.activation.resize(static_cast<std::size_t>(plan.microbatches));
    arrival.gradient.resize(static_cast<std::size_t>(plan.microbatches));
  }
  give_slots(needs);
}

void Simulation::give_slots(const std::vector<StageNeeds>& needs) {
  for (int v = 0; v < plan_.placement.virtual_stages(); ++v) {
    const StageChunk at = plan_.placement.at(v);
    const ChunkNeeds& slots = needs[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
    for (int i = 0; i < slots.activation_slots; ++i) return_credit(InputKind::activation, v);
    for (int i = 0; i < slots.gradient_slots; ++i) return_credit(InputKind::gradient, v);
    target_slots_ += slots.target_slots;
  }
}

// A slot of the queue into virtual stage v is free.
void Simulation::return_credit(InputKind kind, int v) {
  if (kind == InputKind::activation && v == 0) {
    ++token_slots_;
    return;
  }
  const StageChunk sender = plan_.placement.at(kind == InputKind::activation ? v - 1 : v + 1);
  stage(sender.stage).protocol.credit_returned(kind, sender.chunk);
  want_pump(sender.stage);
}

// The feeders are never late: they fill what is free at once.
void Simulation::feed() {
  const int last = plan_.placement.virtual_stages() - 1;
  for (; fed_tokens_ < plan_.microbatches && token_slots_ > 0; --token_slots_) {
    arrivals(0).activation[static_cast<std::size_t>(fed_tokens_)] = now_;
    deliver(InputKind::activation, 0, fed_tokens_++);
  }
  for (; fed_targets_ < plan_.microbatches && target_slots_ > 0; --target_slots_)
    deliver(InputKind::target, last, fed_targets_++);
}

void Simulation::deliver(InputKind kind, int v, int microbatch) {
  const StageChunk to = plan_.placement.at(v);
  stage(to.stage).protocol.input_arrived(kind, to.chunk, microbatch);
  want_pump(to.stage);
}

void Simulation::want_pump(int s) {
  if (stage(s).queued_to_pump) return;
  stage(s).queued_to_pump = true;
  to_pump_.push_back(s);
}

void Simulation::pump_all() {
  while (!to_pump_.empty()) {
    const int s = to_pump_.back();
    to_pump_.pop_back();
    stage(s).queued_to_pump = false;
    while (!stage(s).at_collective) {
      const auto action = stage(s).protocol.next();
      if (!action) break;
      launch(s, *action);
    }
  }
}

double Simulation::cost(int s, const Action& action) const {
  const double time = costs_.of(s, action);
  return options_.jitter == 0 ? time : time * std::exp(options_.jitter * normal(options_.seed, s, action));
}

void Simulation::launch(int s, const Action& action) {
  Stage& at = stage(s);
  const int v = virtual_stage(s, action);
  Span span{action, WaitedFor::nothing, at.free_at, 0};
  const auto wait = [&](double time, WaitedFor reason) {
    if (time > span.start) span.start = time, span.waited_for = reason;
  };
  if (action.kind == ActionKind::forward)
    wait(arrivals(v).activation[static_cast<std::size_t>(action.microbatch)], WaitedFor::activation);
  if (is_input_grad(action.kind) && v + 1 < plan_.placement.virtual_stages())
    wait(arrivals(v).gradient[static_cast<std::size_t>(action.microbatch)], WaitedFor::gradient);
  wait(now_, is_compute(action.kind) ? WaitedFor::slot : WaitedFor::partner);
  spans(s).push_back(span);
  if (action.kind == ActionKind::sum_tied && tied_holders_ > 1) {
    join_tied(s);
    return;
  }
  announce(s, action, span.start + cost(s, action));
}

// The end of the last launched action is known: tells whoever may already know of it.
void Simulation::announce(int s, const Action& action, double end) {
  Stage& at = stage(s);
  spans(s).back().end = at.free_at = end;
  if (spans(s).size() == at.completed + 1) events_.push({end, s, 0, EventType::completion});
  if (!is_compute(action.kind)) return;
  const int v = virtual_stage(s, action), m = action.microbatch;
  const bool is_planned = options_.order == Order::planned;
  if (action.kind == ActionKind::forward && v + 1 < plan_.placement.virtual_stages()) {
    const double arrival = end + costs_.transfer(v);
    arrivals(v + 1).activation[static_cast<std::size_t>(m)] = arrival;
    is_planned ? deliver(InputKind::activation, v + 1, m) : events_.push({arrival, v + 1, m, EventType::activation});
  }
  if (is_input_grad(action.kind) && v > 0) {
    const double arrival = end + costs_.transfer(v - 1);
    arrivals(v - 1).gradient[static_cast<std::size_t>(m)] = arrival;
    is_planned ? deliver(InputKind::gradient, v - 1, m) : events_.push({arrival, v - 1, m, EventType::gradient});
  }
}

// T runs on all its stages together once the last has come to it.
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
    want_pump(partner);
  }
}

void Simulation::handle(const Event& event) {
  if (event.type == EventType::activation) return deliver(InputKind::activation, event.place, event.microbatch);
  if (event.type == EventType::gradient) return deliver(InputKind::gradient, event.place, event.microbatch);
  const int s = event.place;
  Stage& at = stage(s);
  complete(s, spans(s)[at.completed].action);
  ++at.completed;
  if (at.completed < spans(s).size() && !at.at_collective)
    events_.push({spans(s)[at.completed].end, s, 0, EventType::completion});
  want_pump(s);
}

void Simulation::complete(int s, const Action& action) {
  stage(s).protocol.completed(action);
  if (action.kind == ActionKind::norm && ++norms_ == plan_.placement.stages()) {
    now_ += costs_.verdict;  // nothing else goes on between the last norm and the verdict
    for (int other = 0; other < norms_; ++other) stage(other).protocol.verdict(true), want_pump(other);
  }
  if (!is_compute(action.kind)) return;
  const int v = virtual_stage(s, action);
  if (frees(options_.life.activation, action.kind)) {
    return_credit(InputKind::activation, v);
    if (v + 1 == plan_.placement.virtual_stages()) ++target_slots_;
    if (v == 0 || v + 1 == plan_.placement.virtual_stages()) feed();
  }
  if (frees(options_.life.gradient, action.kind) && v + 1 < plan_.placement.virtual_stages())
    return_credit(InputKind::gradient, v);
}

Timeline Simulation::run() {
  for (int s = 0; s < plan_.placement.stages(); ++s) stage(s).protocol.begin_step(), want_pump(s);
  feed();
  pump_all();
  while (!events_.empty()) {
    now_ = events_.top().time;
    // All that happens at one instant is known before anybody chooses.
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

JitterResult simulate_jitter(const Plan& plan, const Costs& costs, int runs, const SimulationOptions& options) {
  if (runs < 1) throw std::invalid_argument("runs must be at least 1, not " + std::to_string(runs));
  if (!std::isfinite(options.jitter) || options.jitter < 0)
    throw std::invalid_argument("jitter must be zero or more and finite, not " + std::to_string(options.jitter));
  const auto needs = validate(plan, options.order, options.life);
  JitterResult result;
  SimulationOptions one = options;
  for (int run = 0; run < runs; ++run, ++one.seed)
    result.makespans.push_back(summarize(simulate(plan, costs, needs, one)).makespan);
  std::vector<double> sorted = result.makespans;
  std::sort(sorted.begin(), sorted.end());
  const auto n = sorted.size();
  result.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  result.p95 = sorted[static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(n))) - 1];
  return result;
}

}  // namespace pipetrain::schedules
