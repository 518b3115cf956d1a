// The two ends of queues whose producer runs in another process: a queue for the one, a producer for the other.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "actors/engine/protocol.hpp"
#include "comm/transport.hpp"

namespace pipetrain {

// In the producer's process, the queue: hands what its mirrors hold to the transport.
class RemoteQueueActor : public caf::event_based_actor {
 public:
  // The transport has the edge, and outlives this.
  RemoteQueueActor(caf::actor_config& config, Transport& transport, EdgeId edge);

  caf::behavior make_behavior() override;
  const char* name() const override { return "remote queue"; }

 private:
  Transport& transport_;
  EdgeId edge_;
  std::unordered_map<const Slot*, int> numbers_;
};

// In the consumer's process, the producer: gives it the queue's credits.
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

// Where a transport's threads hand over what has come, while there are actors. Thread-safe.
class EdgeMailbox {
 public:
  // Nothing must come before; what comes after close() is dropped.
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
