// Processes that join elastic runs which have begun, and runs that change their number of processes.
#include <signal.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/faults/run_results.hpp"
#include "bench/faults/seeded_changes.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

constexpr const char* joined_layout =
    " --device cpu --threads 1 --pp 2 --layers 4 --seq-len 8 --microbatches 2 --steps 240 --log-interval 1000000";

// A run in the background.
class JoinedProgram {
 public:
  explicit JoinedProgram(const std::string& command) : run_(words(command), {mark_.variable()}, folder_.path() / "err") {}

  std::string save() const { return (folder_.path() / "run").string(); }
  std::string options() const {
    return joined_layout + (" --save " + save()) + " --metrics " + (folder_.path() / "metrics").string();
  }
  const bench::ProcessMark& mark() const { return mark_; }
  std::string err() const { return run_.err(); }
  void wait_for_steps(std::ptrdiff_t steps) { CHECK(bench::wait_for_lines(run_, folder_.path() / "metrics", steps)); }
  std::ptrdiff_t steps() const { return bench::lines_of(folder_.path() / "metrics"); }
  // Waits until it prints this text.
  void wait_for(const std::string& text) {
    const bool came = test::wait_until([&] { return err().find(text) != std::string::npos || !run_.running(); });
    INFO(err());
    CHECK(came);
    CHECK_THAT(err(), Contains(text));
  }
  // Waits for its end, and checks that it has the losses and weights of a run in which nothing happens.
  void check_end() {
    const auto status = run_.wait(std::chrono::seconds(120));
    INFO(err());
    REQUIRE(status == 0);
    const TempFolder alone;
    REQUIRE(run("train" + std::string(joined_layout) + " --save " + (alone.path() / "run").string() + " --metrics " +
                (alone.path() / "metrics").string())
                .status == 0);
    CHECK((bench::results_in(folder_.path()) == bench::results_in(alone.path())));
  }

 private:
  std::vector<std::string> words(const std::string& command) const {
    std::istringstream in(command + options());
    std::vector<std::string> words{program_path()};
    for (std::string word; in >> word;) words.push_back(word);
    return words;
  }

  TempFolder folder_;
  bench::ProcessMark mark_;
  bench::ProgramRun run_;
};

}  // namespace

TEST_CASE("launch starts another process for a lost one and it takes ranks again", "[launch][join]") {
  const int victim = GENERATE(0, 1);
  JoinedProgram program("launch --nproc 2 --elastic takeover --restart-processes 1");
  program.wait_for_steps(10);
  REQUIRE(program.mark().signal(victim, SIGKILL));
  program.wait_for("joined: 1 process has joined the run; rank ");
  CHECK(program.mark().processes(2).size() == 1);
  program.check_end();
}

TEST_CASE("a run gets more processes and fewer and keeps its bits", "[launch][join][relayout]") {
  JoinedProgram program("launch --nproc 2 --elastic takeover");
  program.wait_for_steps(10);
  const Result grown = run("relayout " + program.save() + " --nproc 4 --pp 4");
  CHECK(grown.status == 0);
  CHECK_THAT(grown.out, Contains("pp 2 dp 1, 1f1b -> pp 4 dp 1, 1f1b"));
  const Result shrunk = run("relayout " + program.save() + " --nproc 1");
  CHECK(shrunk.status == 0);
  CHECK_THAT(shrunk.out, Contains("relayout: the run has 1 process; it took "));
  CHECK(run("relayout " + program.save() + " --nproc 2").status == 0);
  program.check_end();
}

TEST_CASE("a process that is started by hand joins a run by its save folder", "[launch][join]") {
  JoinedProgram program("launch --nproc 2 --elastic takeover --spares 0");
  program.wait_for_steps(10);
  REQUIRE(program.mark().signal(1, SIGUSR2));
  program.wait_for("handed over: ");
  std::istringstream in(program.options() + " --elastic takeover --join " + program.save());
  std::vector<std::string> words{program_path(), "train"};
  for (std::string word; in >> word;) words.push_back(word);
  const TempFolder folder;
  bench::ProgramRun joining(words, {}, folder.path() / "err");
  program.wait_for("joined: 1 process has joined the run; rank ");
  program.check_end();
  INFO(joining.err());
  CHECK(joining.wait(std::chrono::seconds(30)) == 0);
}

TEST_CASE("a process that does not fit a run is refused and the run goes on", "[launch][join]") {
  JoinedProgram program("launch --nproc 2 --elastic takeover");
  program.wait_for_steps(5);
  const Result other = run("train" + program.options() + " --elastic takeover --lr 0.5 --join " + program.save());
  CHECK(other.status == 2);
  CHECK_THAT(other.err, Contains("--lr 0.5: process 0 has "));
  const Result stranger = run("train" + program.options() + " --elastic takeover --join 127.0.0.1:1");
  CHECK(stranger.status == 1);
  CHECK_THAT(stranger.err, Contains("the run at 127.0.0.1:1 cannot be joined: "));
  program.check_end();
}

TEST_CASE("options of runs that change their processes are refused where they mean nothing", "[launch][join]") {
  const TempFolder folder;
  const std::string none = folder.path().string();
  CHECK_THAT(run("train --elastic takeover --join " + none).err, Contains("--join " + none + ": no run that others may join"));
  CHECK_THAT(run("train --join 127.0.0.1:5").err,
             Contains("--join 127.0.0.1:5: processes join runs with --elastic takeover only"));
  CHECK_THAT(run("train --elastic takeover --join run").err, Contains("--join run: must be the --save folder"));
  CHECK_THAT(run("launch --nproc 2 --pp 2 --restart-processes 1").err, Contains("--restart-processes 1: "));
  CHECK_THAT(run("train --restart-processes 1").err, Contains("belongs to pipetrain launch"));
}

TEST_CASE("a run that is not elastic keeps its number of processes", "[launch][join][relayout]") {
  JoinedProgram program("train");
  program.wait_for_steps(5);
  const Result refused = run("relayout " + program.save() + " --nproc 2");
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("only a run with --elastic takeover changes its number of processes"));
  program.check_end();
}

TEST_CASE("seeded joins and leaves and layouts and losses keep the bits of a run", "[launch][join][slow]") {
  const TempFolder folder;
  bench::SeededChanges changes(program_path(), folder.path());
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const bench::ChangesOutcome outcome = changes.run(seed);
    INFO(outcome.what);
    CHECK(outcome.problem == "");
  }
}
