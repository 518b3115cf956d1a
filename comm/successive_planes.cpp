#include "comm/successive_planes.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain::control {
namespace {

// A process that gathers the others waits for those that may still notice the loss by silence.
constexpr std::chrono::milliseconds patience_of_gathering{4000}, time_to_gather{8000};

}  // namespace

SuccessivePlanes::SuccessivePlanes(Rendezvous rendezvous, const Settings& settings, std::shared_ptr<ControlPlane> first)
    : rendezvous_(std::move(rendezvous)), settings_(settings), current_(std::move(first)) {
  standby_ = std::make_shared<StandbySocket>(current_->info(current_->process()).address);
  WireWriter mine;
  mine.text(standby_->address());
  mine.number(standby_->port());
  for (const Bytes& theirs : current_->exchange("standby addresses", std::move(mine).data())) {
    WireReader reader(theirs);
    Address address{reader.text()};
    address.port = reader.number<std::uint16_t>();
    first_numbers_.push_back(static_cast<int>(addresses_.size()));
    addresses_.push_back(std::move(address));
  }
}

std::shared_ptr<ControlPlane> SuccessivePlanes::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

int SuccessivePlanes::membership() const {
  const std::lock_guard lock(mutex_);
  return membership_;
}

int SuccessivePlanes::first_number(int process) const {
  const std::lock_guard lock(mutex_);
  return first_numbers_.at(static_cast<std::size_t>(process));
}

void SuccessivePlanes::on_begin(std::function<void(ControlPlane&)> handler) {
  const std::lock_guard lock(mutex_);
  on_begin_ = std::move(handler);
  if (on_begin_) on_begin_(*current_);
}

Rendezvous SuccessivePlanes::coming(const ControlPlane& current) const {
  std::vector<int> left;  // first numbers of processes that are not lost
  for (int process = 0; process < current.processes(); ++process) {
    if (process == current.process() || !current.is_lost(process))
      left.push_back(first_numbers_[static_cast<std::size_t>(process)]);
  }
  Rendezvous next = rendezvous_;
  next.process = first_numbers_[static_cast<std::size_t>(current.process())];
  next.processes = static_cast<int>(addresses_.size());
  next.job += "/membership " + std::to_string(membership_ + 1);
  next.timeout = time_to_gather;
  const Address& at = addresses_[static_cast<std::size_t>(left.front())];
  next.host = at.host;
  next.port = at.port;
  next.gathering.emplace();
  next.gathering->patience = patience_of_gathering;
  if (left.front() != next.process) return next;
  next.gathering->standby = standby_;
  next.gathering->expected.assign(left.begin() + 1, left.end());
  const bool has_first = current.process() == 0;
  next.gathering->enough = has_first ? (current.processes() + 1) / 2 : current.processes() / 2 + 1;
  return next;
}

void SuccessivePlanes::gather() {
  const std::shared_ptr<ControlPlane> before = current();
  const Rendezvous next = coming(*before);
  before->leave();
  std::shared_ptr<ControlPlane> plane = join_processes(next, settings_);
  WireWriter mine;
  mine.number(static_cast<std::int32_t>(next.process));
  std::vector<int> numbers;
  for (const Bytes& theirs : plane->exchange("first numbers", std::move(mine).data()))
    numbers.push_back(WireReader(theirs).number<std::int32_t>());
  const std::lock_guard lock(mutex_);
  current_ = std::move(plane);
  first_numbers_ = std::move(numbers);
  ++membership_;
  if (on_begin_) on_begin_(*current_);
}

}  // namespace pipetrain::control
