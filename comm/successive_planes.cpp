#include "comm/successive_planes.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/wire.hpp"

namespace pipetrain::control {
namespace {

// The leader waits for those that may still notice the loss by silence.
constexpr std::chrono::milliseconds patience_of_gathering{4000}, time_to_gather{8000};

}  // namespace

SuccessivePlanes::SuccessivePlanes(Rendezvous rendezvous, const Settings& settings, std::shared_ptr<ControlPlane> first)
    : rendezvous_(std::move(rendezvous)), settings_(settings), current_(std::move(first)) {
  standby_ = std::make_shared<StandbySocket>(current_->info(current_->process()).address);
  handles_ = std::make_shared<ProcessHandles>(*current_);
  WireWriter mine;
  mine.text(standby_->address());
  mine.number(standby_->port());
  for (const Bytes& theirs : current_->exchange("standby addresses", std::move(mine).data())) {
    WireReader reader(theirs);
    Address address{reader.text()};
    address.port = reader.number<std::uint16_t>();
    reader.end();
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

void SuccessivePlanes::on_half(std::function<bool()> handler) {
  const std::lock_guard lock(mutex_);
  on_half_ = std::move(handler);
}

std::vector<int> SuccessivePlanes::lost_of(const ControlPlane& plane) const {
  std::vector<int> lost;
  for (int process = 0; process < plane.processes(); ++process)
    if (plane.is_lost(process)) lost.push_back(first_numbers_[static_cast<std::size_t>(process)]);
  return lost;
}

// Returns those that are not known to be lost, in order.
std::vector<int> SuccessivePlanes::left_of(const ControlPlane& plane) const {
  const std::vector<int> lost = lost_of(plane);
  std::vector<int> left;
  for (const int number : first_numbers_)
    if (std::find(lost.begin(), lost.end(), number) == lost.end()) left.push_back(number);
  return left;
}

Rendezvous SuccessivePlanes::coming(const ControlPlane& before, int leader) const {
  Rendezvous next = rendezvous_;
  next.processes = static_cast<int>(addresses_.size());
  next.job += "/gathering";
  next.timeout = time_to_gather;
  next.host = addresses_[static_cast<std::size_t>(leader)].host;
  next.port = addresses_[static_cast<std::size_t>(leader)].port;
  Gathering& gathering = next.gathering.emplace();
  gathering.leader = leader;
  gathering.members = first_numbers_;
  gathering.handles = handles_;
  if (leader != own_number()) return next;
  gathering.standby = standby_;
  gathering.lost = lost_of(before);
  gathering.half_wins = [was_first = before.process() == 0, on_half = on_half_] { return was_first || (on_half && on_half()); };
  gathering.patience = patience_of_gathering;
  return next;
}

std::shared_ptr<ControlPlane> SuccessivePlanes::join_others(const ControlPlane& before) const {
  for (const int leader : left_of(before)) {
    if (handles_->has_ended(leader)) continue;
    try {
      return join_processes(coming(before, leader), settings_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer_lost || leader == own_number()) throw;
    }
  }
  throw Error(ErrorKind::peer_lost, "no process of the run could gather the others");
}

// Returns no value where another process was lost meanwhile. Processes of which some have seen a membership begin that the
// others have not still agree on the next number.
std::optional<SuccessivePlanes::Counted> SuccessivePlanes::count_anew(ControlPlane& plane) const {
  WireWriter mine;
  mine.number(static_cast<std::int32_t>(own_number()));
  mine.number(static_cast<std::int32_t>(membership_));
  Counted counted;
  try {
    for (const Bytes& theirs : plane.exchange("first numbers", std::move(mine).data())) {
      WireReader reader(theirs);
      counted.first_numbers.push_back(reader.number<std::int32_t>());
      counted.membership = std::max(counted.membership, reader.number<std::int32_t>() + 1);
      reader.end();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_lost) throw;
    return {};
  }
  return counted;
}

void SuccessivePlanes::gather() {
  const std::shared_ptr<ControlPlane> before = current();
  if (before->is_lost(before->process()))
    throw Error(ErrorKind::peer_lost, "the other processes of the run have gone on without this one, which did not answer");
  before->leave();
  for (std::size_t attempt = 0; attempt < addresses_.size(); ++attempt) {
    std::shared_ptr<ControlPlane> plane = join_others(*before);
    auto counted = count_anew(*plane);
    if (!counted) {
      plane->leave();
      continue;
    }
    const std::lock_guard lock(mutex_);
    current_ = std::move(plane);
    first_numbers_ = std::move(counted->first_numbers);
    membership_ = counted->membership;
    if (on_begin_) on_begin_(*current_);
    return;
  }
  throw Error(ErrorKind::peer_lost, "processes of the run were lost as often as the others gathered");
}

}  // namespace pipetrain::control
