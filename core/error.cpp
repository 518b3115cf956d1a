#include "core/error.hpp"

#include <atomic>
#include <utility>

#include "core/text/escape.hpp"

namespace pipetrain {
namespace {

std::string line_of(const Setting& setting, const std::string& why) {
  return setting.name + (setting.value.empty() ? "" : " " + setting.value) + ": " + why;
}

}  // namespace

struct SharedSetting::Counted {
  Setting setting;
  std::atomic<long> owners = 1;
};

SharedSetting::SharedSetting(Setting setting) : counted_(new Counted{std::move(setting)}) {}

SharedSetting::SharedSetting(const SharedSetting& other) noexcept : counted_(other.counted_) {
  if (counted_ != nullptr) counted_->owners.fetch_add(1, std::memory_order_relaxed);
}

SharedSetting& SharedSetting::operator=(const SharedSetting& other) noexcept {
  SharedSetting copy(other);
  std::swap(counted_, copy.counted_);
  return *this;
}

SharedSetting::~SharedSetting() {
  // The last owner sees the changes of the others before it deletes.
  if (counted_ != nullptr && counted_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete counted_;
}

const Setting* SharedSetting::get() const noexcept { return counted_ == nullptr ? nullptr : &counted_->setting; }

Error::Error(ErrorKind kind, const std::string& what) : std::runtime_error(escape_controls(what)), kind_(kind) {}

Error::Error(ErrorKind kind, Setting setting, const std::string& why)
    : std::runtime_error(escape_controls(line_of(setting, why))), kind_(kind), setting_(std::move(setting)) {}

Error::Error(ErrorKind kind, const std::string& what, const Setting* setting, bool names_place)
    : std::runtime_error(escape_controls(what)),
      kind_(kind),
      setting_(setting == nullptr ? SharedSetting() : SharedSetting(*setting)),
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
