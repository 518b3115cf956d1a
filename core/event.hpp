// A point in a stream's order that other streams and the host can wait for.
//
// An event may be recorded repeatedly; wait() and query() refer to the latest record before the call. Before another
// thread waits, the event must be handed over to it after record() returned (an actor message does this). It may be
// recorded again only once every waiter of the previous record has finished.
#pragma once

namespace pipetrain {

class Event {
 public:
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // True when the latest record has completed, or nothing was recorded. Never blocks. Thread-safe.
  virtual bool query() const = 0;
  // Blocks the calling host thread until query() is true. Returns also when the recording stream failed. Thread-safe.
  virtual void synchronize() const = 0;

 protected:
  Event() = default;
};

}  // namespace pipetrain
