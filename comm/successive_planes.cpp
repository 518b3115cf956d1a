#include "comm/successive_planes.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "comm/control/reasons.hpp"
#include "comm/joining/door.hpp"
#include "comm/joining/newcomer.hpp"

namespace pipetrain::control {
namespace {

// The leader waits for those that may still notice the loss by silence.
constexpr std::chrono::milliseconds patience_of_gathering{4000}, time_to_gather{8000};
// Only the leader of a gathering knows how many come, so all give the same number.
constexpr int any_processes = std::numeric_limits<std::uint16_t>::max();

Rendezvous gathering_at(Rendezvous rendezvous, const std::string& host, std::uint16_t port) {
  rendezvous.processes = any_processes;
  rendezvous.job += "/gathering";
  rendezvous.timeout = time_to_gather;
  rendezvous.host = host;
  rendezvous.port = port;
  return rendezvous;
}

// numbers: by process of the plane.
std::vector<int> lost_of(const ControlPlane& plane, const std::vector<int>& numbers) {
  std::vector<int> lost;
  for (int process = 0; process < plane.processes(); ++process)
    if (plane.is_lost(process)) lost.push_back(numbers[static_cast<std::size_t>(process)]);
  return lost;
}

// Returns those that are not known to be lost, in order.
std::vector<int> left_of(const ControlPlane& plane, const std::vector<int>& numbers) {
  const std::vector<int> lost = lost_of(plane, numbers);
  std::vector<int> left;
  for (const int number : numbers)
    if (std::find(lost.begin(), lost.end(), number) == lost.end()) left.push_back(number);
  return left;
}

}  // namespace

SuccessivePlanes::SuccessivePlanes(Rendezvous rendezvous, const Settings& settings, std::shared_ptr<ControlPlane> first)
    : rendezvous_(std::move(rendezvous)), settings_(settings) {
  if (const auto lost = begin(std::move(first))) throw *lost;
}

SuccessivePlanes::SuccessivePlanes(Rendezvous rendezvous, const Settings& settings)
    : rendezvous_(std::move(rendezvous)), settings_(settings), newcomer_(std::make_unique<Newcomer>(rendezvous_)) {
  layout_ = read_message<RunLayout>(newcomer_->invitation());
}

SuccessivePlanes::~SuccessivePlanes() = default;

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
  return members_.at(static_cast<std::size_t>(process)).number;
}

void SuccessivePlanes::on_begin(std::function<void(ControlPlane&)> handler) {
  std::shared_ptr<ControlPlane> plane;
  {
    const std::lock_guard lock(mutex_);
    on_begin_ = handler;
    plane = current_;
  }
  if (handler && plane) handler(*plane);
}

void SuccessivePlanes::on_half(std::function<bool()> handler) {
  const std::lock_guard lock(mutex_);
  on_half_ = std::move(handler);
}

RunLayout SuccessivePlanes::layout() const {
  const std::lock_guard lock(mutex_);
  return layout_;
}

void SuccessivePlanes::set_layout(const RunLayout& layout) {
  const std::lock_guard lock(mutex_);
  if (layout.changes > layout_.changes) layout_ = layout;
}

void SuccessivePlanes::set_runs(bool runs) {
  const std::lock_guard lock(mutex_);
  runs_ = runs;
}

bool SuccessivePlanes::all_run() const {
  const std::lock_guard lock(mutex_);
  return all_run_;
}

int SuccessivePlanes::joined() const {
  const std::lock_guard lock(mutex_);
  return joined_;
}

std::string SuccessivePlanes::door() const {
  const std::lock_guard lock(mutex_);
  return address_text(members_.front().host, members_.front().door);
}

std::vector<ProcessInfo> SuccessivePlanes::newcomers(const JobContents& contents) {
  door_->look(to_bytes(layout()), contents);
  return door_->ready();
}

std::vector<int> SuccessivePlanes::numbers() const {
  std::vector<int> numbers;
  for (const Address& member : members_) numbers.push_back(member.number);
  return numbers;
}

const SuccessivePlanes::Address& SuccessivePlanes::address_of(int number) const {
  return *std::find_if(members_.begin(), members_.end(), [&](const Address& member) { return member.number == number; });
}

Rendezvous SuccessivePlanes::coming(const ControlPlane& before, int leader) {
  const Address& at = address_of(leader);
  Rendezvous next = gathering_at(rendezvous_, at.host, at.port);
  Gathering& gathering = next.gathering.emplace();
  gathering.leader = leader;
  gathering.members = numbers();
  gathering.handles = handles_;
  if (leader != rendezvous_.process) return next;
  gathering.standby = standby_;
  gathering.lost = lost_of(before, gathering.members);
  gathering.half_wins = [was_first = before.process() == 0, on_half = on_half_] { return was_first || (on_half && on_half()); };
  gathering.patience = patience_of_gathering;
  if (std::exchange(admits_, false)) {
    for (const ProcessInfo& info : door_->ready()) {
      gathering.newcomers.push_back(next_number_ + static_cast<int>(gathering.newcomers.size()));
      handles_->add(gathering.newcomers.back(), info);
    }
    next_number_ += door_->call(next_number_, {0, leader, at.host, at.port, rendezvous_.job});
  }
  gathering.places = next_number_;
  return next;
}

std::shared_ptr<ControlPlane> SuccessivePlanes::join_others(const ControlPlane& before) {
  for (const int leader : left_of(before, numbers())) {
    if (handles_->has_ended(leader)) continue;
    try {
      return join_processes(coming(before, leader), settings_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer_lost || leader == rendezvous_.process) throw;
    }
  }
  throw Error(ErrorKind::peer_lost, "no process of the run could gather the others");
}

RollEntry SuccessivePlanes::own_entry() const {
  const std::lock_guard lock(mutex_);
  return {rendezvous_.process, membership_, next_number_, standby_->address(), standby_->port(), door_->port(), layout_, runs_};
}

// Counts the members of a plane that begins. Returns the error where another process was lost meanwhile. Processes of which
// some have seen a membership begin that the others have not still agree on the next number.
std::optional<Error> SuccessivePlanes::begin(std::shared_ptr<ControlPlane> plane) {
  const std::string address = plane->info(plane->process()).address;
  if (!standby_) standby_ = std::make_shared<StandbySocket>(address);
  if (!door_) door_ = std::make_unique<Door>(address, rendezvous_, settings_);
  Roll roll;
  try {
    roll = call_roll(*plane, own_entry());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_lost) throw;
    plane->leave();
    return error;
  }
  handles_ = std::make_shared<ProcessHandles>(*plane, roll.numbers());
  std::function<void(ControlPlane&)> handler;
  {
    const std::lock_guard lock(mutex_);
    current_ = plane;
    handler = on_begin_;
    joined_ = 0;
    members_.clear();
    for (const RollEntry& entry : roll.entries) {
      members_.push_back({entry.number, entry.host, entry.standby, entry.door});
      joined_ += entry.membership == 0 && roll.membership > 1 ? 1 : 0;
    }
    membership_ = roll.membership;
    next_number_ = roll.next_number;
    layout_ = roll.layout;
    all_run_ = roll.all_run;
  }
  if (handler) handler(*plane);
  return {};
}

void SuccessivePlanes::gather() {
  const std::shared_ptr<ControlPlane> before = current();
  if (before->is_lost(before->process()))
    throw Error(ErrorKind::peer_lost, "the other processes of the run have gone on without this one, which did not answer");
  before->leave();
  for (std::size_t attempt = 0; attempt <= members_.size(); ++attempt)
    if (!begin(join_others(*before))) return;
  throw Error(ErrorKind::peer_lost, "processes of the run were lost as often as the others gathered");
}

void SuccessivePlanes::join(const JobContents& contents) {
  const Call call = newcomer_->wait_for_call(contents);
  newcomer_.reset();
  rendezvous_.process = call.number;
  rendezvous_.job = call.job;
  set_runs(true);
  Rendezvous next = gathering_at(rendezvous_, call.host, call.port);
  Gathering& gathering = next.gathering.emplace();
  gathering.leader = call.leader;
  gathering.members = {call.leader, call.number};
  gathering.handles = std::make_shared<ProcessHandles>();
  if (const auto lost = begin(join_processes(next, settings_))) throw *lost;
}

}  // namespace pipetrain::control
