// Runs that lose a step to a failure and continue from the copies of their ranks' states, in a new membership of the same
// process. Steps, losses and weights are those of the undisturbed run, to the bit.
#include <atomic>
#include <memory>

#include "actors/engine/run_failed.hpp"
#include "actors/hooked_ops.hpp"
#include "actors/tiny_run.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

constexpr std::int64_t renewal_steps = 4;

// Counts the operations of one rank, over all memberships, and fails at one of them.
struct FailingOperation {
  MeshCoordinate rank;
  std::int64_t at = 0;  // 0: none
  std::atomic<std::int64_t> count{0};
};

TrainJob job_with_copies(const TinyRun& tiny, const std::shared_ptr<FailingOperation>& failing) {
  TrainJob job = job_of(tiny);
  job.keeps_copies = true;
  job.wrap_ops = [failing](std::unique_ptr<Ops> ops, const MeshCoordinate& rank) {
    if (rank != failing->rank) return ops;
    return make_hooked_ops(std::move(ops), [failing] {
      if (++failing->count == failing->at) throw Error(ErrorKind::internal, "an operation was made to fail");
    });
  };
  return job;
}

// Runs a step, again where it fails; counts the renewals.
std::function<StepReport(Trainer&)> with_renewals(int& renewals) {
  return [&renewals](Trainer& trainer) {
    try {
      return trainer.step();
    } catch (const RunFailed&) {
      ++renewals;
      trainer.renew();
      return trainer.step();
    }
  };
}

std::vector<TinyRun> renewed_runs() {
  std::vector<TinyRun> runs;
  const auto add = [&](const Layout& layout, int precision = 0) {
    TinyRun& tiny = runs.emplace_back();
    tiny.layers = 4;
    tiny.dropout = 0.1;
    tiny.precision = precision;
    tiny.layout = layout;
  };
  add({.pp = 2});
  add({.pp = 2, .schedule = "zb-v", .chunks = 2}, 1);
  add({.tp = 2}, 2);
  add({.cp = 2});
  for (const int zero : {0, 1, 2, 3}) add({.pp = 2, .dp = 2, .zero = zero}, 1);
  return runs;
}

}  // namespace

TEST_CASE("a run that fails at any operation of a step repeats the step to the bit", "[renewal]") {
  const TinyRun tiny = GENERATE(from_range(renewed_runs()));
  INFO(to_string(tiny));
  const RunRecord undisturbed = run(job_of(tiny), renewal_steps);
  MeshCoordinate last;
  last.dp = tiny.layout.dp - 1, last.pp = tiny.layout.pp - 1, last.tp = tiny.layout.tp - 1, last.cp = tiny.layout.cp - 1;

  const auto counting = std::make_shared<FailingOperation>();
  counting->rank = last;
  std::vector<std::int64_t> begins;  // of each step
  run(job_with_copies(tiny, counting), renewal_steps, [&](Trainer& trainer) {
    begins.push_back(counting->count);
    return trainer.step();
  });
  const std::int64_t begin = begins[2], end = begins[3];
  REQUIRE(end > begin);
  const std::int64_t stride = std::max<std::int64_t>((end - begin) / 8, 1);
  for (std::int64_t at = begin + 1; at <= end; at += at + stride > end && at < end ? end - at : stride) {
    INFO("fails at operation " << at << " of " << begin + 1 << " to " << end);
    const auto failing = std::make_shared<FailingOperation>();
    failing->rank = last;
    failing->at = at;
    int renewals = 0;
    CHECK((run(job_with_copies(tiny, failing), renewal_steps, with_renewals(renewals)) == undisturbed));
    CHECK(renewals == 1);
  }
}

TEST_CASE("a run is renewed as often as it fails, also in its first step", "[renewal]") {
  TinyRun tiny;
  tiny.layout = {.pp = 2, .dp = 2};
  const RunRecord undisturbed = run(job_of(tiny), renewal_steps);
  const auto counting = std::make_shared<FailingOperation>();
  run(job_with_copies(tiny, counting), 1);
  const auto failing = std::make_shared<FailingOperation>();
  int renewals = 0;
  const RunRecord record = run(job_with_copies(tiny, failing), renewal_steps, [&](Trainer& trainer) {
    failing->at = failing->count + counting->count / 2;
    return with_renewals(renewals)(trainer);
  });
  CHECK((record == undisturbed));
  CHECK(renewals == renewal_steps);
}

TEST_CASE("a run without copies is not renewed", "[renewal]") {
  TinyRun tiny;
  Trainer trainer(job_of(tiny));
  trainer.step();
  CHECK_THROWS_WITH(trainer.renew(), Catch::Contains("keeps no copies"));
  CHECK(trainer.step().step == 2);
}
