// The queues of a pipeline in this process, and the stand-ins for queues and producers of other processes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/engine/protocol.hpp"
#include "actors/engine/remote/remote_edges.hpp"
#include "actors/engine/spawned_actors.hpp"
#include "actors/engine/stage_places.hpp"
#include "comm/transport.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

// Used while a pipeline is set up and ended, on one thread. What the constructor is given must outlive it.
class PipelineQueues {
 public:
  // One edge of a replica: the consuming virtual stage, its part, and the kind of payload.
  struct Edge {
    int replica = 0, virtual_stage = 0, part = 0;
    schedules::InputKind kind = schedules::InputKind::activation;
    auto operator<=>(const Edge&) const = default;
  };
  using Feeders = std::map<std::pair<int, int>, caf::actor>;              // by replica and part
  using Computes = std::map<std::size_t, std::shared_ptr<StageCompute>>;  // by rank of the mesh of parts

  PipelineQueues(const StagePlaces& places, const std::vector<schedules::StageNeeds>& needs, SpawnedActors& actors)
      : places_(places), needs_(needs), actors_(actors) {}

  // Makes the queues that this stage consumes from.
  void make(const StageId& id, StageCompute& compute);
  // Connects the edges to other processes; collective. transport: null only where no edge crosses.
  void open_edges(Transport* transport, const Computes& computes);
  caf::actor queue_of(const Edge& edge) const;  // the queue or its remote stand-in; null where there is none
  // stages: by rank of the mesh of parts.
  void open_mailboxes(const std::vector<caf::actor>& stages);
  // The last step of the set-up: credits flow from here on.
  void connect(const std::vector<caf::actor>& stages, const Feeders& feeders);
  void close_mailboxes();

 private:
  // The receiving end of a queue in this process.
  struct Inlet {
    caf::actor queue;
    std::vector<SlotHandle> slots;
  };

  StageId stage_of(const Edge& edge, int virtual_stage) const;
  // Returns no value for a queue that a feeder fills.
  std::optional<int> producer_of(const Edge& edge) const;
  bool comes_from_afar(const Edge& edge) const;
  int slots_of(const Edge& edge) const;
  EdgeId number(const Edge& edge) const;
  void make_queue(const Edge& edge, StageCompute& compute);
  EdgeReceiver receiver_of(const Edge& edge, const Inlet& inlet);
  void add_senders(const StageId& id, const StageCompute& compute, std::vector<EdgeSender>& senders);
  EdgeSender sender_of(const Edge& edge, const StageCompute& producer);

  const StagePlaces& places_;
  const std::vector<schedules::StageNeeds>& needs_;
  SpawnedActors& actors_;
  std::map<Edge, Inlet> inlets_;
  std::map<Edge, caf::actor> remote_queues_, remote_producers_;
  std::map<EdgeId, std::shared_ptr<EdgeMailbox>> mailboxes_;
  std::map<Edge, std::shared_ptr<std::vector<SlotHandle>>> mirrors_;  // of edges to other processes, once they are open
};

}  // namespace pipetrain
