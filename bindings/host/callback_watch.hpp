// Which calls into a guest's code have not returned. A thread that hangs there cannot be ended, so whoever wants to end a
// pipeline must know.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>

namespace pipetrain {

// Thread-safe.
class CallbackWatch {
 public:
  // A call under way, by what it is: "launch of F3 on stage 1".
  class Call {
   public:
    Call(CallbackWatch& watch, std::string what);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallbackWatch& watch_;
    std::list<std::string>::iterator entry_;
  };

  // Whether the calling thread is inside a call of any watch.
  static bool inside_call();
  // Waits until no call is under way; what still is after `patience`, or empty.
  std::string wait_until_idle(std::chrono::milliseconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  std::list<std::string> calls_;
};

}  // namespace pipetrain
