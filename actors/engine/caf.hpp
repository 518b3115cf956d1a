// The only file that knows which CAF this is: written for 0.17 (Debian 12 and 13, Ubuntu 22.04 and 24.04). Messages are plain
// structs that never leave the process, hence "unsafe" in CAF's words: they cannot be serialised.
#pragma once

#include <caf/all.hpp>

#define PIPETRAIN_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)

namespace pipetrain {

// For actors that get messages from threads that are none of the scheduler's (a compute's, a transport's, the control plane's):
// without messages its threads sleep. By CAF's default ("stealing") they look for work ever more rarely, such a message waits
// until the next look, and the looks take time from a compute on the same cores: of two cores a sixth. The threads then share
// one queue, so there are few of them: with 16 an action costs 15 us instead of 3. Gives how many.
inline int let_idle_threads_sleep(caf::actor_system_config& config) {
  constexpr int threads = 4;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  return threads;
}

}  // namespace pipetrain
