#include "bindings/guest/joint_steps.hpp"

#include <vector>

#include "core/error.hpp"

namespace pipetrain {

void JointSteps::gather(Pipeline& pipeline, const StepCall& call, const StepHooks& hooks) {
  const auto begin = std::chrono::steady_clock::now();
  const auto give_up = [&](ErrorKind kind, const std::string& why) {
    pipeline.abort(std::make_exception_ptr(Error(kind, why)));
  };
  StepMeeting& meeting = processes_->meeting();
  try {
    for (std::vector<int> missing; !aborted_ && !processes_->failed(); hooks.poll()) {
      missing = meeting.missing(call);
      if (missing.empty()) return meeting.begin(call);
      if (stall_.count() > 0 && std::chrono::steady_clock::now() - begin > stall_)
        return give_up(ErrorKind::aborted, processes_->name_of(missing.front()) + has_not_come(call));
      meeting.wait(hooks.interval);
    }
  } catch (const Error& error) {
    give_up(error.kind(), error.what());
  }
}

StepEnd JointSteps::follow(Pipeline& pipeline, const StepCall& call, const StepHooks& hooks) {
  const auto begin = std::chrono::steady_clock::now();
  StepMeeting& meeting = processes_->meeting();
  meeting.come(call);
  for (;; hooks.poll()) {
    if (const auto end = meeting.ended(call)) return *end;
    if (has_ended(pipeline, std::chrono::milliseconds(0)))
      throw Error(ErrorKind::aborted, to_string(call) + ": process 0 has closed the pipeline before it");
    if (stall_.count() > 0 && !meeting.begun(call) && std::chrono::steady_clock::now() - begin > stall_ &&
        !aborted_.exchange(true))
      pipeline.abort(std::make_exception_ptr(Error(ErrorKind::aborted, "process 0" + has_not_come(call))));
    meeting.wait(hooks.interval);
  }
}

void JointSteps::wait_for_close(Pipeline& pipeline) {
  if (over_) return;
  try {
    has_ended(pipeline, stall_.count() > 0 ? stall_ : std::chrono::milliseconds(std::chrono::hours(24)));
  } catch (const Error&) {  // the others end with their own reason, or have received ours
  }
}

std::string JointSteps::has_not_come(const StepCall& call) const {
  return " has not come to " + to_string(call) + " in " + std::to_string(stall_.count() / 1000) +
         " s: all processes must run the same steps and evaluations";
}

bool JointSteps::has_ended(Pipeline& pipeline, std::chrono::milliseconds patience) try {
  if (!over_) over_ = pipeline.follow_for(patience);
  return over_;
} catch (...) {
  over_ = true;
  throw;
}

}  // namespace pipetrain
