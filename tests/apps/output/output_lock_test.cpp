// Two live runs that write to one output, and an output that disappears during a run.
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string small_locked = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

// Starts a run that has done a step, and hangs in the next one.
std::unique_ptr<LiveRun> hanging_writer(const std::string& arguments) {
  auto run = std::make_unique<LiveRun>(small_locked + arguments, "PIPETRAIN_FAULT=0:2:hang");
  run->wait_until([&] { return run->err().find("step 1") != std::string::npos; });
  return run;
}

std::unique_ptr<LiveRun> endless_run(const std::string& arguments) {
  auto run = std::make_unique<LiveRun>(small_locked + "--steps 100000000 --log-interval 100000000 " + arguments);
  run->wait_until([&] { return run->err().find("step 1/") != std::string::npos; });
  return run;
}

}  // namespace

TEST_CASE("a second live run is refused where another writes its records, and changes nothing there") {
  const TempFolder folder;
  for (const auto& [option, name, other] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"metrics", "m.jsonl", "file"},
                                                                      {"record", "r.ptrc", "file"},
                                                                      {"report", "r.html", "file"},
                                                                      {"trace", "t.json", "file"},
                                                                      {"profile", "p.json", "file"},
                                                                      {"tensorboard", "events", "folder"}}) {
    const std::string place = (folder.path() / name).string();
    INFO(place);
    const auto first = hanging_writer("--" + option + " " + place);
    const bool is_file = option == "metrics" || option == "record" || option == "report";
    if (is_file) first->wait_until([&] { return fs::exists(place); });
    const std::string before = is_file ? read_file(place) : "";
    const std::string line = refused(small_locked + "--steps 1 --" + option + " " + place);
    CHECK_THAT(line, StartsWith("--" + option + " " + place + ": another run ") &&
                         Contains(" writing there; wait until it ends, or give another " + other));
    if (is_file) CHECK(read_file(place) == before);
    CHECK(run(small_locked + "--dry-run --" + option + " " + place).status == 0);
    first->end_by(SIGKILL);
    const Result after = run(small_locked + "--steps 1 --" + option + " " + place);
    INFO(after.err);
    CHECK(after.status == 0);
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"events", "m.jsonl", "p.json", "r.html", "r.ptrc", "t.json"});
  CHECK(names_in(folder.path() / "events").size() == 2);
}

TEST_CASE("a run whose folder was removed ends with one line, and does not make it anew") {
  for (const bool saves_often : {false, true}) {
    const TempFolder folder;
    const std::string save = (folder.path() / "run").string();
    const std::string page = (folder.path() / "r.html").string();
    const auto run = endless_run("--report " + page + " --save " + save + " --save-interval " + (saves_often ? "3" : "2000"));
    fs::rename(save, save + "-gone");
    CHECK(run->end_by(0) == 1);
    INFO(run->err());
    CHECK_THAT(run->err(),
               Contains("\npipetrain: error: --save " + save + ": was removed or replaced while the run was saving"));
    CHECK(names_in(folder.path()) == std::vector<std::string>{"r.html", "run-gone"});
    CHECK_THAT(read_file(page), Contains(R"("state":"failed","state_text":"--save )" + save + ": was removed or replaced"));
  }
}

TEST_CASE("a run that has lost its folder leaves the lock of the run that has it now alone") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const auto first = endless_run("--save " + save);
  fs::rename(save, save + "-gone");
  const auto second = hanging_writer("--save " + save);
  CHECK(first->end_by(SIGTERM) == 1);  // it cannot save
  CHECK_THAT(first->err(), Contains("was removed or replaced while the run was saving"));
  CHECK_THAT(refused(small_locked + "--steps 1 --save " + save),
             Contains("another run (process " + std::to_string(second->process()) + " on ") && Contains(") is saving there"));
  fs::remove(save + "/.pipetrain.lock");
  CHECK(run(small_locked + "--steps 1 --save " + save).status == 0);  // without the file there is no lock
}
