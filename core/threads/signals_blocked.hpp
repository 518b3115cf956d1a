// Blocks all signals in the calling thread, and so in the threads that it starts, to the end of the scope: signals go to
// the program's other threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace pipetrain {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    ::sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  ::sigset_t before_;
};

}  // namespace pipetrain
