#include "actors/training/job/job_plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "actors/training/job/train_job.hpp"
#include "core/error.hpp"
#include "model/parameters/gradient_sums.hpp"
#include "model/parameters/parameters.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/activation_offload.hpp"

namespace pipetrain {
namespace {

using schedules::Action;
using schedules::ActionKind;
using schedules::Plan;

[[noreturn]] void refuse_plan(const std::string& why) { throw Error(ErrorKind::input, why); }

void check_size(const char* what, int plan, std::int64_t job) {
  if (plan != job)
    refuse_plan("the plan has " + std::to_string(plan) + " " + what + ", the run " + std::to_string(job) +
                "; make them the same");
}

bool has(const Plan& plan, ActionKind kind) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [kind](const auto& list) {
    return std::any_of(list.rbegin(), list.rend(), [kind](const Action& action) { return action.kind == kind; });
  });
}

bool ends_its_step(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [](const Action& action) { return !is_compute(action.kind) && !is_move(action.kind); });
  });
}

// validate() has checked that each kind is present for all who take part or for none.
void check_end_of_step(const Plan& plan, const schedules::EndOfStep& end) {
  const auto check = [&](ActionKind kind, bool needed, const char* what, const char* rule) {
    if (has(plan, kind) == needed) return;
    refuse_plan(std::string("the plan has ") + (needed ? "no " : "") + letter(kind) + " (" + what + "), which this run " +
                (needed ? "needs" : "has no use for") + ": " + rule + "; leave out all of R, S, T, N and O to have them added");
  };
  check(ActionKind::reduce_grads, end.reduce_grads, "sum gradients over replicas", "it belongs to dp > 1 or cp > 1");
  check(ActionKind::sum_replicated, end.sum_replicated, "sum what tensor-parallel ranks replicate", "it belongs to tp > 1");
  check(ActionKind::sum_tied, end.sum_tied, "sum tied weights' gradients", "it belongs to a model whose ends share a table");
  check(ActionKind::norm, true, "norm", "every step ends with N and O");
  check(ActionKind::optimizer, true, "optimizer", "every step ends with N and O");
}

// Adds moves where the job offloads activations; moves in a given plan stay.
Plan with_moves(const TrainJob& job, const Plan& plan) {
  const bool has_moves = moves_activations(plan);
  if (!job.offload.activations) {
    if (has_moves)
      throw Error(ErrorKind::input, {"offload", "none"},
                  "the plan moves activations (P and G): offload activations too, or leave them out of the plan");
    return plan;
  }
  if (has_moves) return plan;
  try {
    return offload_activations(plan, job.offload.activation_fraction);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::input, {"offload", "activations"}, error.what());
  }
}

Plan plan_of(const TrainJob& job) {
  const schedules::EndOfStep end{job.batch.dp > 1 || job.layout.cp > 1,
                                 has_partial_gradients(job.config, job.layout.tp, job.layout.sequence_parallel),
                                 job.config.shares_table()};
  if (!job.layout.plan) {
    const schedules::ScheduleShape shape{job.layout.pp, job.layout.chunks, static_cast<int>(job.batch.microbatches),
                                         job.layout.slices};
    return with_end_of_step(with_moves(job, build_schedule(job.layout.schedule, shape)), end);
  }
  const Plan& plan = *job.layout.plan;
  check_size("stages", plan.placement.stages(), job.layout.pp);
  check_size("chunks on each stage", plan.placement.chunks(), job.layout.chunks);
  check_size("slices of each microbatch", plan.slices, job.layout.slices);
  check_size("microbatches", plan.microbatches / plan.slices, job.batch.microbatches);
  if (!plan.custom.empty())
    refuse_plan("the plan has custom actions, X0 (" + plan.custom.front().name +
                "), which only the compute of an embedding program knows; leave them out");
  if (!ends_its_step(plan)) return with_end_of_step(with_moves(job, plan), end);
  check_end_of_step(plan, end);
  return with_moves(job, plan);
}

}  // namespace

std::shared_ptr<const Plan> build_plan(const TrainJob& job) {
  try {
    return std::make_shared<const Plan>(plan_of(job));
  } catch (const std::invalid_argument& error) {
    refuse_plan(error.what());
  }
}

std::vector<std::vector<Block>> parts_of(const TrainJob& job, const schedules::Placement& placement) {
  const int parts = placement.virtual_stages();
  if (!job.layout.cut.empty()) return cut_blocks(job.config, job.layout.cut, parts);
  return partition_blocks(job.config, parts, job.dataset->sequence_length(), job.numerics, job.layout.slices);
}

}  // namespace pipetrain
