// The only file that knows which CAF this is: written for 0.17 (Debian 12 and 13, Ubuntu 22.04 and 24.04). Messages are plain
// structs that never leave the process, hence "unsafe" in CAF's words: they cannot be serialised.
#pragma once

#include <caf/all.hpp>

#define PIPETRAIN_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)
