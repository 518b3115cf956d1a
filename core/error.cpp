#include "core/error.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string escaped(const std::string& text) {
  if (std::none_of(text.begin(), text.end(), is_control)) return text;
  constexpr const char* digits = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    if (!is_control(c)) {
      line += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      line += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else {
      line += {'\\', 'x', digits[c >> 4], digits[c & 15]};
    }
  }
  return line;
}

std::string line_of(const Setting& setting, const std::string& why) {
  return setting.name + (setting.value.empty() ? "" : " " + setting.value) + ": " + why;
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& what) : std::runtime_error(escaped(what)), kind_(kind) {}

Error::Error(ErrorKind kind, Setting setting, const std::string& why)
    : std::runtime_error(escaped(line_of(setting, why))),
      kind_(kind),
      setting_(std::make_shared<const Setting>(std::move(setting))) {}

Error::Error(ErrorKind kind, const std::string& what, const Setting* setting, bool names_place)
    : std::runtime_error(escaped(what)),
      kind_(kind),
      setting_(setting == nullptr ? nullptr : std::make_shared<const Setting>(*setting)),
      names_place_(names_place) {}

Error Error::at(const std::string& place, ErrorKind kind, const std::string& why) {
  return Error(kind, place + ": " + why, nullptr, true);
}

const char* to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::input:
      return "wrong input";
    case ErrorKind::out_of_memory:
      return "out of memory";
    case ErrorKind::numeric:
      return "not a finite number";
    case ErrorKind::aborted:
      return "aborted";
    case ErrorKind::peer_lost:
      return "peer lost";
    case ErrorKind::unavailable:
      return "not available";
    case ErrorKind::internal:
      return "internal error";
  }
  return "unknown error";
}

int exit_status(ErrorKind kind) noexcept { return kind == ErrorKind::input ? 2 : 1; }

}  // namespace pipetrain
