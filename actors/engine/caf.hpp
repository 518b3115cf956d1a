// The only file that knows which CAF this is: written for 0.17 (Debian 12 and 13, Ubuntu 22.04 and 24.04). Messages are plain
// structs that never leave the process, hence "unsafe" in CAF's words: they cannot be serialised.
#pragma once

#include <caf/all.hpp>

#define PIPETRAIN_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)

namespace pipetrain {

// Without messages the scheduler's threads sleep. By CAF's default ("stealing") they look for work ever more rarely, and a
// message from a thread that is none of them (of a transport, or of the control plane) waits until the next look.
inline void let_idle_threads_sleep(caf::actor_system_config& config) { config.set("scheduler.policy", caf::atom("sharing")); }

}  // namespace pipetrain
