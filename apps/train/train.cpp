#include "apps/train/train.hpp"

#include <fmt/format.h>

#include <optional>

#include "actors/training/run/job_description.hpp"
#include "actors/training/run/job_memory.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/signals/signals.hpp"
#include "apps/train/open_job.hpp"
#include "apps/train/place_data.hpp"
#include "apps/train/successive_layouts.hpp"
#include "apps/train/training_in_layout.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Prints the plan of the run. Throws Error also if the machine has too little memory for it.
void dry_run_training(const TrainOptions& options, const TrainJob& job, const std::vector<std::string>& notes) {
  std::optional<JobEstimate> estimate;
  auto planned = planned_processes(options.processes, options.run.devices.kind);
  if (planned) planned->processes -= options.run.spares;
  placing_errors(options.places, [&] { estimate = estimate_job(job, planned); });
  fmt::print("{}", job_description(job, *estimate));
  for (const auto& note : notes) print_note(note);
  if (estimate->shortage) throw Error(*estimate->shortage);
}

int dry_run(const TrainOptions& options) {
  RunLocks locks;
  std::vector<std::string> notes = options.notes;
  const TrainJob job = open_job(options, nullptr, locks, notes);
  if (!options.processes.leads()) return 0;
  save_config(options);
  dry_run_training(options, job, notes);
  return 0;
}

}  // namespace

int run_train(const TrainOptions& given) {
  if (!given.processes.leads()) leave_stop_to_first_process();
  TrainOptions options = given;
  place_data(options);
  if (options.dry_run) return dry_run(options);
  return SuccessiveLayouts(options).run();
}

}  // namespace pipetrain
