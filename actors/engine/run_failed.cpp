#include "actors/engine/run_failed.hpp"

#include <utility>

#include "actors/engine/failure.hpp"

namespace pipetrain {

StepLeft::StepLeft() : Error(ErrorKind::aborted, "the step was left before its end, because the run was asked to stop") {}

RunFailed::RunFailed(const Failure& cause, std::vector<std::string> waiting, bool stopped,
                     std::vector<schedules::StageLog> logs)
    : Error(cause.kind, line_of(cause), cause.setting ? &*cause.setting : nullptr, true),
      waiting_(std::move(waiting)),
      stopped_(stopped),
      process_lost_(cause.process_lost),
      noticed_(cause.noticed),
      logs_(std::move(logs)) {}

}  // namespace pipetrain
