#include "actors/engine/pipeline_actors.hpp"

#include <utility>

#include "actors/engine/feeder.hpp"
#include "actors/engine/remote/dispatcher.hpp"
#include "actors/engine/remote/remote_stage.hpp"
#include "actors/engine/remote/remote_supervisor.hpp"
#include "actors/engine/stage.hpp"
#include "actors/engine/supervisor.hpp"
#include "core/error.hpp"
#include "core/thread_limit.hpp"

namespace pipetrain {

using schedules::InputKind;
using schedules::StageChunk;

namespace {

Mesh mesh_of_parts(const PipelineOptions& options, int stages) {
  if (!options.processes) return Mesh({.dp = options.replicas, .pp = stages});
  const MeshShape& shape = options.processes->parts.shape();
  if (shape.dp != options.replicas || shape.pp != stages)
    throw Error(ErrorKind::internal, "the mesh of parts has other stages than the pipeline");
  if (shape.part > 1 && options.order != schedules::Order::planned)
    throw Error(ErrorKind::input, {"order", "ready"},
                "the ranks of a stage run in several processes, which could choose different orders; use planned");
  return options.processes->parts;
}

// Takes the plan out of the options.
StagePlaces places_of(PipelineOptions& options) {
  const auto plan = std::make_shared<const schedules::Plan>(std::move(options.plan));
  return {plan, mesh_of_parts(options, plan->placement.stages()),
          options.processes ? options.processes->channel->process() : 0};
}

}  // namespace

PipelineActors::OwnSystem::OwnSystem() {
  check_threads(let_idle_threads_sleep(config) + 2);
  system.emplace(config);
}

PipelineActors::PipelineActors(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source)
    : options_(std::move(options)),
      places_(places_of(options_)),
      needs_(options_.needs.empty() ? schedules::validate(*places_.plan, options_.order, options_.slot_life)
                                    : std::move(options_.needs)),
      own_system_(options_.system == nullptr ? std::make_unique<OwnSystem>() : nullptr),
      actors_{options_.system == nullptr ? *own_system_->system : *options_.system},
      queues_(places_, needs_, actors_),
      stages_(static_cast<std::size_t>(places_.parts.size())) {
  try {
    build(make_compute, make_source);
  } catch (...) {  // otherwise the destructor of the system waits for the actors that were made
    stop();
    throw;
  }
}

PipelineActors::~PipelineActors() {
  if (crosses() && options_.processes->channel->running()) leave_run();
  stop();
}

// Process 0 ends the run. Another process that leaves earlier counts as lost, unless it has failed.
void PipelineActors::leave_run() {
  EngineChannel& channel = *options_.processes->channel;
  if (!leads()) {
    Failure left{ErrorKind::aborted, "it left the run before its end", to_string(channel.control().info(places_.process))};
    if (end_->valid()) channel.send(0, {{}, ProcessFailed{std::move(left)}});
    return;
  }
  for (int other = 1; other < channel.processes(); ++other) channel.send(other, {{}, RunEnds{}});
  channel.end_run();
}

void PipelineActors::follow() {
  end_.value().get();
  options_.processes->channel->end_run();
}

bool PipelineActors::follow_for(std::chrono::milliseconds patience) {
  if (end_.value().wait_for(patience) != std::future_status::ready) return false;
  follow();
  return true;
}

// Everything that can fail in one process alone comes first. No credit is given and no message sent before the actors
// of every process exist.
void PipelineActors::build(const ComputeFactory& make_compute, const SourceFactory& make_source) {
  spawn_supervisor();
  for (const int rank : places_.parts.ranks_of(places_.process)) {
    const StageId id = places_.id_of(rank);
    const auto compute = computes_[places_.index(id)] = make_compute(id, needs_[static_cast<std::size_t>(id.stage)]);
    queues_.make(id, *compute);
  }
  if (crosses()) queues_.open_edges(options_.processes->transport, computes_);
  for (const int rank : places_.parts.ranks_of(places_.process)) spawn_stage(places_.id_of(rank));
  if (crosses() && leads()) spawn_remote_actors();
  spawn_feeders(make_source);
  ConnectSupervisor members;
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    if (!stages_[rank]) continue;
    members.ids.push_back(places_.id_of(static_cast<int>(rank)));
    members.stages.push_back(stages_[rank]);
  }
  for (const auto& [place, feeder] : feeders_) members.feeders.push_back(feeder);
  members.feeders.insert(members.feeders.end(), remote_feeders_.begin(), remote_feeders_.end());
  caf::anon_send(supervisor_, std::move(members));
  if (crosses()) {
    queues_.open_mailboxes(stages_);
    attach();
    options_.processes->channel->begin_run();
  }
  queues_.connect(stages_, feeders_);
  if (options_.recorder && leads()) options_.recorder->begin(recorded_run());
}

schedules::RecordedRun PipelineActors::recorded_run() const {
  std::vector<int> process_of;
  for (int rank = 0; crosses() && rank < places_.parts.size(); ++rank)
    process_of.push_back(places_.process_of(places_.id_of(rank)));
  return {.plan = *places_.plan,
          .order = options_.order,
          .life = options_.slot_life,
          .needs = needs_,
          .replicas = places_.parts.shape().dp,
          .parts = places_.parts.shape().part,
          .run_ahead = options_.run_ahead,
          .membership = options_.membership,
          .process_of = std::move(process_of)};
}

void PipelineActors::spawn_supervisor() {
  if (leads()) {
    supervisor_ = actors_.spawn<SupervisorActor>(
        SupervisorSetup{places_.plan->placement, places_.parts, options_.grace,
                        options_.virtual_time ? std::chrono::milliseconds(0) : options_.stall, crosses()});
    return;
  }
  RemoteSupervisorActor::Setup setup;
  setup.channel = options_.processes->channel;
  setup.grace = options_.grace;
  setup.end = std::make_shared<std::promise<void>>();
  end_ = setup.end->get_future();
  setup.on_abort = [this](const Failure& cause) { on_abort(cause); };
  setup.state_elements = [this](const StageId& id, const StatePart& part) {
    return computes_.at(places_.index(id))->state_elements(part);
  };
  supervisor_ = actors_.spawn<RemoteSupervisorActor>(std::move(setup));
}

// Messages between processes may be dropped from here on.
void PipelineActors::on_abort(const Failure& cause) const {
  if (Transport* transport = options_.processes->transport) transport->abort(exception_of(cause));
}

void PipelineActors::spawn_remote_actors() {
  for (int rank = 0; rank < places_.parts.size(); ++rank) {
    const StageId id = places_.id_of(rank);
    if (places_.is_here(id)) continue;
    stages_[places_.index(id)] = actors_.spawn<RemoteStageActor>(
        RemoteStageActor::Setup{id, places_.process_of(id), options_.processes->channel, supervisor_,
                                [this](const Failure& cause) { on_abort(cause); }});
  }
  for (int process = 1; process < options_.processes->channel->processes(); ++process)
    remote_feeders_.push_back(actors_.spawn<RemoteFeedersActor>(process, options_.processes->channel));
}

void PipelineActors::spawn_stage(const StageId& id) {
  StageSetup setup;
  setup.id = id;
  setup.plan = places_.plan;
  setup.order = options_.order;
  setup.slot_life = options_.slot_life;
  setup.run_ahead = options_.run_ahead;
  if (!options_.begins_before_verdict.empty())
    setup.begins_before_verdict = options_.begins_before_verdict[static_cast<std::size_t>(id.stage)];
  setup.record = options_.recorder != nullptr;
  setup.replayed = options_.replayed;
  setup.compute = computes_.at(places_.index(id));
  setup.supervisor = supervisor_;
  const auto queue = [&](int virtual_stage, InputKind kind) {
    return queues_.queue_of({id.replica, virtual_stage, id.part, kind});
  };
  for (int chunk = 0; chunk < placement().chunks(); ++chunk) {
    const int v = placement().virtual_stage(id.stage, chunk);
    StageSetup::ChunkQueues queues{
        queue(v, InputKind::activation), queue(v, InputKind::gradient), queue(v, InputKind::target), nullptr, nullptr, -1, -1};
    if (v + 1 < placement().virtual_stages()) {
      queues.next_activations = queue(v + 1, InputKind::activation);
      const StageChunk next = placement().at(v + 1);
      if (next.stage == id.stage) queues.own_next_chunk = next.chunk;
      queues.next_is_elsewhere = !places_.is_here({id.replica, next.stage, id.part});
    }
    if (v > 0) {
      queues.previous_gradients = queue(v - 1, InputKind::gradient);
      const StageChunk previous = placement().at(v - 1);
      if (previous.stage == id.stage) queues.own_previous_chunk = previous.chunk;
    }
    setup.chunks.push_back(std::move(queues));
  }
  stages_[places_.index(id)] = actors_.spawn<StageActor>(std::move(setup));
}

void PipelineActors::spawn_feeders(const SourceFactory& make_source) {
  const int last = placement().virtual_stages() - 1;
  for (int replica = 0; replica < places_.parts.shape().dp; ++replica) {
    for (int part = 0; part < places_.parts.shape().part; ++part) {
      const auto tokens = queues_.queue_of({replica, 0, part, InputKind::activation});
      const auto targets = queues_.queue_of({replica, last, part, InputKind::target});
      if (!tokens && !targets) continue;
      auto source = places_.parts.shape().part > 1 ? options_.processes->make_source(replica, part) : make_source(replica);
      feeders_[{replica, part}] = actors_.spawn<FeederActor>(replica, std::move(source), tokens, targets, supervisor_);
    }
  }
}

void PipelineActors::attach() {
  const PipelineProcesses& processes = *options_.processes;
  DispatchTargets targets;
  targets.channel = processes.channel;
  targets.parts = places_.parts;
  targets.limits = {places_.parts.shape(), placement().chunks(), places_.plan->microbatches,
                    static_cast<int>(places_.plan->custom.size())};
  targets.stages = stages_;
  for (const auto& [place, feeder] : feeders_) targets.feeders.push_back(feeder);
  targets.supervisor = supervisor_;
  processes.channel->attach(leads() ? dispatch_in_process_0(std::move(targets)) : dispatch_elsewhere(std::move(targets)));
}

void PipelineActors::stop() {
  if (crosses()) options_.processes->channel->detach();
  queues_.close_mailboxes();
  for (auto& actor : actors_.all) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  if (options_.virtual_time) return;
  {
    caf::scoped_actor self(actors_.system);
    self->wait_for(actors_.all);
  }
  // The owners of the computes may free the memory of their slots now.
  if (crosses() && options_.processes->transport) options_.processes->transport->close_edges();
}

}  // namespace pipetrain
