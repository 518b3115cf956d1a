// Which calls into a guest's code have not returned. A thread that hangs there cannot be ended, so whoever wants to end a
// pipeline must know.
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
  // What is called, to be told only where it hangs: "launch of F3 on stage 1". What it names must outlive the call.
  struct Name {
    const char* call = "";  // empty for an action: "F3 on stage 1"
    const schedules::Action* action = nullptr;
    const StageId* stage = nullptr;
    int microbatch = -1;
    std::string text() const;
  };

  class Call;

 private:
  // The calls of some threads: with one list for all, or two in one line of the cache, threads would wait for each other in
  // every call.
  struct alignas(64) Lane {
    std::mutex mutex;
    std::condition_variable idle;
    Call *oldest = nullptr, *newest = nullptr;
  };

 public:
  // A call under way.
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
    Call *older_ = nullptr, *newer_ = nullptr;  // of the lane's
  };

  // Whether the calling thread is inside a call of any watch.
  static bool inside_call();
  // Waits until no call is under way; what still is after `patience`, or empty.
  std::string wait_until_idle(std::chrono::milliseconds patience);

 private:
  std::array<Lane, 16> lanes_;
};

}  // namespace pipetrain
