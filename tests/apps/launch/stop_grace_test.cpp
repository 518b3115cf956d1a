// SIGTERM when the launcher kills before the current step can be finished and saved.
#include "apps/train/stop_grace.hpp"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "catch.hpp"
#include "comm/control/held_port.hpp"

using namespace pipetrain;
using bench::ProcessMark;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small_stopped = "--device cpu --threads 1 --seq-len 8 --layers 2 --microbatches 4 --pp 2 ";

std::string save_to(const TempFolder& folder) { return "--save '" + (folder.path() / "run").string() + "' "; }

std::string saved_model(const TempFolder& folder) { return read_file(folder.path() / "run" / "model" / "model.safetensors"); }

}  // namespace

TEST_CASE("a step and a save must fit into what the launcher leaves after SIGTERM") {
  using Seconds = StopGrace::Seconds;
  const auto fits = [](double step, bool saves, const std::optional<Seconds>& save) {
    StopGrace grace(std::chrono::seconds(10));
    grace.step_took(step);
    return grace.fits_step(saves, save);
  };
  CHECK(fits(4, true, Seconds(4.9)));
  CHECK_FALSE(fits(4, true, Seconds(5.1)));
  CHECK(fits(8.9, false, Seconds(6)));
  CHECK_FALSE(fits(11, false, {}));
  CHECK(fits(3.9, true, {}));  // no save has been timed
  CHECK_FALSE(fits(4.1, true, {}));
  StopGrace unknown({}), first(std::chrono::seconds(0));
  unknown.step_took(1e6);
  CHECK(unknown.fits_step(true, {}));
  CHECK(first.fits_step(true, {}));  // no step is done
}

TEST_CASE("a run with no time for its step saves the previous one at once, and resumes from it to the same bits", "[launch]") {
  const TempFolder whole;
  REQUIRE(run(small_stopped + "--steps 5 " + save_to(whole)).status == 0);
  for (const std::string command : {"", "launch --nproc 2 "}) {
    for (const char* rank : {"0", "1"}) {
      INFO(command << rank);
      const TempFolder folder;
      const ProcessMark mark;
      const std::string options = command + small_stopped + "--steps 5 " + save_to(folder);
      // The step never ends, so the run can be saved only if it abandons the step.
      LiveRun stopped(options + "--stop-grace 0", std::string("PIPETRAIN_FAULT=") + rank + ":3:hang " + mark.variable());
      stopped.wait_until([&] { return stopped.err().find(" hangs, as PIPETRAIN_FAULT asks") != std::string::npos; });
      CHECK(stopped.end_by(SIGTERM) == 143);
      INFO(stopped.err());
      CHECK(mark.all_gone());
      CHECK_THAT(stopped.err(), Contains("SIGTERM: leaving this step and saving the one before") &&
                                    Contains("stopped by SIGTERM after step 2; continue with the same command and --resume") &&
                                    !Contains("error"));
      CHECK(names_in(folder.path() / "run") == std::vector<std::string>{"step-00000002"});
      CHECK(run(options + "--resume").status == 0);
      CHECK(saved_model(folder) == saved_model(whole));
    }
  }
}

TEST_CASE("an abandoned step changes no bit of the resumed run, in any layout", "[launch][slow]") {
  for (const char* layout : {"--pp 2", "--pp 2 --dp 2 --zero 1", "--dp 2 --zero 3", "--pp 2 --post-validation on",
                             "--pp 2 --precision bf16 --post-validation on", "--tp 2 --pp 2 --schedule zb-v"}) {
    INFO(layout);
    const std::string options =
        std::string("--device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 40 --steps 6 ") + layout + " ";
    const TempFolder whole, folder;
    REQUIRE(run(options + save_to(whole)).status == 0);
    LiveRun stopped(options + "--stop-grace 0 " + save_to(folder), "PIPETRAIN_FAULT=0:1:slow");
    stopped.wait_until([&] { return stopped.err().find("step 3/") != std::string::npos; });
    CHECK(stopped.end_by(SIGTERM) == 143);
    INFO(stopped.err());
    CHECK_THAT(stopped.err(), Contains("SIGTERM: leaving this step"));
    CHECK(run(options + "--resume " + save_to(folder)).status == 0);
    CHECK(saved_model(folder) == saved_model(whole));
  }
}

TEST_CASE("a step is finished where what is saved is offloaded", "[launch]") {
  const TempFolder folder;
  LiveRun stopped(small_stopped + "--steps 1000000 --log-interval 1000000 --stop-grace 0 --offload optimizer --offload-to '" +
                  folder.path().string() + "' " + save_to(folder));
  stopped.wait_until([&] { return stopped.err().find("step 1/") != std::string::npos; });
  CHECK(stopped.end_by(SIGTERM) == 143);
  INFO(stopped.err());
  CHECK_THAT(stopped.err(), !Contains("leaving this step") && Contains("stopped by SIGTERM after step "));
  CHECK(names_in(folder.path() / "run").size() == 1);
}

TEST_CASE("a step that fits is finished, whichever signal stops the run", "[launch]") {
  for (const auto& [signal, grace, status] : {std::tuple{SIGTERM, "100", 143}, std::tuple{SIGINT, "100", 130}}) {
    const TempFolder folder;
    LiveRun stopped(small_stopped + "--steps 1000000 --log-interval 1000000 --stop-grace " + grace + " " + save_to(folder));
    stopped.wait_until([&] { return stopped.err().find("step 1/") != std::string::npos; });
    CHECK(stopped.end_by(signal) == status);
    INFO(stopped.err());
    CHECK_THAT(stopped.err(), !Contains("leaving this step"));
    CHECK(names_in(folder.path() / "run").size() == 1);
  }
}

TEST_CASE("a process of a stopped run that misses another one blames it, unless the launcher's grace was over", "[launch]") {
  for (const auto& [grace, status] : {std::pair{"--stop-grace 1 ", 143}, std::pair{"--stop-grace 60 ", 1}, std::pair{"", 1}}) {
    INFO(grace);
    const ProcessMark mark;
    const TempFolder folder;
    const std::string place = " WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(HeldPort(0).port());
    const std::string options = small_stopped + "--steps 1000000 --log-interval 1000000 " + grace;
    const std::string hangs = mark.variable() + place + " PIPETRAIN_FAULT=0:3:hang ";
    LiveRun first(options + save_to(folder), hangs + "RANK=0"), second(options, hangs + "RANK=1");
    first.wait_until([&] { return first.err().find(" hangs, as PIPETRAIN_FAULT asks") != std::string::npos; });
    first.signal(SIGTERM);
    second.signal(SIGTERM);
    first.wait_until([&] { return first.err().find("SIGTERM: finishing this step") != std::string::npos; });
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    CHECK(first.end_by(SIGKILL) == -1);
    CHECK(second.end_by(0) == status);
    INFO(second.err());
    if (status == 143) {
      CHECK_THAT(second.err(), Contains("stopped by SIGTERM: another process ended before the run could save (process 0 ") &&
                                   Contains("the launcher's grace of 1 s was over") && !Contains("pipetrain: error"));
    } else {
      CHECK_THAT(second.err(), Contains("pipetrain: error: [rank 1] process 0 ") && !Contains("grace"));
    }
  }
}

TEST_CASE("a process that goes before the launcher stops the others stays the cause", "[launch]") {
  const std::string place = " WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(HeldPort(0).port());
  const std::string options = small_stopped + "--steps 1000000 --log-interval 1000000 ";
  LiveRun first(options, place + " RANK=0"), second(options, place + " RANK=1");
  first.wait_until([&] { return first.err().find("step 1/") != std::string::npos; });
  CHECK(second.end_by(SIGKILL) == -1);
  first.signal(SIGTERM);  // as mpirun then does
  CHECK(first.end_by(0) == 1);
  INFO(first.err());
  CHECK_THAT(first.err(), Contains("pipetrain: error: process 1 "));
}
