// The only file that depends on CAF's version: it is written for 0.17 (Debian 12 and 13, Ubuntu 22.04 and 24.04). Messages are
// plain structs that never leave the process, so they are declared "unsafe" in CAF's sense: they cannot be serialised.
#pragma once

#include <caf/all.hpp>

#define PIPETRAIN_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)

namespace pipetrain {

// Returns the number of scheduler threads for actors that receive messages from other threads (a compute's, a transport's, the
// control plane's), and lets idle threads sleep. By CAF's default ("stealing") idle threads poll ever more rarely: such a
// message waits for the next poll, and polling takes a sixth of two cores from a compute that shares them. Threads that sleep
// share one queue, so there are few of them: with 16 threads an action costs 15 us instead of 3.
inline int let_idle_threads_sleep(caf::actor_system_config& config) {
  constexpr int threads = 4;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  return threads;
}

}  // namespace pipetrain
