#include "actors/engine/actor_runner.hpp"

namespace pipetrain {

void ActorRunner::exec_later(caf::resumable* job) {
  if (const auto* brief = dynamic_cast<BriefActor*>(job); brief != nullptr && brief->is_brief()) {
    jobs_.push_back(job);
  } else {
    system().scheduler().enqueue(job);
  }
}

// As caf::scheduler::worker does.
void ActorRunner::run() {
  constexpr std::size_t messages_at_once = 64;
  for (std::size_t next = 0; next < jobs_.size(); ++next) {
    caf::resumable* const job = jobs_[next];
    switch (job->resume(this, messages_at_once)) {
      case caf::resumable::resume_later:
        jobs_.push_back(job);
        break;
      case caf::resumable::done:
      case caf::resumable::awaiting_message:
      case caf::resumable::shutdown_execution_unit:
        caf::intrusive_ptr_release(job);
        break;
    }
  }
  jobs_.clear();
}

}  // namespace pipetrain
