// Why a process is gone, in words.
#pragma once

#include <chrono>
#include <string>

namespace pipetrain::control {

inline constexpr const char* closed_reason = "its connection was closed: it was killed or ended";
std::string silent_reason(std::chrono::milliseconds silence);

// "2.5 s"
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace pipetrain::control
