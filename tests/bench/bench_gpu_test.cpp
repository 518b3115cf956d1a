// The program itself, on CPU rows and with a stand-in for the peer.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "paths.hpp"
#include "run_program.hpp"

using Catch::Matchers::Contains;
using pipetrain::read_file;
using pipetrain::Result;
using pipetrain::run_program;
using pipetrain::TempFolder;

namespace {

// Returns the program's path: in the build, or next to this program, as in a bundle.
std::string program() {
  if (std::filesystem::exists(pipetrain::bench_gpu_path())) return pipetrain::bench_gpu_path();
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "bench_gpu").string();
}

Result run(const std::string& arguments, const std::string& variables = "") {
  return run_program(program(), arguments, variables);
}

}  // namespace

TEST_CASE("bench gpu lists its rows and refuses what it does not know") {
  TempFolder folder;
  const Result list = run("--list");
  CHECK(list.status == 0);
  CHECK_THAT(list.out, Contains("llama2-7b-pp2-tp4 ") && Contains("8 GPUs"));
  CHECK(run("--nothing").status == 2);
  const Result unknown = run("llama9*");
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, Contains("llama9*"));
  const Result program = run("cpu-tiny-pp1", "BENCH_PROGRAM=/nowhere/pipetrain");
  CHECK(program.status == 2);
  CHECK_THAT(program.err, Contains("BENCH_PROGRAM"));
}

TEST_CASE("bench gpu measures rows with all their parts, and the peer that it is given") {
  TempFolder folder;
  folder.write("peer.py", "");
  // Prints its own command line, in the form in which a program started by torchrun prints its figures.
  const auto torchrun =
      folder.write("torchrun", "#!/bin/sh\necho \"$@\" >> '" + (folder.path() / "called").string() +
                                   "'\ntest \"$NCCL_NVLS_ENABLE\" = 0 || exit 1\n"
                                   "echo 'RESULT {\"sec_step\": 0.5, \"spread\": [0.4, 0.6], \"tok_s_gpu\": 1.5, "
                                   "\"tflops_gpu\": 0.25, \"mem_gib\": [1.0, 1.0, 1.0, 1.0]}'\n");
  std::filesystem::permissions(torchrun, std::filesystem::perms::owner_all);
  const std::string variables = "PIPETRAIN_TORCHRUN='" + torchrun.string() + "' PIPETRAIN_TORCH_PEER='" +
                                (folder.path() / "peer.py").string() + "' PIPETRAIN_PP=7";
  const std::string kept = (folder.path() / "kept").string();
  const Result result = run("'cpu-tiny-*' --steps 2 --warmup 1 --rounds 2 --keep '" + kept + "'", variables);
  INFO(result.err);
  CHECK(result.status == 0);
  std::set<std::string> names;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const auto number = nlohmann::json::parse(line);
    names.insert(number.at("bench"));
    if (number.at("bench") == "gpu cpu-tiny-pp2 PyTorch") CHECK(number.at("value") == 1.5);
    if (number.at("bench") == "gpu cpu-tiny-pp1 throughput") CHECK(number.at("value") > 0);
  }
  for (const char* what :
       {"pp1 throughput", "pp1 model rate", "pp1 PyTorch", "pp1 ratio to PyTorch", "pp1 share of the limit",
        "pp1 start to first step", "pp1 --deterministic on, of the throughput", "pp1 time in matrix products",
        "pp1 time in host", "pp2 time in communication exposed", "pp2 time in bubble", "pp2 step predicted, 1f1b",
        "pp2 step predicted, zb-h1", "pp2 schedules ranked right", "pp2 peak memory without state"}) {
    INFO(what);
    CHECK(names.count(std::string("gpu cpu-tiny-") + what) == 1);
  }
  CHECK_THAT(result.err, Contains("where a step's time goes") && Contains("from zb-h1's"));
  CHECK_THAT(read_file(folder.path() / "called"), Contains("--nproc_per_node 4") && Contains("--gas 4"));
  CHECK(std::filesystem::exists(folder.path() / "kept/cpu-tiny-pp2/zb-h1-0.trace.json"));
  CHECK(std::filesystem::exists(folder.path() / "kept/cpu-tiny-pp2/braided-v-0.metrics"));
  CHECK(!std::filesystem::exists(folder.path() / "kept/cpu-tiny-pp2/braided-v-0.profile"));
  CHECK(!std::filesystem::exists(folder.path() / "kept/cpu-tiny-pp2/tokens.jsonl"));
}

TEST_CASE("bench gpu says what failed, continues, and ends with status 1") {
  TempFolder folder;
  folder.write("peer.py", "");
  const auto torchrun = folder.write("torchrun", "#!/bin/sh\necho 'CUDA out of memory' >&2\nexit 1\n");
  std::filesystem::permissions(torchrun, std::filesystem::perms::owner_all);
  const Result result =
      run("cpu-tiny-pp1 --steps 1 --warmup 1 --parts peer",
          "PIPETRAIN_TORCHRUN='" + torchrun.string() + "' PIPETRAIN_TORCH_PEER='" + (folder.path() / "peer.py").string() + "'");
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("PyTorch ended with status 1: CUDA out of memory"));
  CHECK_THAT(result.out, Contains("gpu cpu-tiny-pp1 throughput") && !Contains("ratio to PyTorch"));
}

TEST_CASE("rows that need more GPUs than there are are left out by name") {
  TempFolder folder;
  const Result result = run("llama2-7b-pp8 --parts none", "CUDA_VISIBLE_DEVICES=");
  CHECK(result.status == 1);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("llama2-7b-pp8 is left out: it needs 8 GPUs and 0 are here"));
}
