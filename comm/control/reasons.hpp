// The texts of reasons why a process is gone.
#pragma once

#include <chrono>
#include <string>

namespace pipetrain::control {

inline constexpr const char* closed_reason = "its connection was closed: it was killed or ended";
std::string silent_reason(std::chrono::milliseconds silence);

// Returns "2.5 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace pipetrain::control
