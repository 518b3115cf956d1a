// Stand-ins for the far end of a queue that crosses processes: one for the queue, one for its producer.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "actors/engine/protocol.hpp"
#include "comm/transport.hpp"

namespace pipetrain {

// Stands for the queue in the producer's process: gives the contents of filled mirrors to the transport.
class RemoteQueueActor : public caf::event_based_actor {
 public:
  // The transport must know the edge and outlive this actor.
  RemoteQueueActor(caf::actor_config& config, Transport& transport, EdgeId edge);

  caf::behavior make_behavior() override;
  const char* name() const override { return "remote queue"; }

 private:
  Transport& transport_;
  EdgeId edge_;
  std::unordered_map<const Slot*, int> numbers_;
};

// Stands for the producer in the consumer's process: gives the queue's credits to the transport.
class RemoteProducerActor : public caf::event_based_actor {
 public:
  RemoteProducerActor(caf::actor_config& config, Transport& transport, EdgeId edge, const std::vector<SlotHandle>& slots);

  caf::behavior make_behavior() override;
  const char* name() const override { return "remote producer"; }

 private:
  Transport& transport_;
  EdgeId edge_;
  std::unordered_map<const Slot*, int> numbers_;
};

// Passes what a transport's threads receive to an actor while it exists. Thread-safe.
class EdgeMailbox {
 public:
  // Nothing may arrive before open(); whatever arrives after close() is dropped.
  void open(caf::actor actor);
  void close();
  template <class Message>
  void post(Message message) {
    const std::lock_guard lock(mutex_);
    if (actor_) caf::anon_send(actor_, std::move(message));
  }

 private:
  std::mutex mutex_;
  caf::actor actor_;
};

}  // namespace pipetrain
