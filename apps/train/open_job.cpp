#include "apps/train/open_job.hpp"

#include <utility>

#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/job/job_settings.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "apps/output/output_target.hpp"
#include "apps/processes/leave_run.hpp"
#include "apps/signals/signals.hpp"

namespace pipetrain {

namespace {

// Files that grow in place (--metrics, --record) are locked by the run that has them open.
void take_records(const RecordSettings& records, std::vector<std::unique_ptr<OutputLock>>& locks,
                  std::vector<std::string>& notes) {
  if (records.tensorboard) locks.push_back(OutputLock::of_folder("tensorboard", *records.tensorboard, notes));
  for (const auto& [option, path] :
       {std::pair("report", records.report), std::pair("trace", records.trace), std::pair("profile", records.profile)}) {
    if (!path) continue;
    const OutputTarget target = output_target(option, *path);
    if (!target.is_stream()) locks.push_back(OutputLock::of_file(option, target, notes));
  }
}

// Process 0 alone verifies every byte of a checkpoint to resume from; the others read what their ranks need.
std::optional<TrainJob> open_together(const TrainOptions& options, JoinedRun& joined, std::vector<std::string>& notes) {
  RunSettings run = options.run;
  std::optional<TrainJob> job;
  const auto open = [&] { job = make_train_job(run, notes); };
  if (run.saving.load || run.saving.resume) {
    joined.in_first("checkpoint", open);
    run.saving.verified = joined.from_first("checkpoint to resume from", job ? job->checkpoint.string() : "");
  }
  joined.together("job", [&] {
    if (!job) open();
  });
  return job;
}

JoinRequest join_request(const TrainOptions& options) {
  JoinRequest request;
  request.shape = options.run.mesh_shape();
  request.settings = job_settings(options.run);
  request.stall = options.run.stall;
  request.places = options.places;
  request.continues = options.run.elastic == Elastic::takeover;
  request.spares = options.run.spares;
  return request;
}

}  // namespace

// The outputs are locked before a checkpoint to resume from is looked for in them.
void take_outputs(const TrainOptions& options, RunLocks& locks, std::vector<std::string>& notes) {
  if (const auto& folder = options.run.saving.folder) {
    if (!locks.save) locks.save = OutputLock::of_folder("save", *folder, notes);
    restore_replaced_checkpoints(*folder);
  }
  if (locks.others.empty()) take_records(options.records, locks.others, notes);
}

std::unique_ptr<JoinedRun> join_run(const TrainOptions& options) {
  if (options.dry_run) return nullptr;
  hear_preemption(options.processes.preempt_signal);
  if (!options.processes.several()) return nullptr;
  auto joined = std::make_unique<JoinedRun>(options.processes, join_request(options));
  joined->departures().on_leave([] { leave_run("this process has handed over its ranks and ends"); });
  return joined;
}

TrainJob open_job(const TrainOptions& options, JoinedRun* joined, RunLocks& locks, std::vector<std::string>& notes,
                  const RunBefore& before) {
  std::optional<TrainJob> job;
  if (joined && joined->joins()) {
    RunSettings fresh = options.run;  // its states come from the others, and only process 0 saves
    fresh.saving = {};
    placing_errors(options.places, [&] { job = make_train_job(fresh, notes); });
    job->saves = options.run.saving.folder.has_value();
    job->processes = joined->processes();
    return std::move(*job);
  }
  const auto take = [&] {
    if (!options.dry_run) take_outputs(options, locks, notes);
  };
  placing_errors(options.places, [&] {
    joined ? joined->in_first("folder", take) : take();
    job = joined ? open_together(options, *joined, notes) : make_train_job(options.run, notes, before);
  });
  if (joined) job->processes = joined->processes();
  return std::move(*job);
}

}  // namespace pipetrain
