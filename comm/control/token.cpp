#include "comm/control/token.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "comm/control/frame.hpp"
#include "core/error.hpp"

namespace pipetrain::control {

bool same_token(std::span<const std::byte> shown, std::string_view token) {
  if (shown.size() > most_token_bytes || token.size() > most_token_bytes) return false;
  std::array<std::byte, most_token_bytes> a{}, b{};  // both are compared whole, padded with zeros
  std::copy(shown.begin(), shown.end(), a.begin());
  const auto bytes = std::as_bytes(std::span(token));
  std::copy(bytes.begin(), bytes.end(), b.begin());
  volatile unsigned different = shown.size() == token.size() ? 0 : 1;  // volatile, so that the loop cannot end early
  for (std::size_t i = 0; i < a.size(); ++i) different = different | std::to_integer<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

std::string random_token() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error(ErrorKind::unavailable, fmt::format("the host gives no random token ({})", std::strerror(errno)));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace pipetrain::control
