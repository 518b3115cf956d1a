#include "tuning/requested_features.hpp"

#include <string>

#include "actors/training/job/train_job.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

UsedFeatures features_of(const LayoutRequest& request) {
  TrainJob job;
  job.layout.cp = request.cp;
  job.devices.kind = request.device;
  job.numerics.precision = request.precision;
  job.zero.stage = request.zero.value_or(0);
  job.offload = request.offload;
  job.optimizer = request.optimizer;
  job.post_validation = request.post_validation;
  UsedFeatures used = features_of(job);
  if (job.offload.any() && !job.offload.to_disk()) used.add(Feature::host_offload, "offload", to_string(job.offload));
  if (request.hosts > 1) used.add(Feature::several_hosts, "hosts", std::to_string(request.hosts));
  if (request.search_cuts) used.add(Feature::cut_search, "cut", "search");
  if (request.solver_seconds > 0) used.add(Feature::solver_time, "solver-seconds", std::to_string(request.solver_seconds));
  return used;
}

}  // namespace pipetrain
