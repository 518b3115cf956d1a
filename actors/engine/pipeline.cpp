#include "actors/engine/pipeline.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "actors/engine/feeder.hpp"
#include "actors/engine/protocol.hpp"
#include "actors/engine/queue.hpp"
#include "actors/engine/stage.hpp"
#include "actors/engine/supervisor.hpp"
#include "core/thread_limit.hpp"

namespace pipetrain {

using schedules::InputKind;
using schedules::Placement;
using schedules::StageChunk;

class Pipeline::Actors {
 public:
  Actors(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source)
      : options_(std::move(options)),
        plan_(std::make_shared<const schedules::Plan>(std::move(options_.plan))),
        needs_(options_.needs.empty() ? schedules::validate(*plan_, options_.order, options_.slot_life)
                                      : std::move(options_.needs)),
        mesh_({.dp = options_.replicas, .pp = plan_->placement.stages()}),
        own_system_(options_.system == nullptr ? std::make_unique<OwnSystem>() : nullptr),
        system_(options_.system == nullptr ? *own_system_->system : *options_.system) {
    try {
      build(make_compute, make_source);
    } catch (...) {  // the system's end would wait for those that are there already
      stop();
      throw;
    }
  }

  ~Actors() { stop(); }

  const caf::actor& supervisor() const { return supervisor_; }
  const caf::actor& stage(StageId id) const { return stages_[static_cast<std::size_t>(mesh_.rank(coordinate(id)))]; }
  const std::vector<schedules::StageNeeds>& needs() const { return needs_; }

 private:
  // CAF ends the process or hangs when only some of its threads can be started: its scheduler's, a clock and a printer.
  struct OwnSystem {
    OwnSystem() {
      check_threads(std::max(4, static_cast<int>(std::thread::hardware_concurrency())) + 2);
      system.emplace(config);
    }
    caf::actor_system_config config;
    std::optional<caf::actor_system> system;
  };
  struct Connection {
    caf::actor queue;
    ConnectQueue ends;
  };
  // The queues that a chunk consumes from, before anybody is connected.
  struct ChunkInputs {
    caf::actor activations, gradients, targets;
  };

  int stages() const { return plan_->placement.stages(); }
  int chunks() const { return plan_->placement.chunks(); }

  template <class Actor, class... Arguments>
  caf::actor spawn(Arguments&&... arguments) {
    all_.push_back(system_.spawn<Actor>(std::forward<Arguments>(arguments)...));
    return all_.back();
  }

  void build(const ComputeFactory& make_compute, const SourceFactory& make_source) {
    supervisor_ = spawn<SupervisorActor>(
        SupervisorSetup{mesh_, options_.grace, options_.virtual_time ? std::chrono::milliseconds(0) : options_.stall});
    ConnectSupervisor members;
    for (int replica = 0; replica < options_.replicas; ++replica) build_replica(replica, make_compute, make_source, members);
    stages_ = members.stages;
    caf::anon_send(supervisor_, std::move(members));
    for (auto& connection : connections_) caf::anon_send(connection.queue, connection.ends);
    connections_.clear();
  }

  void stop() {
    for (auto& actor : all_) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    if (options_.virtual_time) return;
    caf::scoped_actor self(system_);
    self->wait_for(all_);
  }

  void build_replica(int replica, const ComputeFactory& make_compute, const SourceFactory& make_source,
                     ConnectSupervisor& members) {
    std::vector<std::shared_ptr<StageCompute>> computes;
    std::vector<std::vector<ChunkInputs>> inputs(static_cast<std::size_t>(stages()));
    for (int stage = 0; stage < stages(); ++stage) {
      computes.push_back(make_compute({replica, stage}, needs_[static_cast<std::size_t>(stage)]));
      for (int chunk = 0; chunk < chunks(); ++chunk) {
        inputs[static_cast<std::size_t>(stage)].push_back(make_queues(*computes.back(), {stage, chunk}));
      }
    }
    std::vector<caf::actor> stage_actors;
    for (int stage = 0; stage < stages(); ++stage) {
      stage_actors.push_back(spawn_stage({replica, stage}, std::move(computes[static_cast<std::size_t>(stage)]), inputs));
    }
    const auto& last_inputs = at(inputs, placement().at(placement().virtual_stages() - 1));
    const auto feeder = spawn<FeederActor>(replica, make_source(replica), at(inputs, placement().at(0)).activations,
                                           last_inputs.targets, supervisor_);
    for (int v = 0; v < placement().virtual_stages(); ++v) connect(v, inputs, stage_actors, feeder);
    members.stages.insert(members.stages.end(), stage_actors.begin(), stage_actors.end());
    members.feeders.push_back(feeder);
  }

  const Placement& placement() const { return plan_->placement; }

  static const ChunkInputs& at(const std::vector<std::vector<ChunkInputs>>& inputs, StageChunk where) {
    return inputs[static_cast<std::size_t>(where.stage)][static_cast<std::size_t>(where.chunk)];
  }

  ChunkInputs make_queues(StageCompute& compute, StageChunk where) {
    const auto& needs = needs_[static_cast<std::size_t>(where.stage)].chunks[static_cast<std::size_t>(where.chunk)];
    const int v = placement().virtual_stage(where.stage, where.chunk);
    const int last = placement().virtual_stages() - 1;
    const auto make_queue = [&](InputKind kind, int producer, int slots) {
      const int producer_chunk = producer < 0 ? 0 : placement().at(producer).chunk;
      return spawn<QueueActor>(QueueRoute{kind, where.chunk, producer_chunk}, compute.make_slots(kind, where.chunk, slots));
    };
    ChunkInputs inputs;
    inputs.activations = make_queue(InputKind::activation, v - 1, needs.activation_slots);
    if (v < last) inputs.gradients = make_queue(InputKind::gradient, v + 1, needs.gradient_slots);
    if (v == last) inputs.targets = make_queue(InputKind::target, -1, needs.target_slots);
    return inputs;
  }

  caf::actor spawn_stage(StageId id, std::shared_ptr<StageCompute> compute,
                         const std::vector<std::vector<ChunkInputs>>& inputs) {
    StageSetup setup;
    setup.id = id;
    setup.plan = plan_;
    setup.order = options_.order;
    setup.slot_life = options_.slot_life;
    setup.run_ahead = options_.run_ahead;
    setup.compute = std::move(compute);
    setup.supervisor = supervisor_;
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      const int v = placement().virtual_stage(id.stage, chunk);
      const auto& own = at(inputs, {id.stage, chunk});
      StageSetup::ChunkQueues queues{own.activations, own.gradients, own.targets, nullptr, nullptr, -1, -1};
      if (v + 1 < placement().virtual_stages()) {
        const StageChunk next = placement().at(v + 1);
        queues.next_activations = at(inputs, next).activations;
        if (next.stage == id.stage) queues.own_next_chunk = next.chunk;
      }
      if (v > 0) {
        const StageChunk previous = placement().at(v - 1);
        queues.previous_gradients = at(inputs, previous).gradients;
        if (previous.stage == id.stage) queues.own_previous_chunk = previous.chunk;
      }
      setup.chunks.push_back(std::move(queues));
    }
    return spawn<StageActor>(std::move(setup));
  }

  // The queues that virtual stage v consumes from get their two ends.
  void connect(int v, const std::vector<std::vector<ChunkInputs>>& inputs, const std::vector<caf::actor>& stage_actors,
               const caf::actor& feeder) {
    const auto stage_of = [&](int virtual_stage) {
      return stage_actors[static_cast<std::size_t>(placement().at(virtual_stage).stage)];
    };
    const auto& queues = at(inputs, placement().at(v));
    connections_.push_back({queues.activations, {v == 0 ? feeder : stage_of(v - 1), stage_of(v)}});
    if (queues.gradients) connections_.push_back({queues.gradients, {stage_of(v + 1), stage_of(v)}});
    if (queues.targets) connections_.push_back({queues.targets, {feeder, stage_of(v)}});
  }

  PipelineOptions options_;  // but for the plan
  std::shared_ptr<const schedules::Plan> plan_;
  std::vector<schedules::StageNeeds> needs_;
  Mesh mesh_;  // of stages
  std::unique_ptr<OwnSystem> own_system_;
  caf::actor_system& system_;
  caf::actor supervisor_;
  std::vector<caf::actor> stages_;  // replica-major
  std::vector<caf::actor> all_;
  std::vector<Connection> connections_;
};

Pipeline::Pipeline(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source)
    : actors_(std::make_unique<Actors>(std::move(options), make_compute, make_source)) {}

Pipeline::~Pipeline() = default;

std::future<StepOutcome> Pipeline::start_step(const StepInfo& info, Decide decide) {
  auto outcome = std::make_shared<std::promise<StepOutcome>>();
  auto future = outcome->get_future();
  caf::anon_send(actors_->supervisor(), StartStep{info, std::move(decide), std::move(outcome)});
  return future;
}

StepOutcome Pipeline::step(const StepInfo& info, Decide decide) { return start_step(info, std::move(decide)).get(); }

std::vector<std::string> Pipeline::waiting() {
  auto answer = std::make_shared<std::promise<std::vector<std::string>>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(), AskWaiting{std::move(answer)});
  if (future.wait_for(std::chrono::seconds(2)) != std::future_status::ready) return {};
  return future.get();
}

std::vector<MemoryUse> Pipeline::memory() {
  auto answer = std::make_shared<std::promise<std::vector<MemoryUse>>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(), AskMemory{std::move(answer)});
  return future.get();
}

std::future<void> Pipeline::read_state(StageId id, StatePart part, float* out) {
  auto answer = std::make_shared<std::promise<void>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(), AskState{id, std::move(part), out, std::move(answer)});
  return future;
}

void Pipeline::finish_step(std::chrono::milliseconds patience) { caf::anon_send(actors_->supervisor(), FinishStep{patience}); }

void Pipeline::abort(std::exception_ptr cause) { caf::anon_send(actors_->supervisor(), Failed{"", failure_of(cause)}); }

void Pipeline::stop_stage(StageId id) { caf::anon_send_exit(actors_->stage(id), caf::exit_reason::kill); }

const std::vector<schedules::StageNeeds>& Pipeline::needs() const { return actors_->needs(); }

}  // namespace pipetrain
