// The only file that knows which CAF this is: written for 0.17 (Debian 12 and 13, Ubuntu 22.04 and 24.04). Messages are plain
// structs that never leave the process, hence "unsafe" in CAF's words: they cannot be serialised.
#pragma once

#include <caf/all.hpp>

#define PIPETRAIN_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)

namespace pipetrain {

// For actors that get messages from threads that are none of the scheduler's (of a transport, or of the control plane): without
// messages its threads sleep. By CAF's default ("stealing") they look for work ever more rarely, and such a message waits until
// the next look. The threads then share one queue, so there are few of them: with 16 an action costs 15 us instead of 3.
inline void let_idle_threads_sleep(caf::actor_system_config& config) {
  constexpr std::size_t most_threads = 4;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", most_threads);
}

}  // namespace pipetrain
