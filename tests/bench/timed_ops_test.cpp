// Timed operations give the same bits as untimed ones, and count every second in its class.
#include "bench/gpu/timed_ops.hpp"

#include <mutex>

#include "actors/training/run/make_train_job.hpp"
#include "actors/training/run/trainer.hpp"
#include "apps/options/train_options.hpp"
#include "catch.hpp"

using namespace pipetrain;
using bench::make_timed_ops;
using bench::OpTimes;

namespace {

TrainJob tiny_job(int tp) {
  TrainOptions options = parse_train_options({"--device", "cpu", "--threads", "1", "--seq-len", "64", "--microbatches", "2",
                                              "--steps", "4", "--tp", std::to_string(tp)},
                                             {}, this_machine());
  return make_train_job(options.run, options.notes);
}

std::vector<double> losses(Trainer& trainer) {
  std::vector<double> values;
  for (int step = 0; step < 4; ++step) values.push_back(trainer.step().loss);
  return values;
}

}  // namespace

TEST_CASE("measuring operations changes no bit, and gives a class's seconds for each rank") {
  for (const int tp : {1, 2}) {
    INFO("tp " << tp);
    Trainer plain(tiny_job(tp));
    const auto expected = losses(plain);

    std::mutex mutex;
    std::vector<std::shared_ptr<OpTimes>> all;
    TrainJob job = tiny_job(tp);
    job.wrap_ops = [&](std::unique_ptr<Ops> ops, const MeshCoordinate&) {
      const std::lock_guard lock(mutex);
      all.push_back(std::make_shared<OpTimes>());
      return make_timed_ops(std::move(ops), all.back());
    };
    Trainer timed(std::move(job));
    REQUIRE(static_cast<int>(all.size()) == tp);
    CHECK(timed.step().loss == expected[0]);
    for (const auto& times : all) CHECK(times->take().total() == 0);
    for (const auto& times : all) times->set_measuring(true);
    double step_seconds = 0;
    for (int step = 1; step < 3; ++step) {
      const StepReport report = timed.step();
      CHECK(report.loss == expected[static_cast<std::size_t>(step)]);
      step_seconds += report.seconds;
    }
    for (const auto& times : all) times->set_measuring(false);
    CHECK(timed.step().loss == expected[3]);
    for (const auto& times : all) {
      const auto seconds = times->take();
      CHECK(seconds.matrix > 0);
      CHECK(seconds.attention > 0);
      CHECK(seconds.elementwise > 0);
      if (tp == 1) CHECK(seconds.communication == 0);
      if (tp == 2) CHECK(seconds.communication != 0);
      CHECK(seconds.total() < step_seconds);
      CHECK(times->take().total() == 0);
    }
  }
}
