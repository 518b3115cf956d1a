// Tracks the calls into a guest's code that have not returned. A thread that hangs there cannot be ended, so a pipeline
// that is to end must know.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "actors/engine/trace.hpp"

namespace pipetrain {

// Thread-safe.
class CallbackWatch {
 public:
  // The name of a call, which is used only where it hangs: "launch of F3 on stage 1". The references must outlive the call.
  struct Name {
    const char* call = "";  // empty for an action: "F3 on stage 1"
    const schedules::Action* action = nullptr;
    const StageId* stage = nullptr;
    int microbatch = -1;
    std::string text() const;
  };

  class Call;

 private:
  // The calls of some threads. Separate lists in separate cache lines keep threads from waiting for each other in every call.
  struct alignas(64) Lane {
    std::mutex mutex;
    std::condition_variable idle;
    Call *oldest = nullptr, *newest = nullptr;
  };

 public:
  // A running call.
  class Call {
   public:
    Call(CallbackWatch& watch, const Name& name);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class CallbackWatch;
    Lane& lane_;
    Name name_;
    Call *older_ = nullptr, *newer_ = nullptr;  // in the lane's list
  };

  // True when the calling thread is inside a call of any watch.
  static bool inside_call();
  // Waits until no call is running; after `patience` returns the name of one that still is, else empty.
  std::string wait_until_idle(std::chrono::milliseconds patience);

 private:
  std::array<Lane, 16> lanes_;
};

}  // namespace pipetrain
