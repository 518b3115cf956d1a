// Actors on a thread that is none of the scheduler's. A message that a compute's thread sends wakes an actor; by way of the
// scheduler a thread of its must wake first, which takes longer than what the actor does then.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "actors/engine/caf.hpp"

namespace pipetrain {

// An actor whose work on a message is short and calls nobody's code that might wait: any thread may do it.
class BriefActor {
 public:
  virtual ~BriefActor() = default;
  virtual bool is_brief() const { return true; }  // never changes
  // Whether it only turns messages into others, so that it may run in the midst of another actor's turn. Never changes.
  virtual bool only_passes_on() const { return false; }
};

// Null where the actor is none. Thread-safe.
const BriefActor* as_brief(const caf::resumable* job);

// Runs the brief actors that its messages wake, and those that they wake in turn, on the thread that calls it; other actors go
// to the scheduler. One thread at a time.
class ActorRunner : public caf::execution_unit {
 public:
  explicit ActorRunner(caf::actor_system& system);
  ~ActorRunner() override;
  ActorRunner(const ActorRunner&) = delete;
  ActorRunner& operator=(const ActorRunner&) = delete;

  // Returns when none of them has anything to do.
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

// What an actor's turn runs on, in the place of `unit`: those that only pass its messages on do so at once, on this thread, and
// all others go to `unit`. A queue's work takes less time than giving it to another thread.
class PassingTurn : public caf::execution_unit {
 public:
  explicit PassingTurn(caf::execution_unit& unit) : caf::execution_unit(&unit.system()), unit_(unit) {}

  void exec_later(caf::resumable* job) override;

 private:
  caf::execution_unit& unit_;
};

}  // namespace pipetrain
