// Actors on a thread that is none of the scheduler's. A message that a compute's thread sends wakes an actor; by way of the
// scheduler a thread of its must wake first, which takes longer than what the actor does then.
#pragma once

#include <cstddef>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

#include "actors/engine/caf.hpp"

namespace pipetrain {

// An actor whose work on a message is short and calls nobody's code that might wait: any thread may do it.
class BriefActor {
 public:
  virtual ~BriefActor() = default;
  virtual bool is_brief() const { return true; }  // never changes
};

// Runs the brief actors that its messages wake, and those that they wake in turn, on the thread that calls it; other actors go
// to the scheduler. One thread at a time.
class ActorRunner : public caf::execution_unit {
 public:
  explicit ActorRunner(caf::actor_system& system) : caf::execution_unit(&system) {}
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
  // Where a BriefActor lies in objects of a type, in bytes behind their resumable; nothing in those that are none.
  struct Type {
    const std::type_info* info;
    std::optional<std::ptrdiff_t> brief;
  };

  const BriefActor* as_brief(const caf::resumable* job);
  void run();

  std::vector<Type> types_;
  std::vector<caf::resumable*> jobs_;  // each with a reference
};

}  // namespace pipetrain
