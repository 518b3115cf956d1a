#include "braid_failures.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "actors/engine/run_failed.hpp"
#include "actors/training/run/trainer.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "hooked_ops.hpp"

namespace pipetrain::test {

using Catch::Matchers::Contains;

namespace {

constexpr std::chrono::milliseconds long_stall{20000};

// Returns the cause of the failure in which the trainer's next step ends.
template <class Check>
void check_failure(Trainer& trainer, Check check) {
  try {
    trainer.step();
    FAIL("the step ended");
  } catch (const RunFailed& failure) {
    INFO(failure.what());
    check(failure);
    CHECK(failure.everything_stopped());
  }
}

}  // namespace

void check_failing_braids(const MakeBraids& make, std::chrono::milliseconds stall) {
  for (const auto& [kind, error] :
       {std::pair{FaultKind::raise, ErrorKind::internal}, std::pair{FaultKind::nan, ErrorKind::numeric},
        std::pair{FaultKind::hang, ErrorKind::peer_lost}}) {
    TrainJob job = make();
    job.fault = Fault{3, 2, kind};
    job.stall = kind == FaultKind::hang ? stall : long_stall;
    Trainer trainer(std::move(job));
    trainer.step();
    check_failure(trainer, [error = error](const RunFailed& failure) { CHECK(failure.kind() == error); });
  }
}

// A braid's forward uses the second operations of its rank, the other action the first: each has its own.
void check_throwing_braids(const MakeBraids& make) {
  for (const int which : {0, 1}) {
    for (const int late : {0, 7, 23}) {
      TrainJob job = make();
      job.stall = long_stall;
      std::atomic<int> left{-1};
      std::mutex mutex;
      std::map<std::string, int> made;
      job.wrap_ops = [&](std::unique_ptr<Ops> ops, const MeshCoordinate& id) {
        const std::lock_guard lock(mutex);
        if (made[to_string(id)]++ != which || id.pp != 0 || id.tp != 1) return ops;
        return make_hooked_ops(std::move(ops), [&left] {
          if (left >= 0 && left-- == 0) throw Error(ErrorKind::internal, "thrown on purpose");
        });
      };
      Trainer trainer(std::move(job));
      trainer.step();
      for (const auto& [id, count] : made) CHECK(count == 2);
      left = late;
      INFO("operations " << which << ", " << late << " calls late");
      check_failure(trainer,
                    [](const RunFailed& failure) { CHECK_THAT(failure.what(), Contains("stage 0: thrown on purpose")); });
    }
  }
}

}  // namespace pipetrain::test
