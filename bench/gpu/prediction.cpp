#include "bench/gpu/prediction.hpp"

#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::bench {
namespace {

schedules::Plan plan_of(const Profile& profile, const Schedule& schedule) {
  return with_end_of_step(schedules::build_schedule(schedule.name, {profile.pp, schedule.chunks, profile.microbatches}),
                          profile.end_of_step());
}

}  // namespace

bool can_predict(const Profile& profile, const Schedule& schedule) {
  return profile.why_not(plan_of(profile, schedule)).empty();
}

double predicted_seconds(const Profile& profile, const Schedule& schedule) {
  return summarize(simulate(plan_of(profile, schedule), profile.costs())).makespan + profile.outside;
}

}  // namespace pipetrain::bench
