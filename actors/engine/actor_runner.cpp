#include "actors/engine/actor_runner.hpp"

namespace pipetrain {

// A dynamic_cast compares the names of a type's bases, which takes a twelfth of an action's time. So it is done once a type.
const BriefActor* ActorRunner::as_brief(const caf::resumable* job) {
  const auto* const bytes = reinterpret_cast<const char*>(job);
  const std::type_info* const info = &typeid(*job);
  for (const Type& type : types_)
    if (type.info == info) return type.brief ? reinterpret_cast<const BriefActor*>(bytes + *type.brief) : nullptr;
  const auto* const brief = dynamic_cast<const BriefActor*>(job);
  types_.push_back({info, std::nullopt});
  if (brief != nullptr) types_.back().brief = reinterpret_cast<const char*>(brief) - bytes;
  return brief;
}

void ActorRunner::exec_later(caf::resumable* job) {
  if (const BriefActor* brief = as_brief(job); brief != nullptr && brief->is_brief()) {
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
