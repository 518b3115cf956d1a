// The texts of reasons why a process is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace pipetrain::control {

inline constexpr const char* closed_reason = "its connection was closed: it was killed or ended";
std::string silent_reason(std::chrono::milliseconds silence);

// Returns "host:port", with brackets around an IPv6 address.
std::string address_text(const std::string& host, std::uint16_t port);

// Returns "2.5 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace pipetrain::control
