// What one stage of a recorded run did: bytes that schedules/record/log_codec.hpp writes and reads.
#pragma once

#include <chrono>
#include <string>

namespace pipetrain::schedules {

// Of one stage from the end of its step before to the end of this one.
struct StageLog {
  std::chrono::steady_clock::time_point base;  // of its first message
  std::string bytes;                           // empty: nothing was recorded
};

}  // namespace pipetrain::schedules
