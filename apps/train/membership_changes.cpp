#include "apps/train/membership_changes.hpp"

#include <fmt/format.h>

#include "apps/options/run_address.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/processes/leave_run.hpp"
#include "apps/signals/signals.hpp"
#include "core/counted.hpp"

namespace pipetrain {

MembershipChanges::~MembershipChanges() {
  if (!written_door_.empty()) remove_run_address(*options_.run.saving.folder);
}

void MembershipChanges::change() {
  if (joined_ == nullptr || options_.run.elastic != Elastic::takeover) return;
  write_address();
  let_leave();
  if (stop_signal() == 0) let_join();
}

void MembershipChanges::print(const std::vector<Takeover>& takeovers) {
  for (Takeover takeover : takeovers) {
    if (takeover.membership <= printed_membership_) continue;
    printed_membership_ = takeover.membership;
    const auto left = joined_ ? joined_->departures().left_before(takeover.membership) : std::nullopt;
    const char* begin = left ? "handed over: " : takeover.joined > 0 ? "joined: " : "takeover: ";
    if (left) takeover.cause = fmt::format("process {} has left on purpose", *left);
    if (takeover.joined > 0)
      takeover.cause =
          fmt::format("{} {} joined the run", counted(takeover.joined, "process", "es"), takeover.joined == 1 ? "has" : "have");
    print_over_progress(begin + to_string(takeover));
  }
}

// Hands over the ranks of processes that have asked to leave, one process after the other, because a state is in two
// processes only. The last process has nobody to hand over to.
void MembershipChanges::let_leave() {
  for (auto leavers = joined_->leavers(); !leavers.empty() && stop_signal() == 0; leavers = joined_->leavers()) {
    if (std::ssize(leavers) == joined_->processes()->control->processes()) return request_stop(preemption_signal());
    const int leaver = leavers.back();
    const int membership = trainer_.membership();
    joined_->announce_leave(leaver);
    run_.copy_states();
    if (trainer_.membership() != membership) continue;  // a process was lost meanwhile, so the numbers are new ones
    if (leaver == 0) leave();
    joined_->let_leave(leaver);
    print(trainer_.take_over_from(leaver));
  }
}

// Looks at the door a few times a second, whatever the steps' rate.
void MembershipChanges::let_join() {
  constexpr std::chrono::milliseconds pause{50};
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < pause) return;
  looked_ = now;
  if (trainer_.newcomers() == 0) return;
  run_.copy_states();
  print(trainer_.admit());
}

void MembershipChanges::write_address() {
  if (!options_.run.saving.folder) return;
  const std::string door = joined_->door();
  if (door == written_door_) return;
  write_run_address(*options_.run.saving.folder, {door, options_.processes.token});
  written_door_ = door;
}

void MembershipChanges::leave() {
  outputs_.finish();
  leave_run(fmt::format("process 0 has handed over its ranks after step {} and ends", trainer_.steps_done()));
}

}  // namespace pipetrain
