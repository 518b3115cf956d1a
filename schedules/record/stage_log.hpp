// The record of one stage of a run: bytes that schedules/record/log_codec.hpp writes and reads.
#pragma once

#include <chrono>
#include <string>

namespace pipetrain::schedules {

// Covers one stage from the end of its previous step to the end of this one.
struct StageLog {
  std::chrono::steady_clock::time_point base;  // of its first message
  std::string bytes;                           // empty: nothing was recorded
};

}  // namespace pipetrain::schedules
