// A point in a stream's order that other streams and the host can wait for.
//
// An event may be recorded again and again; wait() and query() speak of the latest record made before the call. Whoever lets
// another thread wait must hand the event over after record() returned (an actor message does this), and may record it again
// only once every waiter of the previous record has finished.
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
