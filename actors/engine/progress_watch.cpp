#include "actors/engine/progress_watch.hpp"

#include <set>

namespace pipetrain {

namespace {

std::string seconds_text(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

void ProgressWatch::finish(std::chrono::milliseconds patience) {
  finishing_ = true;
  if (stall_.count() == 0 || patience < stall_) stall_ = patience;
  completed_seen_ = -1;
  ++series_;
}

// A stage does not answer while its compute does not return from a call.
Failure ProgressWatch::silence(const WaitingReport& report) const {
  std::string silent;
  for (std::size_t at = 0; at < stages_.size(); ++at) {
    if (report.lines[at].empty()) silent += (silent.empty() ? "" : " and ") + stages_.label(at);
  }
  return {ErrorKind::peer_lost, silent + " did not answer for " + seconds_text(stall_) +
                                    ": its compute does not return from a call, or the stall timeout is too short"};
}

std::optional<Failure> ProgressWatch::judge(const WaitingReport& report, bool in_step) {
  if (in_step && report.completed == completed_seen_) {
    const std::string what = "no action completed for " + seconds_text(stall_);
    const std::string who = "a worker" + hanging_workers(report) + " hangs";
    return finishing_ ? Failure{ErrorKind::aborted, what + " after the run was asked to stop: " + who}
                      : Failure{ErrorKind::peer_lost, what + ": " + who + ", or the stall timeout is too short"};
  }
  completed_seen_ = in_step ? report.completed : -1;
  return std::nullopt;
}

// Returns " of stage 2 or stage 3", in the order of stages, without the parts.
std::string ProgressWatch::hanging_workers(const WaitingReport& report) const {
  std::set<std::size_t> stages;
  for (const std::size_t at : schedules::hanging(placement_, report.running))
    stages.insert(stages_.index({report.running[at].replica, report.running[at].stage}));
  std::string text;
  for (const std::size_t at : stages) text += (text.empty() ? " of " : " or ") + stages_.label(at);
  return text;
}

}  // namespace pipetrain
