#include "core/error.hpp"

#include <utility>

#include "core/escape.hpp"

namespace pipetrain {
namespace {

std::string line_of(const Setting& setting, const std::string& why) {
  return setting.name + (setting.value.empty() ? "" : " " + setting.value) + ": " + why;
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& what) : std::runtime_error(escape_controls(what)), kind_(kind) {}

Error::Error(ErrorKind kind, Setting setting, const std::string& why)
    : std::runtime_error(escape_controls(line_of(setting, why))),
      kind_(kind),
      setting_(std::make_shared<const Setting>(std::move(setting))) {}

Error::Error(ErrorKind kind, const std::string& what, const Setting* setting, bool names_place)
    : std::runtime_error(escape_controls(what)),
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
