// The program itself: its exit status, stdout and stderr.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"

namespace fs = std::filesystem;
using pipetrain::LiveRun;
using pipetrain::refused;
using pipetrain::Result;
using pipetrain::run;
using pipetrain::run_program;
using pipetrain::TempFolder;

namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

}  // namespace

TEST_CASE("help and version go to stdout") {
  for (const char* arguments : {"--help", "train --help", "help", "--pp 2 -h"}) {
    const Result help = run(arguments);
    CHECK(help.status == 0);
    CHECK_THAT(help.out, StartsWith("pipetrain [train] OPTIONS\n"));
    CHECK(help.err.empty());
  }
}

TEST_CASE("every command has a page and a version") {
  for (const std::string command : {"simulate", "tune", "doctor", "launch", "tokenize", "generate", "export"}) {
    for (const std::string& arguments : {command + " --help", "help " + command, command + " help", command + " --pp 2 -h"}) {
      const Result help = run(arguments);
      INFO(arguments << ": " << help.err);
      CHECK(help.status == 0);
      CHECK_THAT(help.out, StartsWith("pipetrain " + command));
    }
    const Result version = run(command + " --version");
    CHECK(version.status == 0);
    CHECK(version.out == run("--version").out);
    CHECK(run("--help").out.find(command) != std::string::npos);
  }
  CHECK_THAT(run("--version").out, StartsWith("pipetrain 0."));
  CHECK(refused("--help=pp") == "--help: takes no value; write it alone");
  CHECK(refused("simulate --version=1") == "--version: takes no value; write it alone");
  CHECK(run("help simulat").err == "pipetrain: error: simulat: unknown command; did you mean simulate?\n");
}

TEST_CASE("a wrong command line is one line on stderr, and exit status 2") {
  CHECK(refused("--pp 0") == "--pp 0: must be at least 1");
  CHECK(refused("train --ppp 2") == "--ppp: unknown option; did you mean --pp?");
  CHECK(refused("", "PIPETRAIN_PP=x") == "PIPETRAIN_PP=x: must be an integer of at least 1");
  CHECK(refused("--pp 0", "PIPETRAIN_NONSENSE=1") == "--pp 0: must be at least 1");
  CHECK(refused("trian --pp 2") == "trian: unknown command; did you mean train?");
}

TEST_CASE("a stopped run saves its state, says how to resume, and resumes") {
  TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  for (const auto& [signal, status] : {std::pair{"INT", 130}, std::pair{"TERM", 143}}) {
    const std::string command = "timeout -s " + std::string(signal) + " --preserve-status 2 '" + program_path() +
                                "' --steps 100000 --save '" + save + "' --resume > /dev/null 2> '" + save + ".err'";
    const int ended = std::system(command.c_str());
    REQUIRE(WIFEXITED(ended));
    CHECK(WEXITSTATUS(ended) == status);
    std::ostringstream err;
    err << std::ifstream(save + ".err").rdbuf();
    INFO(err.str());
    CHECK(err.str().find("stopped by SIG" + std::string(signal)) != std::string::npos);
    CHECK(err.str().find("--resume") != std::string::npos);
    CHECK(err.str().find(std::string(signal) == "INT" ? "starting afresh" : "resuming after step") != std::string::npos);
  }
}

// Runs the command line in the background, sends the signals half a second apart once `line` is on stderr (at once if
// it is empty), and returns how it ended. Without job control the shell would make it ignore SIGINT.
Result run_signalled(const std::string& arguments, const std::string& variables, const std::string& line,
                     const std::vector<std::string>& signals) {
  std::string kills;
  for (const auto& signal : signals) kills += "kill -" + signal + " $child; sleep 0.5; ";
  TempFolder folder;
  const std::string err = (folder.path() / "err").string();
  const auto script =
      folder.write("signal.sh", "set -m\n" + variables + " '" + program_path() + "' " + arguments + " > /dev/null 2> " + err +
                                    " & child=$!\nfor i in $(seq 300); do grep -q '" + line + "' " + err +
                                    " && break; sleep 0.1; done\n" + kills + "wait $child\n");
  Result result = run_program("/bin/bash", script.string());
  result.err += pipetrain::read_file(err);
  return result;
}

TEST_CASE("one signal ends a step that hangs, with its cause; the second ends any step at once") {
  const Result hung =
      run_signalled("--pp 2 --tp 2 --device cpu --stall-timeout 5", "PIPETRAIN_FAULT=1:2:hang", "step 1 ", {"TERM"});
  INFO(hung.err);
  CHECK(hung.status == 143);
  CHECK(hung.err.find("SIGTERM: finishing this step; a second signal stops at once\n") != std::string::npos);
  CHECK(hung.err.find("\nstage 0: ") != std::string::npos);
  CHECK(hung.err.find("pipetrain: error: no action completed for 5 s after the run was asked to stop") != std::string::npos);
  const Result twice = run_signalled("--pp 2 --device cpu", "PIPETRAIN_FAULT=1:2:hang", "step 1 ", {"INT", "INT"});
  INFO(twice.err);
  CHECK(twice.status == 130);
  CHECK(twice.err.find("SIGINT: finishing this step") != std::string::npos);
  CHECK(twice.err.find("\nstopped at once by a second signal\n") != std::string::npos);
}

TEST_CASE("a signal ends the other commands with its status and one line") {
  TempFolder folder;
  for (const auto& [signal, status, name] : {std::tuple{SIGINT, 130, "SIGINT"}, std::tuple{SIGTERM, 143, "SIGTERM"}}) {
    const std::string out = (folder.path() / "out").string(), svg = (folder.path() / "x.svg").string();
    LiveRun live("simulate --pp 8 --jitter 0.1 --runs 1000000 --svg " + svg, "", out);
    live.wait_until([&, number = signal] { return live.catches(number); });
    CHECK(live.end_by(signal) == status);
    CHECK(pipetrain::read_file(out).empty());
    CHECK(live.err() == "stopped by " + std::string(name) + "\n");
    CHECK(pipetrain::names_in(folder.path()) == std::vector<std::string>{"out"});
  }
}

TEST_CASE("commands that a signal ends amid their work leave nothing, and say so in one line") {
  const TempFolder folder;
  const std::string place = folder.path().string() + "/";
  std::string prompts;
  for (int i = 0; i < 20000; ++i) prompts += "a\n";
  folder.write("prompts", prompts);
  for (const std::string& command :
       {"generate --device cpu --model " + test_data() + "/golden/llama3_tiny --max-new-tokens 100 --prompts " + place +
            "prompts",
        "tune --model llama-7b --devices 64 --global-batch 512 --cut search --cut-seconds 100 --plans " + place + "plans"}) {
    LiveRun live(command);
    live.wait_until([&] { return live.catches(SIGTERM); });
    INFO(command);
    CHECK(live.end_by(SIGTERM) == 143);
    CHECK(live.err().ends_with("stopped by SIGTERM\n"));
    CHECK(pipetrain::names_in(folder.path()) == std::vector<std::string>{"prompts"});
  }
  folder.write("text.txt", std::string(60'000'000, 'a'));
  LiveRun live("tokenize --threads 1 --tokenizer " + test_data() + "/data/tokenizers/fixtures/llama3.json --data " + place +
               "text.txt --out " + place + "x.tokens");
  live.wait_until([&] { return pipetrain::names_in(folder.path()).size() == 3; });
  CHECK(live.end_by(SIGTERM) == 143);
  CHECK(live.err() == "stopped by SIGTERM\n");
  CHECK(pipetrain::names_in(folder.path()) == std::vector<std::string>{"prompts", "text.txt"});
}

TEST_CASE("an export that a signal stops leaves nothing half-written") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), out = (folder.path() / "out").string();
  const auto config =
      folder.write("model/config.json", R"({"model_type": "gpt2", "vocab_size": 8000, "n_embd": 256, "n_layer": 6,
      "n_head": 4, "n_positions": 64, "n_inner": 2048, "layer_norm_epsilon": 1e-5})");
  REQUIRE(run("--device cpu --init random --seq-len 8 --microbatches 1 --steps 1 --model " + config.parent_path().string() +
              " --save " + save)
              .status == 0);
  fs::remove_all(save + "/model");
  bool stopped = false;
  for (int tries = 0; tries < 20 && !stopped; ++tries) {  // it may have ended before
    LiveRun live("export --load " + save + "/step-00000001 --out " + out);
    live.wait_until([&] { return fs::exists(out + ".partial/config.json") || fs::exists(out); });
    const int status = live.end_by(SIGTERM);
    stopped = status == 143;
    CHECK((stopped || status == 0));
    if (stopped) CHECK(live.err() == "stopped by SIGTERM\n");
    CHECK(fs::exists(out) != stopped);
    CHECK_FALSE(fs::exists(out + ".partial"));
    fs::remove_all(out);
  }
  CHECK(stopped);
}

TEST_CASE("a provoked failure is one named line and exit status 1; a process that exits leaves no half-written files") {
  TempFolder folder;
  const std::string save = (folder.path() / "run").string();
  const std::string options = "--pp 2 --steps 4 --save-interval 1 --stall-timeout 1 --save ";
  for (const std::string kind : {"throw", "oom", "nan", "hang"}) {
    const Result result = run(options + save + "-" + kind, "PIPETRAIN_FAULT=1:3:" + kind);
    INFO(kind << ": " << result.err);
    CHECK(result.status == 1);
    CHECK(result.err.find("\npipetrain: error: ") != std::string::npos);
  }
  CHECK(run(options + save, "PIPETRAIN_FAULT=1:3:exit").status == 1);
  CHECK(std::filesystem::exists(save + "/step-00000001/state.json"));  // step 2 may still be on its way to the disk
  CHECK_FALSE(std::filesystem::exists(save + "/step-00000003"));
  CHECK_FALSE(std::filesystem::exists(save + "/model"));
  CHECK(run("--steps 1", "PIPETRAIN_FAULT=1:3:boom").status == 2);
}

TEST_CASE("a provoked failure names its rank and its step") {
  const auto failed = [](const std::string& kind) {
    return run("--pp 2 --tp 2 --device cpu --steps 3 --stall-timeout 1", "PIPETRAIN_FAULT=3:2:" + kind).err;
  };
  for (const char* kind : {"throw", "oom", "hang", "exit"}) {
    INFO(kind);
    CHECK(failed(kind).find("rank 3 (stage 1, tp rank 1, replica 0) in step 2") != std::string::npos);
  }
}

TEST_CASE("notes appear on stderr only if nothing is wrong") {
  const std::string small = "--seq-len 8 --layers 1 --microbatches 1 --steps 1 ", nonsense = "PIPETRAIN_NONSENSE=1";
  for (const char* wrong : {"--metrics /dev/full", "--data nothing.txt", "--tp 3", "--device cpu --tp 3 --dry-run"}) {
    const Result result = run(small + wrong, nonsense);
    INFO(result.err);
    CHECK(result.status == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
  for (const char* right : {"", "--dry-run", "--metrics /dev/null"})
    CHECK(run(small + right, nonsense).err.find("PIPETRAIN_NONSENSE is no option") != std::string::npos);
  CHECK(run(small, "PIPETRAIN_TP=3").err.find("PIPETRAIN_TP: --tp 3: ") != std::string::npos);
}

TEST_CASE("a dry run prints the plan and the memory and trains nothing") {
  const Result result = run("--pp 2 --tp 2 --dp 2 --dry-run");
  CHECK(result.status == 0);
  CHECK(result.out.find("stage 1   | F0") != std::string::npos);
  CHECK(result.out.find("workspace   total MiB") != std::string::npos);
  CHECK(run("--pp 9 --dry-run").status == 2);
}

TEST_CASE("a dry run shows what recomputation saves") {
  const auto activations = [](const std::string& mode) {
    const Result result = run("--pp 2 --dry-run --recompute " + mode);
    REQUIRE(result.status == 0);
    const std::string said = mode == "full --recompute-num-layers 1" ? "full of 1 layer" : mode;
    CHECK((result.out.find("2 stages, recompute " + said + "\n") != std::string::npos) == (mode != "none"));
    std::istringstream row(result.out.substr(result.out.find("total MiB\n") + 10));  // the first device's row
    double device, replica, stage, rank, parameters, gradients, optimizer, bytes = 0;
    row >> device >> replica >> stage >> rank >> parameters >> gradients >> optimizer >> bytes;
    return bytes;
  };
  const double none = activations("none"), selective = activations("selective"), full = activations("full");
  CHECK(none > 1.2 * selective);
  CHECK(selective > 2 * full);
  const double some = activations("full --recompute-num-layers 1");
  CHECK(some < selective);
  CHECK(some > full);
  CHECK(full > 0);
}

TEST_CASE("sizes that a model has not are refused with those that it has") {
  CHECK(refused("--layers 100") == "--layers 100: the model tiny has 4 layers; give as many or fewer, or leave it out");
  CHECK(refused("--pp 5 --chunks 2 --schedule interleaved --microbatches 5 --device cpu") ==
        "--pp: the model's 8 attention and MLP blocks, two a layer, are too few for 10 stages; use 8 or fewer (pp x chunks), "
        "or a model of more layers");
  CHECK_THAT(refused("watch nowhere"), Contains("nowhere: there is no such file or folder; check the path"));
}

TEST_CASE("doctor reports the features of the machine") {
  const Result result = run("doctor");
  CHECK(result.status == 0);
  CHECK(result.out.find("cpu        ok") != std::string::npos);
  for (const char* fact : {"\nprocesses  ok", "\nucx        ", "\nnccl       ", "\nnetwork    "}) {
    INFO(fact);
    CHECK(result.out.find(fact) != std::string::npos);
  }
  CHECK(result.out.find("lo 127.0.0.1") != std::string::npos);
  CHECK(run("doctor --pp 2").status == 2);
  CHECK(run("doctor --threads 2").err == "pipetrain: error: --threads 2: needs --measure FILE; give that, or leave this out\n");
  CHECK(run("doctor", "PIPETRAIN_DEVICE=cpu PIPETRAIN_THREADS=2").status == 0);
  CHECK(run("doctor --measure /nonexistent/d.json").status == 2);
}
