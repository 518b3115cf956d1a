// Event files as the real TensorBoard reads them: by its Python package, if python3 (or the interpreter that
// PIPETRAIN_TEST_PYTHON names) has it. tests/records/event_file_test.cpp checks the bytes everywhere.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "skip.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

const std::string small_tensorboard = "--device cpu --seq-len 8 --layers 1 --microbatches 2 ";

// Prints one line "TAG STEP:VALUE STEP:VALUE ..." for each scalar, from TensorBoard's own loader.
constexpr const char* read_events = R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
for tag in sorted(events.Tags()['scalars']):
    print(tag, *('%d:%.6g' % (e.step, e.value) for e in events.Scalars(tag)))
)";

std::string python() {
  const char* given = std::getenv("PIPETRAIN_TEST_PYTHON");
  return given ? given : "python3";
}

bool has_tensorboard() {
  if (std::system((python() + " -c 'import tensorboard' > /dev/null 2>&1").c_str()) == 0) return true;
  test::skip("no tensorboard for python3; see PIPETRAIN_TEST_PYTHON");
  return false;
}

std::string scalars(const TempFolder& folder, const fs::path& logs) {
  const Result read = run_program(python(), folder.write("read.py", read_events).string() + " " + logs.string());
  INFO(read.err);
  REQUIRE(read.status == 0);
  return read.out;
}

std::string line_of(const std::string& text, const std::string& tag) {
  const std::size_t begin = ("\n" + text).find("\n" + tag + " ");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("a run has one event file for each start, which is whole after every step") {
  const TempFolder folder;
  const std::string logs = (folder.path() / "logs").string(), save = " --save " + (folder.path() / "run").string();
  REQUIRE(run(small_tensorboard + "--steps 2 --tensorboard " + logs + save).status == 0);
  REQUIRE(names_in(logs).size() == 1);
  const std::string first = read_file(fs::path(logs) / names_in(logs)[0]);
  for (const char* tag : {"loss", "grad_norm", "lr", "tokens_per_second", "bubble", "memory_bytes", "skipped", "applied_steps"})
    CHECK_THAT(first, Contains(tag));
  REQUIRE(run(small_tensorboard + "--steps 3 --resume --tensorboard " + logs + save).status == 0);
  REQUIRE(names_in(logs).size() == 2);
  CHECK(read_file(fs::path(logs) / names_in(logs)[0]) == first);
}

TEST_CASE("a folder for events that cannot be used is refused before the run") {
  const TempFolder folder;
  const std::string file = folder.write("file", "x").string(), save = (folder.path() / "run").string();
  CHECK_THAT(refused(small_tensorboard + "--tensorboard " + file),
             Contains("--tensorboard " + file + ": ") && Contains("is not a folder"));
  CHECK_THAT(refused(small_tensorboard + "--tensorboard " + save + " --save " + save), Contains("give each its own path"));
  CHECK_THAT(refused(small_tensorboard + "--tensorboard " + save + "/model --save " + save),
             Contains("--save writes its model"));
}

TEST_CASE("a run that is refused, or fails before its first step has ended, leaves no folder for events") {
  const TempFolder folder;
  const std::string logs = " --tensorboard " + (folder.path() / "deep" / "logs").string();
  CHECK_THAT(refused(small_tensorboard + "--metrics /dev/full" + logs), Contains("--metrics /dev/full: "));
  CHECK_THAT(refused(small_tensorboard + "--pp 100" + logs), Contains("too few for 100 stages"));
  CHECK(run(small_tensorboard + "--steps 2" + logs, "PIPETRAIN_FAULT=0:1:throw").status == 1);
  CHECK(run(small_tensorboard + "--steps 2" + logs, "ulimit -f 0;").status == 2);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a disk that fills up under the events ends the run as under its metrics") {
  const TempFolder folder;
  const std::string logs = (folder.path() / "logs").string();
  const Result result = run(small_tensorboard + "--steps 50 --log-interval 50 --tensorboard " + logs, "ulimit -f 2;");
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("\npipetrain: error: --tensorboard " + logs + ": " + logs + "/events.out.tfevents.") &&
                             EndsWith("cannot be written: File too large; raise ulimit -f, or save to another disk\n"));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 2);  // after the line of step 1
}

TEST_CASE("the real TensorBoard reads every step, also of a run that was killed and resumed from an earlier step") {
  if (!has_tensorboard()) return;
  const TempFolder folder;
  const std::string logs = (folder.path() / "logs").string(), save = " --save " + (folder.path() / "run").string();
  const std::string run_to =
      small_tensorboard + "--lr-schedule constant --save-interval 2 --tensorboard " + logs + save + " --steps ";
  CHECK(run(run_to + "5", "PIPETRAIN_FAULT=0:4:exit").status != 0);
  {  // a record that a kill cut short
    std::ofstream torn(fs::path(logs) / names_in(logs)[0], std::ios::app);
    torn << std::string("\x18\0\0\0", 4);
  }
  const std::string before = scalars(folder, logs);
  CHECK_THAT(line_of(before, "loss"), Contains(" 1:") && Contains(" 3:") && !Contains(" 4:"));
  REQUIRE(run(run_to + "5 --resume").status == 0);
  const std::string after = line_of(scalars(folder, logs), "loss");
  for (const char* step : {" 1:", " 2:", " 3:", " 4:", " 5:"}) {
    INFO(after);
    CHECK(after.find(step) != std::string::npos);
    CHECK(after.find(step) == after.rfind(step));  // each occurs once
  }
  CHECK_THAT(line_of(scalars(folder, logs), "lr"), Contains("1:0.0003 2:0.0003"));
}
