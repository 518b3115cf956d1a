#include "comm/control/reasons.hpp"

namespace pipetrain::control {

std::string silent_reason(std::chrono::milliseconds silence) {
  return "it sent nothing for " + seconds_text(silence) + ": it is stopped, hangs or its host is unreachable";
}

std::string address_text(const std::string& host, std::uint16_t port) {
  return (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string seconds_text(std::chrono::milliseconds time) {
  const auto count = time.count();
  std::string text = std::to_string(count / 1000);
  if (count % 1000 != 0) {
    text += '.' + std::to_string(1000 + count % 1000).substr(1);
    while (text.back() == '0') text.pop_back();
  }
  return text + " s";
}

}  // namespace pipetrain::control
