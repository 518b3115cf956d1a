// Two live runs that save to one folder.
#include <memory>
#include <string>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

const std::string small_lock = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

// Starts a run that hangs in the step after `step`, for which it waits.
std::unique_ptr<LiveRun> hanging_run(const std::string& arguments, int step) {
  auto run = std::make_unique<LiveRun>(arguments, "PIPETRAIN_FAULT=0:" + std::to_string(step + 1) + ":hang");
  run->wait_until([&] { return run->err().find("step " + std::to_string(step)) != std::string::npos; });
  return run;
}

}  // namespace

TEST_CASE("a second live run is refused in a folder that another saves to, until that one ends or is killed") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const std::string second = small_lock + "--steps 4 --resume --save " + save;
  const auto first = hanging_run(small_lock + "--save-interval 2 --save " + save, 3);
  first->wait_until([&] { return fs::exists(save + "/step-00000002"); });

  CHECK_THAT(refused(second),
             StartsWith("--save " + save + ": another run (process " + std::to_string(first->process()) + " on ") &&
                 EndsWith(") is saving there; wait until it ends, or give another folder"));
  CHECK_THAT(refused(small_lock + "--steps 4 --resume", "PIPETRAIN_SAVE=" + save),
             StartsWith("PIPETRAIN_SAVE: --save " + save));
  CHECK(run(second + " --dry-run").status == 0);
  CHECK(run(small_lock + "--steps 1 --save " + save + "2").status == 0);

  first->end_by(SIGKILL);
  const Result resumed = run(second);
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Contains("resuming after step 2"));
  CHECK(names_in(save) == std::vector<std::string>{"model", "results.json", "step-00000002", "step-00000004"});
}

TEST_CASE("a folder that nothing is saved to yet is held too") {
  const TempFolder folder;
  const std::string save = (folder.path() / "deep/run").string();
  const auto first = hanging_run(small_lock + "--save " + save, 1);
  CHECK_THAT(refused(small_lock + "--steps 1 --save " + save + "/"), Contains("is saving there"));
  first->end_by(SIGKILL);
  CHECK(run(small_lock + "--steps 1 --save " + save).status == 0);
  CHECK(names_in(save) == std::vector<std::string>{"model", "results.json", "step-00000001"});
}

TEST_CASE("a run that saves nothing leaves no folder, and a dry run never makes one") {
  const TempFolder folder;
  const std::string save = (folder.path() / "deep/run").string();
  CHECK(run(small_lock + "--steps 1 --data " + folder.write("a.txt", "").string() + " --save " + save).status == 2);
  CHECK(run(small_lock + "--dry-run --save " + save).status == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a.txt"});
}

TEST_CASE("a run that is stopped before its first step leaves nothing") {
  const TempFolder place;
  const fs::path save = place.path() / "run";
  // Draws weights for seconds.
  LiveRun run("--device cpu --model gpt2 --seq-len 32 --microbatches 1 --save " + save.string());
  run.wait_until([&] { return fs::exists(save); });
  CHECK(run.end_by(SIGTERM) == 143);
  INFO(run.err());
  CHECK(names_in(place.path()).empty());
}
