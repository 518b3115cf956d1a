// pipetrain tune: its command lines compared with the runs' own numbers, and wrong input.
#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "core/device.hpp"
#include "skip.hpp"

using namespace pipetrain;
using nlohmann::json;
using pipetrain::TempFolder;

namespace {

using Catch::Matchers::Contains;

// Returns tune's results for eight GPUs and half of Llama-2-7B.
json layouts_that_offload(const std::string& options) {
  const std::string model = "tune --model llama2-7b --layers 16 --devices 8 --max-tp 1 --global-batch 64 --device cuda ";
  const Result result = run(model + "--json --count 200 --recompute selective " + options);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

// Checks that every command offloads `what`, and takes longer over a slow link.
void check_moving(const std::string& what, const json& found) {
  CHECK(found.size() > 0);
  const json far = layouts_that_offload("--memory 24 --offload-bandwidth 1 --offload " + what);
  for (const json& one : found) {
    CHECK_THAT(one["command"].get<std::string>(), Contains("--offload " + what));
    for (const json& other : far)
      if (other["command"] == one["command"]) CHECK(other["step_seconds"] > one["step_seconds"]);
  }
}

}  // namespace

TEST_CASE("tune plans with gradients and weights in few bits, and its command lines run") {
  const std::string search = "tune --model tiny --devices 4 --device cpu --global-batch 8 --max-tp 1 --json --count 12 ";
  for (const char* code : {"--compress-gradients int8", "--compress-gradients 1bit", "--compress-weights int8"}) {
    const Result result = run(search + code);
    INFO(code << result.err);
    REQUIRE(result.status == 0);
    int coded = 0;
    for (const json& one : json::parse(result.out)) {
      const std::string command = one["command"];
      coded += command.find(code) != std::string::npos ? 1 : 0;
      CHECK((command.find(code) != std::string::npos) == (one["dp"] > 1));
      if (one["dp"] > 1) CHECK(run(command.substr(10) + " --dry-run").status == 0);
    }
    CHECK(coded > 0);
  }
  CHECK(run(search + "--zero 2 --compress-gradients int8").status == 2);
  CHECK(run(search + "--zero 1 --compress-weights int8").status == 2);
}

TEST_CASE("tune prints command lines that run, with the memory that a run counts") {
  const TempFolder folder;
  const std::string plans = (folder.path() / "plans of auto").string();
  const Result result =
      run("tune --model tiny --devices 4 --device cpu --global-batch 32 --latency 50 --tflops 0.05 --count 60 "
          "--json --plans '" +
          plans + "'");
  INFO(result.err);
  REQUIRE(result.status == 0);
  const json layouts = json::parse(result.out);
  REQUIRE(layouts.size() == 60);
  int of_auto = 0;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const bool is_auto = layouts[i]["schedule"] == "auto";
    of_auto += is_auto ? 1 : 0;
    if (i % 13 != 0 && !is_auto) continue;
    const std::string command = layouts[i]["command"];
    REQUIRE(command.substr(0, 10) == "pipetrain ");
    const Result dry = run(command.substr(10) + " --dry-run");
    INFO(command << "\n" << dry.out << dry.err);
    REQUIRE(dry.status == 0);
    // The last table has a line for each device: index, replica, stage, rank, ..., total MiB.
    std::istringstream lines(dry.out.substr(dry.out.find("total MiB\n") + 10));
    for (int index, replica, rank; lines >> index >> replica;) {
      std::size_t stage = 0;
      double mib = 0;
      lines >> stage >> rank;
      for (int column = 0; column < 7; ++column) lines >> mib;
      // The state is divided evenly over replicas, up to two blocks of the norm.
      const double apart = layouts[i]["zero"] == 0 ? 0 : 2 * 65536 * 16.0 / (1 << 20);
      if (rank == 0) CHECK(mib == Approx(layouts[i]["memory_bytes"][stage].get<double>() / (1 << 20)).margin(0.06 + apart));
    }
  }
  CHECK(of_auto > 0);
}

TEST_CASE("tune plans with steps that begin before the verdict: commands that run, with the memory that a run counts") {
  const std::string small = "tune --model tiny --devices 4 --device cpu --global-batch 32 --seq-len 16 --post-validation on ";
  const Result result = run(small + "--tflops 0.05 --count 30 --json");
  INFO(result.err);
  REQUIRE(result.status == 0);
  const json layouts = json::parse(result.out);
  for (std::size_t i = 0; i < layouts.size(); i += 7) {
    const std::string command = layouts[i]["command"].get<std::string>().substr(10);
    CHECK_THAT(command, Contains("--post-validation on"));
    const Result dry = run(command + " --dry-run");
    INFO(command << "\n" << dry.out << dry.err);
    REQUIRE(dry.status == 0);
    double mib = 0;  // of the first device, in the last column of the last table's first line
    std::istringstream line(dry.out.substr(dry.out.find("total MiB\n") + 10));
    for (int column = 0; column < 11; ++column) line >> mib;
    CHECK(mib == Approx(layouts[i]["memory_bytes"][0].get<double>() / (1 << 20)).margin(0.06));
  }
  REQUIRE(run(layouts[0]["command"].get<std::string>().substr(10) + " --steps 2").status == 0);

  const auto refusal = [&](const std::string& options) { return refused(small + options); };
  CHECK_THAT(refusal("--zero 1"), Contains("--post-validation on: a step that begins early reads weights that are whole"));
  CHECK_THAT(refusal("--offload optimizer --device cuda"),
             Contains("--post-validation on: a step that begins early needs states on the device"));
  CHECK_THAT(refusal("--hosts 2"), Contains("--post-validation on: tune does not simulate"));
  CHECK_THAT(refusal("--cut search"), Contains("--post-validation on: cuts are searched"));
  const Result some =
      run("tune --model tiny --seq-len 16 --device cpu --devices 2 --pp 2 --global-batch 65536 --count 1 "
          "--post-validation on");
  CHECK(some.status == 0);
  CHECK_THAT(some.out, Contains(" of too many microbatches to simulate"));
}

TEST_CASE("tune writes the solver's plans, which run, and reports their gap") {
  const TempFolder folder;
  const std::string plans = (folder.path() / "plans").string();
  const Result result =
      run("tune --model tiny --devices 4 --device cpu --global-batch 32 --latency 50 --tflops 0.05 --count 20 --json "
          "--solver-seconds 0.05 --plans " +
          plans);
  INFO(result.err);
  REQUIRE(result.status == 0);
  int of_solver = 0;
  for (const json& layout : json::parse(result.out)) {
    CHECK(layout["gap"].is_null() == (layout["schedule"] != "solver"));
    if (layout["schedule"] != "solver") continue;
    ++of_solver;
    CHECK(layout["gap"].get<double>() >= 0);
    CHECK(run(layout["command"].get<std::string>().substr(10) + " --dry-run").status == 0);
  }
  CHECK(of_solver > 0);
  CHECK_THAT(refused("tune --model tiny --devices 4 --device cpu --solver-seconds 1"),
             Contains("--solver-seconds 1: its plans need a folder; add --plans DIR"));
}

TEST_CASE("tune searches cuts whose command lines run, and lays everything out as a given cut says") {
  const std::string gpt2 =
      "tune --model gpt2 --seq-len 256 --devices 2 --pp 2 --device cpu --global-batch 8 --latency 50 --tflops 1 --count 6 ";
  const std::string search = gpt2 + "--cut search --cut-steps 400";
  const Result searched = run(search + " --json");
  INFO(searched.err);
  REQUIRE(searched.status == 0);
  CHECK(searched.out == run(search + " --json").out);
  int cut = 0;
  for (const json& layout : json::parse(searched.out)) {
    CHECK(layout["pp"] == 2);
    CHECK(layout["cut"].is_null() == layout["cut_gap"].is_null());
    if (layout["cut"].is_null()) continue;
    ++cut;
    CHECK(layout["step_seconds"].get<double>() < layout["step_seconds_by_cost"].get<double>());
    CHECK(layout["cut_gap"].get<double>() >= 0);
    std::int64_t blocks = 0;
    for (const json& count : layout["cut"]) blocks += count.get<std::int64_t>();
    CHECK(blocks == 24);
    if (cut > 2) continue;
    const Result dry = run(layout["command"].get<std::string>().substr(10) + " --dry-run");
    INFO(dry.err);
    CHECK(dry.status == 0);
    CHECK_THAT(dry.out, Contains("(as given)"));
  }
  CHECK(cut > 0);

  const std::string tune = "tune --model tiny --devices 4 --pp 4 --device cpu --tflops 0.05 --json ";
  const Result given = run(tune + "--cut 1,3,3,1");
  REQUIRE(given.status == 0);
  for (const json& layout : json::parse(given.out)) {
    CHECK(layout["cut"] == json::array({1, 3, 3, 1}));
    CHECK(layout["chunks"] == 1);
    CHECK_THAT(layout["command"].get<std::string>(), Contains(" --cut 1,3,3,1 "));
  }
  CHECK_THAT(run(search).out, Contains("400 cuts looked at, until the limit ended the search") && Contains("  cut: "));
  CHECK_THAT(refused(tune + "--cut 4,5"), Contains("--cut 4,5: must add up to the model's 8"));
  CHECK_THAT(refused(tune + "--cut 4,4"), Contains("--cut 4,4: is of 2 virtual stages, no multiple of --pp 4"));
  CHECK_THAT(refused(tune + "--cut 8,0"), Contains("--cut 8,0: leaves a virtual stage without a block"));
  CHECK_THAT(refused(tune + "--cut sought"), Contains("\"sought\" is no number of blocks"));
  CHECK_THAT(refused(tune + "--cut-steps 5"), Contains("--cut-steps 5: applies to a search of cuts; add --cut search"));
  CHECK_THAT(refused(tune + "--cut search --cut-seconds 0"), Contains("--cut-seconds 0: must be"));
  CHECK_THAT(refused("tune --model tiny --devices 4 --pp 3"), Contains("--pp 3: does not divide 4 devices"));
  CHECK_THAT(refused("tune --model tiny --devices 4 --cp 3"), Contains("--cp 3: does not divide 4 devices"));
  CHECK_THAT(refused("tune --model tiny --devices 4 --cp 4 --seq-len 12"),
             Contains("give a --seq-len that is a multiple of 8"));
}

TEST_CASE("tune takes what blocks took in a run, and refuses the profile of another") {
  const TempFolder folder;
  const std::string profile = (folder.path() / "profile.json").string();
  REQUIRE(run("--device cpu --pp 2 --threads 1 --seq-len 64 --schedule zb-h1 --microbatches 4 --steps 3 --profile " + profile)
              .status == 0);
  const std::string tune =
      "tune --model tiny --seq-len 64 --devices 2 --pp 2 --device cpu --global-batch 4 --tflops 0.001 --count 1000 --json ";
  const auto seconds = [&](const std::string& more) {
    const Result result = run(tune + more);
    INFO(result.err);
    REQUIRE(result.status == 0);
    for (const json& layout : json::parse(result.out))
      if (layout["schedule"] == "zb-h1" && layout["microbatch"] == 1) return layout["step_seconds"].get<double>();
    FAIL("no zb-h1");
    return 0.0;
  };
  const Result simulated = run("simulate --schedule zb-h1 --json --costs " + profile);
  REQUIRE(simulated.status == 0);
  const double ideal = json::parse(simulated.out)[0]["ideal"];  // of the busier stage
  // A lower speed of the devices changes nothing: their blocks are scaled to the same times. The difference is the step's end.
  const double slow = seconds("--costs " + profile), fast = seconds("--tflops 0.01 --costs " + profile);
  CHECK(slow == Approx(fast).epsilon(0.02));
  CHECK(slow < 3 * ideal);
  CHECK(slow > 0.4 * ideal);
  CHECK(run(tune + "--cut search --cut-steps 100 --costs " + profile).status == 0);
  // The times of blocks when ranks share sequences are compared with the estimate for that case.
  const std::string shared = (folder.path() / "shared.json").string();
  REQUIRE(
      run("--device cpu --pp 2 --cp 2 --threads 1 --seq-len 64 --schedule zb-h1 --microbatches 4 --steps 3 --profile " + shared)
          .status == 0);
  const std::string cp = "--devices 4 --cp 2 ";
  CHECK(seconds(cp + "--costs " + shared) == Approx(seconds(cp + "--tflops 0.01 --costs " + shared)).epsilon(0.02));
  CHECK_THAT(refused("tune --model tiny --seq-len 32 --devices 2 --device cpu --costs " + profile),
             Contains("--costs: the profile is of sequences of 64 tokens, and these layouts of 32; give seq-len 64"));
  CHECK_THAT(refused("tune --model tiny --layers 2 --devices 2 --device cpu --costs " + profile),
             Contains("--costs: the profile is of another model, tiny"));
  CHECK_THAT(refused("tune --model tiny --seq-len 64 --devices 2 --device cuda --costs " + profile),
             Contains("--costs: the profile is of cpu, and these layouts of cuda"));
  CHECK_THAT(refused(tune + "--costs missing.json"), Contains("--costs missing.json: "));
}

TEST_CASE("tune plans in fp8, faster than in bf16, over tensor-parallel ranks whose sizes take it") {
  const auto tuned = [](const std::string& more) {
    const Result result =
        run("tune --model llama3-8b --layers 8 --devices 4 --device cuda --memory 139 --count 40 --json " + more);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json fp8 = tuned("--precision fp8"), bf16 = tuned("--precision bf16");
  CHECK(fp8[0]["step_seconds"].get<double>() < 0.8 * bf16[0]["step_seconds"].get<double>());
  CHECK_THAT(fp8[0]["command"].get<std::string>(), Contains(" --precision fp8"));
  const json blockwise = tuned("--precision fp8 --fp8-recipe blockwise");
  CHECK_THAT(blockwise[0]["command"].get<std::string>(), Contains(" --precision fp8 --fp8-recipe blockwise"));
  CHECK(blockwise[0]["step_seconds"].get<double>() > fp8[0]["step_seconds"].get<double>());
  CHECK(std::any_of(fp8.begin(), fp8.end(), [](const json& layout) { return layout["tp"] == 4; }));
  CHECK(tuned("--precision fp8 --fp8-tflops 400")[0]["step_seconds"].get<double>() >= bf16[0]["step_seconds"].get<double>());
}

TEST_CASE("tune takes what doctor measured, and doctor measures something") {
  const TempFolder folder;
  const std::string file = (folder.path() / "devices.json").string();
  const Result doctor = run("doctor --device cpu --measure " + file);
  INFO(doctor.out << doctor.err);
  REQUIRE(doctor.status == 0);
  CHECK_THAT(doctor.out, Contains("rates that they sustain") && Contains("FLOP/s fp32"));
  std::ifstream stream(file);
  json measured = json::parse(stream);
  CHECK(measured["device"] == "cpu");
  for (const char* key : {"devices", "threads", "memory_bytes", "fp32_flops", "memory_rate", "block_overhead"})
    CHECK(measured[key].get<double>() > 0);

  measured["devices"] = 2, measured["fp32_flops"] = 1e9, measured["link_rate"] = 1e9, measured["latency"] = 1e-5;
  const auto layouts = [&](const std::string& more) {
    folder.write("devices.json", measured.dump());
    const Result result = run("tune --json --model tiny --measured " + file + more);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json slow = layouts("");
  CHECK(slow[0]["pp"].get<int>() * slow[0]["tp"].get<int>() * slow[0]["dp"].get<int>() == 2);
  CHECK_THAT(slow[0]["command"].get<std::string>(), Contains("--precision fp32 --device cpu"));
  measured["fp32_flops"] = 2e9;
  CHECK(layouts("")[0]["step_seconds"].get<double>() < slow[0]["step_seconds"].get<double>());
  CHECK(layouts(" --tflops 0.001") == slow);  // options take precedence
  measured["link_rate"] = nullptr, measured["latency"] = nullptr;
  folder.write("devices.json", measured.dump());
  CHECK_THAT(run("tune --model tiny --measured " + file).err, Contains("no link between two"));
}

TEST_CASE("on GPUs doctor measures bf16 too, and tune counts the memory that a dry run counts", "[gpu]") {
  const int gpus = cuda_device_count();
  if (!test::needs_gpus(gpus)) return;
  const TempFolder folder;
  const std::string file = (folder.path() / "devices.json").string();
  const Result doctor = run("doctor --measure " + file);
  INFO(doctor.out << doctor.err);
  REQUIRE(doctor.status == 0);
  std::ifstream stream(file);
  const json measured = json::parse(stream);
  CHECK(measured["device"] == "cuda");
  CHECK(measured["devices"] == gpus);
  CHECK(measured["bf16_flops"].get<double>() > measured["fp32_flops"].get<double>());
  if (gpus > 1) CHECK(measured["link_rate"].get<double>() > 0);
  const Result tune = run("tune --model tiny --json --max-tp 1 --measured " + file);
  REQUIRE(tune.status == 0);
  const json best = json::parse(tune.out)[0];
  const std::string command = best["command"];
  const Result dry = run(command.substr(10) + " --dry-run");
  INFO(command << "\n" << dry.out << dry.err);
  REQUIRE(dry.status == 0);
  const auto last = dry.out.find_last_of(' ');  // total MiB of the last device
  CHECK(std::stod(dry.out.substr(last)) == Approx(best["memory_bytes"].back().get<double>() / (1 << 20)).margin(0.06));
}

TEST_CASE("tune plans adapters on a quantised base: commands that run, with the memory that a run counts") {
  const auto planned = [](const std::string& form) {
    const Result result =
        run("tune --model tiny --devices 2 --device cpu --global-batch 8 --lora-rank 2 --count 3 --json" + form);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json plain = planned(""), quantised = planned(" --base-precision nf4");
  const std::string command = quantised[0]["command"];
  CHECK_THAT(command, Contains("--lora-rank 2 --base-precision nf4"));
  CHECK(quantised[0]["memory_bytes"][0] < plain[0]["memory_bytes"][0]);
  const Result dry = run(command.substr(10) + " --dry-run");
  INFO(dry.err);
  CHECK(dry.status == 0);
  CHECK_THAT(run("tune --model tiny --devices 2 --device cpu --base-precision nf4").err,
             Contains("--base-precision nf4: no matrix of attention and MLP is frozen"));
}

TEST_CASE("tune prints the ten best and their command lines") {
  const Result result = run("tune --model llama2-7b --devices 8 --seq-len 2048");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  std::size_t commands = 0;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) commands += line.substr(0, 18) == "pipetrain --model " ? 1 : 0;
  CHECK(commands == 10);
}

TEST_CASE("tune plans for hosts, and its command lines are for all of them") {
  const Result result =
      run("tune --model llama2-7b --devices 8 --seq-len 2048 --hosts 2 --host-bandwidth 5 --host-latency 50 --json");
  INFO(result.err);
  REQUIRE(result.status == 0);
  for (const json& layout : json::parse(result.out)) {
    CHECK(4 % layout["tp"].get<int>() == 0);
    CHECK_THAT(layout["command"].get<std::string>(), Contains("pipetrain --nnodes 2 --node-rank NODE --master HOST:29500"));
  }
}

TEST_CASE("tune names what is wrong in one line") {
  const auto wrong = [](const std::string& arguments, int status = 2) {
    const Result result = run("tune " + arguments);
    INFO(arguments << ": " << result.out << result.err);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    return result.err;
  };
  CHECK_THAT(wrong("--devices 8 --hosts 3"), Contains("--hosts 3: do not share 8 devices evenly"));
  CHECK_THAT(wrong("--devices 8 --host-latency 30"), Contains("--host-latency 30: ") && Contains("give --hosts"));
  CHECK_THAT(wrong("--devices 0"), Contains("--devices 0: must be at least 1"));
  CHECK_THAT(wrong("--model llama2-8b --devices 8"), Contains("llama2-7b"));
  CHECK_THAT(wrong("--devices 8 --tflops 0"), Contains("--tflops 0: must be a number from 1e-06 to 1000000000"));
  CHECK_THAT(wrong("--devices 8 --memory nan"), Contains("--memory nan: must be a number from 0.0009765625 to 65536"));
  CHECK_THAT(wrong("--devices 8 --layers 5"), Contains("--layers 5: the model tiny has 4 layers; give as many or fewer"));
  CHECK_THAT(wrong("--devices 8 --precision fp4"), Contains("must be one of fp32, bf16, fp16"));
  CHECK_THAT(wrong("--devices 8 --device cuda --precision bf16 --fp8-tflops 900"),
             Contains("--fp8-tflops 900: applies to --precision fp8"));
  CHECK_THAT(wrong("--devices 8 --device cuda --precision bf16 --fp8-recipe blockwise"),
             Contains("--fp8-recipe blockwise: applies to precision fp8"));
  CHECK_THAT(wrong("--devices 8 --recompute-num-layers 2"),
             Contains("--recompute-num-layers 2: ") && Contains("add --recompute"));
  CHECK_THAT(wrong("--devices 8 --recompute some"), Contains("must be one of none, selective, full"));
  CHECK_THAT(wrong("--devices 8 --device cpu --precision fp8"), Contains("not built on the CPU"));
  CHECK_THAT(wrong("--devices 8 --plans /nonexistent/plans"), Contains("cannot be made"));
  const TempFolder folder;
  const auto measured = [&](const std::string& text) { return "--measured " + folder.write("d.json", text).string(); };
  CHECK_THAT(wrong(measured("{}")), Contains("d.json: is no measurement of devices: format is missing"));
  CHECK_THAT(wrong(measured("{\"format\": \"pipetrain devices\", \"version\": 1, \"device\": \"cpu\", \"devices\": 0}")),
             Contains("devices is 0, not a number from 1 to 65536"));
  const std::string device = R"({"format": "pipetrain devices", "version": 1, "device": "cuda", "devices": 2, "threads": 1,
    "memory_bytes": 8e10, "fp32_flops": 1e13, "bf16_flops": 1e-320, "memory_rate": 1e12, "block_overhead": 1e-5,
    "link_rate": 1e11, "latency": 1e-5})";
  CHECK_THAT(wrong(measured(device)), Contains("d.json: bf16_flops is ") && Contains("not a number from 1000000 to 1e+21"));
  CHECK_THAT(wrong("--measured " + (folder.path() / "none.json").string()), Contains("none.json"));
  CHECK_THAT(wrong("--devices 8 --seq-len 100000"), Contains("positions"));
  CHECK_THAT(wrong("--devices 7 --global-batch 3 --layers 1"), Contains("use another number of devices"));
  CHECK_THAT(wrong("--devices 8 --memory 0.001", 1), Contains("fits 8 devices"));
  for (const char* option : {"--tflops", "--bandwidth", "--memory-bandwidth", "--memory"})
    for (const char* value : {"1e-320", "5e-324", "1e300"})
      CHECK_THAT(wrong("--devices 2 " + std::string(option) + " " + value),
                 Contains(option) && Contains("must be a number from"));
  CHECK_THAT(wrong("--devices 2 --latency 1e300"), Contains("--latency 1e300: must be a number from 0 to 1000000000"));
  CHECK_THAT(wrong("--devices 2 --global-batch 2147483647"),
             Contains("--global-batch 2147483647: ") && Contains("more than 4194304") && Contains("use a smaller batch"));
}

TEST_CASE("tune offloads what train would: states always, activations where a layout does not fit without") {
  const json plain = layouts_that_offload("--memory 24"), moved = layouts_that_offload("--memory 24 --offload activations"),
             slow = layouts_that_offload("--memory 24 --offload activations --offload-bandwidth 1"),
             states = layouts_that_offload("--memory 24 --offload optimizer");
  CHECK(moved.size() > plain.size());
  CHECK(states.size() > plain.size());
  CHECK(moved[0]["step_seconds"] <= plain[0]["step_seconds"]);
  int moving = 0;
  for (const json& one : moved) {
    const bool moves = one["offloaded_activations"] > 0;
    moving += moves ? 1 : 0;
    CHECK((one["command"].get<std::string>().find("--offload activations") != std::string::npos) == moves);
    for (const json& bytes : one["memory_bytes"]) CHECK(bytes.get<double>() <= 24.0 * (1 << 30));
    for (const json& other : slow)
      if (moves && other["command"] == one["command"]) CHECK(other["step_seconds"] >= one["step_seconds"]);
  }
  CHECK(moving > 0);
  CHECK_THAT(states[0]["command"].get<std::string>(), Contains("--offload optimizer"));
  CHECK_THAT(refused("tune --model tiny --devices 2 --device cpu --offload activations"),
             Contains("leave it out, or give train a folder on a disk"));
  CHECK_THAT(refused("tune --model tiny --devices 2 --device cuda --offload-bandwidth 9"), Contains("applies to --offload"));
}

TEST_CASE("tune plans with a share of the optimizer's states offloaded, which takes more memory and less time than all") {
  const auto best = [](const std::string& share) {
    const Result result =
        run("tune --model llama2-7b --layers 8 --devices 1 --device cuda --memory 60 --global-batch 1 --json "
            "--count 1 --recompute none --offload optimizer" +
            share);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out).at(0);
  };
  const json all = best(""), half = best(" --optimizer-offload-fraction 0.5");
  CHECK(half["step_seconds"] < all["step_seconds"]);
  CHECK(half["memory_bytes"][0] > all["memory_bytes"][0]);
  CHECK_THAT(half["command"].get<std::string>(), Contains("--offload optimizer --optimizer-offload-fraction 0.5 "));
  CHECK_THAT(all["command"].get<std::string>(), !Contains("fraction"));
  CHECK_THAT(refused("tune --model tiny --devices 2 --device cuda --optimizer-offload-fraction 0.5"),
             Contains("applies to --offload optimizer"));
}

TEST_CASE("tune plans with weights and gradients that are offloaded, whole or in shares of the replicas") {
  const std::string weights = "optimizer,parameters", both = weights + ",gradients";
  const json without = layouts_that_offload("--memory 24 --offload " + weights),
             with = layouts_that_offload("--memory 24 --offload " + both);
  check_moving(weights, without);
  check_moving(both, with);
  CHECK(with.size() > without.size());
  // Eight replicas copy their weights in, each a share or each all of them.
  const auto of_replicas = [&](const std::string& options) {
    double best = std::numeric_limits<double>::infinity();
    for (const json& one : layouts_that_offload("--memory 60 --offload optimizer,parameters " + options))
      if (one["dp"] == 8) best = std::min(best, one["step_seconds"].get<double>());
    return best;
  };
  CHECK(of_replicas("--zero 1") < of_replicas("--zero 0"));
  CHECK(of_replicas("") <= of_replicas("--zero 1"));
}
