// Runs that Open MPI, Slurm and torchrun start, as on a cluster: their results, how they are stopped, and that they stay
// separate.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "apps/launch/one_node_slurm.hpp"
#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "catch.hpp"
#include "skip.hpp"

using namespace pipetrain;
using bench::ProcessMark;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

// Two processes of a launcher.
struct TwoTasks {
  std::string words, variables;
};

const std::string started_options = "--device cpu --threads 1 --seq-len 8 --layers 2 --pp 2 ";
// A step takes more than a second, longer than Open MPI leaves for it and its save.
const std::string slow_options = started_options + "--microbatches 120 --steps 1000 ";
const std::string slow_rank = " PIPETRAIN_FAULT=1:1:slow ";

std::string save_started(const TempFolder& folder) { return "--save '" + (folder.path() / "run").string() + "' "; }
std::string started_model(const TempFolder& folder) { return read_file(folder.path() / "run" / "model" / "model.safetensors"); }

bool has_open_mpi() {
  const bool found = std::system("mpirun --version 2>&1 | grep -q 'Open MPI'") == 0;
  if (!found) test::skip("mpirun of Open MPI is not installed (package openmpi-bin)");
  return found;
}

TwoTasks two_of_mpirun(const std::string& options = "") {
  return {"mpirun --oversubscribe -n 2 " + options, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
}

TwoTasks two_of_srun(const test::OneNodeSlurm& slurm, const std::string& options = "") {
  return {"srun -n 2 " + options, slurm.variable()};
}

bool has_torchrun() {
  const bool found = std::system("torchrun --help >/dev/null 2>&1") == 0;
  if (!found) test::skip("torchrun is not installed (PyPI's torch)");
  return found;
}

TwoTasks two_of_torchrun() { return {"torchrun --no-python --standalone --nproc-per-node 2 ", ""}; }

// Checks that they learn what the processes of launch learn.
void check_bits(const TwoTasks& tasks) {
  const std::string options = started_options + "--microbatches 4 --steps 4 ";
  const TempFolder launched, started;
  const ProcessMark mark;
  REQUIRE(run("launch --nproc 2 " + options + save_started(launched)).status == 0);
  LiveRun live(LiveRun::Launcher{tasks.words}, options + save_started(started), tasks.variables + " " + mark.variable());
  CHECK(live.end_by(0) == 0);
  INFO(live.err());
  CHECK_THAT(live.err(), Contains("between processes: ucx"));
  CHECK(started_model(started) == started_model(launched));
  CHECK(!started_model(started).empty());
  CHECK(mark.all_gone());
}

// Two runs at the same time, of different lengths, with neither ports nor tokens: each must connect its own two processes.
void check_apart(const TwoTasks& tasks) {
  const std::string options = started_options + "--microbatches 4 --log-interval 1000 --steps ";
  const TempFolder one, two;
  LiveRun first(LiveRun::Launcher{tasks.words}, options + "300 " + save_started(one), tasks.variables);
  LiveRun second(LiveRun::Launcher{tasks.words}, options + "301 " + save_started(two), tasks.variables);
  CHECK(first.end_by(0) == 0);
  CHECK(second.end_by(0) == 0);
  INFO(first.err() << second.err());
  CHECK(!started_model(one).empty());
  CHECK(!started_model(two).empty());
}

// Applies `stop` to a run in the middle of a step, and waits until nothing is left. Returns its stderr.
std::string stopped_run(const TwoTasks& tasks, const TempFolder& folder, const std::function<void(LiveRun&)>& stop) {
  const ProcessMark mark;
  LiveRun live(LiveRun::Launcher{tasks.words}, slow_options + save_started(folder),
               tasks.variables + slow_rank + mark.variable());
  live.wait_until([&] { return live.err().find("step 2/") != std::string::npos; });
  stop(live);
  CHECK(live.end_by(0) != 0);
  CHECK(mark.all_gone());
  return live.err();
}

// Checks that a step was saved, and that no process is blamed.
void check_saved(const std::string& err, const TempFolder& folder) {
  INFO(err);
  CHECK_THAT(err, Contains("stopped by SIGTERM after step ") && !Contains("pipetrain: error"));
  CHECK(names_in(folder.path() / "run").size() == 1);
}

}  // namespace

TEST_CASE("processes of mpirun learn what those of launch learn, to the bit", "[launch][slow]") {
  if (has_open_mpi()) check_bits(two_of_mpirun());
}

TEST_CASE("two runs of mpirun on one host keep apart without ports and tokens", "[launch][slow]") {
  if (has_open_mpi()) check_apart(two_of_mpirun());
}

TEST_CASE("SIGTERM to mpirun saves the last finished step before mpirun kills, and this step where it waits longer",
          "[launch][slow]") {
  if (!has_open_mpi()) return;
  const auto terminate = [](LiveRun& live) { live.signal(SIGTERM); };
  const TempFolder short_grace, long_grace;
  std::string err = stopped_run(two_of_mpirun(), short_grace, terminate);
  check_saved(err, short_grace);
  CHECK_THAT(err, Contains("SIGTERM: leaving this step and saving the one before, because the launcher kills 1 s after"));
  err = stopped_run(two_of_mpirun("--mca odls_base_sigkill_timeout 10"), long_grace, terminate);
  check_saved(err, long_grace);
  CHECK_THAT(err, Contains("SIGTERM: finishing this step, then saving"));
}

TEST_CASE("processes of torchrun learn what those of launch learn, two runs keep apart, and SIGTERM saves the step",
          "[launch][slow]") {
  if (!has_torchrun()) return;
  check_bits(two_of_torchrun());
  check_apart(two_of_torchrun());
  const TempFolder folder;
  const std::string err = stopped_run(two_of_torchrun(), folder, [](LiveRun& live) { live.signal(SIGTERM); });
  check_saved(err, folder);
  CHECK_THAT(err, Contains("SIGTERM: finishing this step, then saving"));
}

TEST_CASE("tasks of srun learn what the processes of launch learn, keep apart from another job, and save when cancelled",
          "[launch][slow]") {
  const test::OneNodeSlurm slurm;
  if (!slurm.why_not().empty()) return test::skip("Slurm: " + slurm.why_not());
  check_bits(two_of_srun(slurm));
  check_apart(two_of_srun(slurm));
  const TempFolder folder;
  const std::string cancel = slurm.variable() + " scancel --name cancelled >/dev/null 2>&1";
  const std::string err =
      stopped_run(two_of_srun(slurm, "-J cancelled"), folder, [&](LiveRun&) { CHECK(std::system(cancel.c_str()) == 0); });
  check_saved(err, folder);
  CHECK_THAT(err, Contains("SIGTERM: finishing this step, then saving"));
}

TEST_CASE("a program that a Slurm job's script runs without srun is one process", "[launch][slow]") {
  const test::OneNodeSlurm slurm;
  if (!slurm.why_not().empty()) return test::skip("Slurm: " + slurm.why_not());
  const TempFolder folder;
  const std::string script = folder.write("job", "#!/bin/sh\nexec '" + program_path() + "' " + started_options +
                                                     "--steps 2 --save '" + (folder.path() / "run").string() + "'\n");
  const Result result =
      run_program("sbatch", "--wait -n 4 -o '" + (folder.path() / "out").string() + "' '" + script + "'", slurm.variable());
  INFO(result.err << read_file(folder.path() / "out"));
  CHECK(result.status == 0);
  CHECK_THAT(read_file(folder.path() / "out"), Contains("2 steps, loss") && !Contains("between processes"));
}
