// Makes, connects and ends the actors of a pipeline, or of the part of it that runs in this process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/engine/protocol.hpp"
#include "actors/engine/remote/remote_edges.hpp"

namespace pipetrain {

class PipelineActors {
 public:
  PipelineActors(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source);
  ~PipelineActors();
  PipelineActors(const PipelineActors&) = delete;
  PipelineActors& operator=(const PipelineActors&) = delete;

  const caf::actor& supervisor() const { return supervisor_; }  // a RemoteSupervisorActor outside process 0
  const caf::actor& stage(StageId id) const { return stages_[index(id)]; }
  const std::vector<schedules::StageNeeds>& needs() const { return needs_; }
  bool leads() const { return process_ == 0; }
  void follow();
  bool follow_for(std::chrono::milliseconds patience);
  RunRecorder* recorder() const { return options_.recorder.get(); }

 private:
  // CAF aborts or hangs when it can start only some of its threads: the scheduler's, a clock and a printer. So this
  // tries them first.
  struct OwnSystem {
    OwnSystem();
    caf::actor_system_config config;
    std::optional<caf::actor_system> system;
  };
  struct Connection {
    caf::actor queue;
    ConnectQueue ends;
  };
  // The receiving end of a queue in this process.
  struct Inlet {
    caf::actor queue;
    std::vector<SlotHandle> slots;
  };
  // One edge of a replica: the consuming virtual stage, its part, and the kind of payload.
  struct Edge {
    int replica = 0, virtual_stage = 0, part = 0;
    schedules::InputKind kind = schedules::InputKind::activation;
    auto operator<=>(const Edge&) const = default;
  };

  const schedules::Placement& placement() const { return plan_->placement; }
  std::size_t index(const StageId& id) const { return static_cast<std::size_t>(parts_.rank(coordinate(id))); }
  StageId id_of(int rank) const { return stage_id(parts_.at(rank)); }
  StageId stage_of(const Edge& edge, int virtual_stage) const;
  int process_of(const StageId& id) const { return parts_.place(parts_.rank(coordinate(id))).process; }
  bool is_here(const StageId& id) const { return process_of(id) == process_; }
  // Returns no value for a queue that a feeder fills.
  std::optional<int> producer_of(const Edge& edge) const;
  bool comes_from_afar(const Edge& edge) const;
  int slots_of(const Edge& edge) const;
  EdgeId number(const Edge& edge) const;
  caf::actor queue_of(const Edge& edge) const;  // the queue or its remote stand-in; null where there is none
  bool crosses() const { return options_.processes.has_value(); }

  template <class Actor, class... Arguments>
  caf::actor spawn(Arguments&&... arguments) {
    all_.push_back(system_.spawn<Actor>(std::forward<Arguments>(arguments)...));
    return all_.back();
  }

  void build(const ComputeFactory& make_compute, const SourceFactory& make_source);
  schedules::RecordedRun recorded_run() const;
  void spawn_supervisor();
  void make_queues(const StageId& id, StageCompute& compute);
  void make_queue(const Edge& edge, StageCompute& compute);
  void open_edges();
  EdgeReceiver receiver_of(const Edge& edge, const Inlet& inlet);
  void add_senders(const StageId& id, std::vector<EdgeSender>& senders);
  EdgeSender sender_of(const Edge& edge, const StageId& producer);
  void spawn_stage(const StageId& id);
  void spawn_remote_actors();
  void spawn_feeders(const SourceFactory& make_source);
  void open_mailboxes();
  void connect_queues();
  void attach();
  void on_abort(const Failure& cause) const;
  void leave_run();
  void stop();

  PipelineOptions options_;  // without the plan
  std::shared_ptr<const schedules::Plan> plan_;
  std::vector<schedules::StageNeeds> needs_;
  Mesh parts_;  // {.dp = replicas, .pp = stages, .part = parts of each}
  int process_ = 0;
  std::unique_ptr<OwnSystem> own_system_;
  caf::actor_system& system_;

  std::map<std::size_t, std::shared_ptr<StageCompute>> computes_;  // of this process, by rank of parts_
  std::map<Edge, Inlet> inlets_;                                   // of this process
  std::map<Edge, caf::actor> remote_queues_, remote_producers_;
  std::map<EdgeId, std::shared_ptr<EdgeMailbox>> mailboxes_;
  std::map<Edge, std::shared_ptr<std::vector<SlotHandle>>> mirrors_;  // of edges to other processes, once they are open
  caf::actor supervisor_;
  // By rank of parts_; remote stand-ins in process 0 and null elsewhere for stages of other processes.
  std::vector<caf::actor> stages_;
  std::map<std::pair<int, int>, caf::actor> feeders_;  // of this process, by replica and part
  std::vector<caf::actor> remote_feeders_;
  std::vector<caf::actor> all_;
  std::optional<std::future<void>> end_;
};

}  // namespace pipetrain
