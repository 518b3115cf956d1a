#include "comm/control/exchange_board.hpp"

#include <algorithm>
#include <utility>

#include "comm/control/reasons.hpp"
#include "core/error.hpp"

namespace pipetrain::control {

std::uint32_t ExchangeBoard::begin() {
  const std::lock_guard lock(mutex_);
  parts_[begun_].resize(gone_.size());
  return begun_++;
}

void ExchangeBoard::put(int from, ExchangePart part) {
  const std::lock_guard lock(mutex_);
  // No process can be further ahead than one exchange: this process's part would be missing there.
  const bool over = part.number < begun_ && parts_.count(part.number) == 0;
  if (over || part.number > begun_) throw Error(ErrorKind::peer_lost, "it sent a part of an exchange that is not in progress");
  Parts& parts = parts_[part.number];
  parts.resize(gone_.size());
  auto& place = parts[static_cast<std::size_t>(from)];
  if (place) throw Error(ErrorKind::peer_lost, "it sent its part of an exchange twice");
  place = std::move(part);
  changed_.notify_all();
}

void ExchangeBoard::gone(int process, bool lost, const std::string& why) {
  const std::lock_guard lock(mutex_);
  auto& place = gone_[static_cast<std::size_t>(process)];
  if (!place) place = Gone{lost, why};
  changed_.notify_all();
}

std::vector<Bytes> ExchangeBoard::wait(std::uint32_t number, const std::string& key, const std::vector<ProcessInfo>& all) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  std::unique_lock lock(mutex_);
  while (!complete(parts_.at(number))) {
    throw_if_hopeless(parts_.at(number), key, all);
    if (patience_.count() == 0) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !complete(parts_.at(number))) {
      throw_late(parts_.at(number), key, all);
    }
  }
  return take(number, key, all);
}

bool ExchangeBoard::complete(const Parts& parts) const {
  return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.has_value(); });
}

void ExchangeBoard::throw_if_hopeless(const Parts& parts, const std::string& key, const std::vector<ProcessInfo>& all) const {
  for (std::size_t process = 0; process < parts.size(); ++process) {
    const auto& gone = gone_[process];
    if (gone && (gone->lost || !parts[process]))
      throw Error(ErrorKind::peer_lost,
                  to_string(all[process]) + " is gone, while the others were at '" + key + "': " + gone->why);
  }
}

void ExchangeBoard::throw_late(const Parts& parts, const std::string& key, const std::vector<ProcessInfo>& all) const {
  std::string who;
  for (std::size_t process = 0; process < parts.size(); ++process) {
    if (!parts[process]) who += (who.empty() ? "" : ", ") + to_string(all[process]);
  }
  throw Error(ErrorKind::peer_lost, who + " did not come to '" + key + "' within " + seconds_text(patience_) +
                                        ", where the others wait: it hangs, or the stall timeout is too short");
}

std::vector<Bytes> ExchangeBoard::take(std::uint32_t number, const std::string& key, const std::vector<ProcessInfo>& all) {
  auto parts = parts_.extract(number);
  std::vector<Bytes> given;
  for (std::size_t process = 0; process < all.size(); ++process) {
    ExchangePart& part = *parts.mapped()[process];
    if (part.key != key)
      throw Error(ErrorKind::internal, "at '" + key + "', " + to_string(all[process]) + " is at '" + part.key + "'");
    given.push_back(std::move(part.bytes));
  }
  return given;
}

}  // namespace pipetrain::control
