#include "actors/training/job/optimizer_check.hpp"

#include <string>

#include "actors/training/job/train_job.hpp"
#include "core/error.hpp"
#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

void check_granularity(const Optimizer& optimizer, const TrainJob& job) {
  if (optimizer.granularity() == Granularity::element) return;
  const auto refuse = [&](const std::string& setting, const std::string& value, const std::string& why) {
    throw Error(ErrorKind::input, {setting, value},
                "the optimizer " + optimizer.name() + " steps whole matrices, and " + why + "; leave it out");
  };
  if (job.layout.tp > 1) refuse("tp", std::to_string(job.layout.tp), "tensor parallelism cuts them");
  if (job.zero.divides_states()) refuse("zero", std::to_string(job.zero.stage), "replicas cut them to divide their states");
  if (job.offload.optimizer || job.offload.parameters)
    refuse("offload", to_string(job.offload), "blocks of what is offloaded cut them");
}

}  // namespace pipetrain
