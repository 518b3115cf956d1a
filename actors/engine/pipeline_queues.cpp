#include "actors/engine/pipeline_queues.hpp"

#include "actors/engine/queue.hpp"
#include "core/error.hpp"

namespace pipetrain {

using schedules::InputKind;

StageId PipelineQueues::stage_of(const Edge& edge, int virtual_stage) const {
  return {edge.replica, places_.placement().at(virtual_stage).stage, edge.part};
}

std::optional<int> PipelineQueues::producer_of(const Edge& edge) const {
  if (edge.kind == InputKind::gradient) return edge.virtual_stage + 1;
  if (edge.kind == InputKind::target || edge.virtual_stage == 0) return std::nullopt;
  return edge.virtual_stage - 1;
}

bool PipelineQueues::comes_from_afar(const Edge& edge) const {
  const auto producer = producer_of(edge);
  return producer && !places_.is_here(stage_of(edge, *producer));
}

// Numbers the edges that can cross processes: those of activations and gradients.
EdgeId PipelineQueues::number(const Edge& edge) const {
  const int virtual_stage = edge.replica * places_.virtual_stages() + edge.virtual_stage;
  const int kind = edge.kind == InputKind::gradient ? 1 : 0;
  return static_cast<EdgeId>((virtual_stage * 2 + kind) * places_.parts.shape().part + edge.part);
}

caf::actor PipelineQueues::queue_of(const Edge& edge) const {
  if (const auto inlet = inlets_.find(edge); inlet != inlets_.end()) return inlet->second.queue;
  const auto remote = remote_queues_.find(edge);
  return remote == remote_queues_.end() ? nullptr : remote->second;
}

int PipelineQueues::slots_of(const Edge& edge) const {
  const schedules::StageChunk consumer = places_.placement().at(edge.virtual_stage);
  const auto& needs = needs_[static_cast<std::size_t>(consumer.stage)].chunks[static_cast<std::size_t>(consumer.chunk)];
  return edge.kind == InputKind::activation ? needs.activation_slots
         : edge.kind == InputKind::gradient ? needs.gradient_slots
                                            : needs.target_slots;
}

void PipelineQueues::make(const StageId& id, StageCompute& compute) {
  const int last = places_.virtual_stages() - 1;
  for (int chunk = 0; chunk < places_.placement().chunks(); ++chunk) {
    const int v = places_.placement().virtual_stage(id.stage, chunk);
    make_queue({id.replica, v, id.part, InputKind::activation}, compute);
    if (v < last) make_queue({id.replica, v, id.part, InputKind::gradient}, compute);
    if (v == last) make_queue({id.replica, v, id.part, InputKind::target}, compute);
  }
}

void PipelineQueues::make_queue(const Edge& edge, StageCompute& compute) {
  const auto producer = producer_of(edge);
  const QueueRoute route{edge.kind, places_.placement().at(edge.virtual_stage).chunk,
                         producer ? places_.placement().at(*producer).chunk : 0};
  Inlet& inlet = inlets_[edge];
  inlet.slots = compute.make_slots(edge.kind, route.consumer_chunk, slots_of(edge));
  inlet.queue = actors_.spawn<QueueActor>(route, inlet.slots);
}

void PipelineQueues::open_edges(Transport* transport, const Computes& computes) {
  std::vector<EdgeReceiver> receivers;
  std::vector<EdgeSender> senders;
  for (const auto& [edge, inlet] : inlets_) {
    if (comes_from_afar(edge) && slots_of(edge) > 0) receivers.push_back(receiver_of(edge, inlet));
  }
  for (const auto& [rank, compute] : computes) add_senders(places_.id_of(static_cast<int>(rank)), *compute, senders);
  if (transport == nullptr) {
    if (receivers.empty() && senders.empty()) return;
    throw Error(ErrorKind::internal, "the stages run in several processes without a transport between them");
  }
  transport->open_edges(std::move(receivers), std::move(senders));
  for (auto& [edge, mirrors] : mirrors_) *mirrors = transport->mirrors(number(edge));
  for (auto& [edge, remote] : remote_queues_) remote = actors_.spawn<RemoteQueueActor>(*transport, number(edge));
  for (auto& [edge, remote] : remote_producers_)
    remote = actors_.spawn<RemoteProducerActor>(*transport, number(edge), inlets_.at(edge).slots);
}

// Received payloads go to the queue, which exists already.
EdgeReceiver PipelineQueues::receiver_of(const Edge& edge, const Inlet& inlet) {
  remote_producers_[edge];  // spawned once the transport knows the edge
  auto& mailbox = mailboxes_[number(edge)] = std::make_shared<EdgeMailbox>();
  mailbox->open(inlet.queue);
  return {number(edge), places_.process_of(stage_of(edge, *producer_of(edge))), inlet.slots,
          [mailbox, slots = inlet.slots](int slot, int microbatch) {
            mailbox->post(Filled{microbatch, slots[static_cast<std::size_t>(slot)]});
          }};
}

void PipelineQueues::add_senders(const StageId& id, const StageCompute& compute, std::vector<EdgeSender>& senders) {
  for (int chunk = 0; chunk < places_.placement().chunks(); ++chunk) {
    const int v = places_.placement().virtual_stage(id.stage, chunk);
    const Edge next{id.replica, v + 1, id.part, InputKind::activation},
        previous{id.replica, v - 1, id.part, InputKind::gradient};
    for (const Edge& edge : {next, previous}) {
      if (edge.virtual_stage < 0 || edge.virtual_stage == places_.virtual_stages()) continue;
      if (!places_.is_here(stage_of(edge, edge.virtual_stage)) && slots_of(edge) > 0)
        senders.push_back(sender_of(edge, compute));
    }
  }
}

// Credits go to the stage, which exists before any credit is given. One may still arrive while edges are being closed,
// when the transport has no mirrors any more.
EdgeSender PipelineQueues::sender_of(const Edge& edge, const StageCompute& producer) {
  remote_queues_[edge];
  const EdgeId id = number(edge);
  auto& mailbox = mailboxes_[id] = std::make_shared<EdgeMailbox>();
  auto& mirrors = mirrors_[edge] = std::make_shared<std::vector<SlotHandle>>();
  auto sources = producer.lane_sources();
  const int chunk = places_.placement().at(*producer_of(edge)).chunk;
  return {id, places_.process_of(stage_of(edge, edge.virtual_stage)), std::move(sources.devices), std::move(sources.ranks),
          [mailbox, mirrors, chunk, kind = edge.kind](int slot) {
            mailbox->post(Credit{kind, chunk, mirrors->at(static_cast<std::size_t>(slot))});
          }};
}

void PipelineQueues::open_mailboxes(const std::vector<caf::actor>& stages) {
  for (auto& [edge, remote] : remote_queues_)
    mailboxes_.at(number(edge))->open(stages[places_.index(stage_of(edge, *producer_of(edge)))]);
}

// An edge without slots (of a plan without backwards) never crosses.
void PipelineQueues::connect(const std::vector<caf::actor>& stages, const Feeders& feeders) {
  for (const auto& [edge, inlet] : inlets_) {
    if (comes_from_afar(edge) && slots_of(edge) == 0) continue;
    const auto producer = producer_of(edge);
    caf::actor from;
    if (!producer) {
      from = feeders.at({edge.replica, edge.part});
    } else if (const auto remote = remote_producers_.find(edge); remote != remote_producers_.end()) {
      from = remote->second;
    } else {
      from = stages[places_.index(stage_of(edge, *producer))];
    }
    caf::anon_send(inlet.queue, ConnectQueue{from, stages[places_.index(stage_of(edge, edge.virtual_stage))]});
  }
}

void PipelineQueues::close_mailboxes() {
  for (auto& [edge, mailbox] : mailboxes_) mailbox->close();
}

}  // namespace pipetrain
