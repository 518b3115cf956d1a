#include "actors/engine/actor_runner.hpp"

#include <optional>
#include <typeinfo>

namespace pipetrain {

namespace {

constexpr std::size_t messages_at_once = 64;

// The offset of the BriefActor within objects of a type, in bytes from their resumable; no value where the type is not brief.
struct Type {
  const std::type_info* info;
  std::optional<std::ptrdiff_t> brief;
};

// Both are kept per thread, so that an action allocates neither: the types seen so far, and the job list of the last runner.
thread_local std::vector<Type> types;
thread_local std::vector<caf::resumable*> spare_jobs;

// Runs the job as caf::scheduler::worker does. Returns true when the job has more to do.
bool resume(caf::resumable* job, caf::execution_unit* unit) {
  switch (job->resume(unit, messages_at_once)) {
    case caf::resumable::resume_later:
      return true;
    case caf::resumable::done:
    case caf::resumable::awaiting_message:
    case caf::resumable::shutdown_execution_unit:
      caf::intrusive_ptr_release(job);
      break;
  }
  return false;
}

}  // namespace

// A dynamic_cast compares the names of a type's bases, which takes a twelfth of an action's time, so its result is kept
// per type.
const BriefActor* as_brief(const caf::resumable* job) {
  const auto* const bytes = reinterpret_cast<const char*>(job);
  const std::type_info* const info = &typeid(*job);
  for (const Type& type : types)
    if (type.info == info) return type.brief ? reinterpret_cast<const BriefActor*>(bytes + *type.brief) : nullptr;
  const auto* const brief = dynamic_cast<const BriefActor*>(job);
  types.push_back({info, std::nullopt});
  if (brief != nullptr) types.back().brief = reinterpret_cast<const char*>(brief) - bytes;
  return brief;
}

ActorRunner::ActorRunner(caf::actor_system& system) : caf::execution_unit(&system), jobs_(std::move(spare_jobs)) {
  jobs_.clear();
}

ActorRunner::~ActorRunner() { spare_jobs = std::move(jobs_); }

void ActorRunner::exec_later(caf::resumable* job) {
  if (const BriefActor* brief = as_brief(job); brief != nullptr && brief->is_brief()) {
    jobs_.push_back(job);
  } else {
    system().scheduler().enqueue(job);
  }
}

void ActorRunner::run() {
  for (std::size_t next = 0; next < jobs_.size(); ++next)
    if (resume(jobs_[next], this)) jobs_.push_back(jobs_[next]);
  jobs_.clear();
}

void ForwardingUnit::exec_later(caf::resumable* job) {
  const BriefActor* brief = as_brief(job);
  if (brief == nullptr || !brief->only_passes_on() || resume(job, this)) unit_.exec_later(job);
}

}  // namespace pipetrain
