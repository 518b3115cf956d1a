// Runs actors on a thread outside the scheduler. A message from a compute's thread wakes an actor; sent through the
// scheduler, it would first have to wake one of the scheduler's threads, which takes longer than the actor's own work.
#pragma once

#include <utility>
#include <vector>

#include "actors/engine/caf.hpp"

namespace pipetrain {

// An actor that handles each message quickly and calls no foreign code that might wait: any thread may run it.
class BriefActor {
 public:
  virtual ~BriefActor() = default;
  virtual bool is_brief() const { return true; }  // never changes
  // True where the actor only forwards messages, so that it may run while another actor handles a message. Never changes.
  virtual bool only_passes_on() const { return false; }
};

// Returns null where the actor is not a BriefActor. Thread-safe.
const BriefActor* as_brief(const caf::resumable* job);

// Runs the brief actors that its messages wake, and those that they wake in turn, on the calling thread; other actors
// go to the scheduler. One thread at a time.
class ActorRunner : public caf::execution_unit {
 public:
  explicit ActorRunner(caf::actor_system& system);
  ~ActorRunner() override;
  ActorRunner(const ActorRunner&) = delete;
  ActorRunner& operator=(const ActorRunner&) = delete;

  // Returns when none of these actors has anything left to do.
  template <class Message>
  void send(const caf::actor& to, Message message) {
    caf::actor_cast<caf::strong_actor_ptr>(to)->enqueue(
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message)), this);
    run();
  }

  void exec_later(caf::resumable* job) override;

 private:
  void run();

  std::vector<caf::resumable*> jobs_;  // each with a reference
};

// The execution unit of an actor that handles a message: actors that only forward messages run at once on this thread,
// all others go to `unit`. A queue's work takes less time than handing it to another thread.
class ForwardingUnit : public caf::execution_unit {
 public:
  explicit ForwardingUnit(caf::execution_unit& unit) : caf::execution_unit(&unit.system()), unit_(unit) {}

  void exec_later(caf::resumable* job) override;

 private:
  caf::execution_unit& unit_;
};

}  // namespace pipetrain
