// pipetrain tune: the search against itself without bounds, its layouts against real runs' own estimates, and wrong input.
#include <fmt/format.h>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "apps/tune_search.hpp"
#include "catch.hpp"
#include "pipetrain_program.hpp"
#include "skip.hpp"

using namespace pipetrain;
using nlohmann::json;
using pipetrain::TempFolder;

namespace {

LayoutRequest request_of(const std::string& model, int devices) {
  LayoutRequest request;
  request.config = preset_config(model);
  request.devices = devices;
  request.sequence = std::min<std::int64_t>(request.config.max_positions, 2048);
  request.global_batch = 4 * devices;
  request.speed = {4e14, 80.0 * (1 << 30), 3e12, 3e11, 15e-6, 40e-6};
  return request;
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("tune's bound spares no layout that is among the best") {
  for (const auto& [model, devices] : {std::pair{"tiny", 8}, std::pair{"llama-7b", 8}, std::pair{"llama-13b", 16}}) {
    const LayoutRequest request = request_of(model, devices);
    const auto all = search_layouts(request, 1'000'000).best, ten = search_layouts(request, 10).best;
    REQUIRE(all.size() > 20);
    REQUIRE(ten.size() == 10);
    for (std::size_t i = 0; i < ten.size(); ++i) CHECK(ten[i].seconds == all[i].seconds);
    for (const auto& [layout, seconds, bubble, memory] : all) {
      CHECK(layout.pp * layout.tp * layout.dp == devices);
      CHECK(layout.dp * layout.microbatch * layout.microbatches == request.global_batch);
      CHECK(std::ssize(memory) == layout.pp);
      for (const auto bytes : memory) CHECK(static_cast<double>(bytes) <= request.speed.memory_bytes);
    }
  }
}

TEST_CASE("tune: faster devices make faster steps, slow links make tensor parallelism dear, little memory drops layouts") {
  LayoutRequest request = request_of("llama-7b", 8);
  const auto usual = search_layouts(request, 1).best.front();
  request.speed.flops *= 2;
  CHECK(search_layouts(request, 1).best.front().seconds < usual.seconds);
  request = request_of("llama-7b", 8);
  request.speed.link_rate /= 100;
  for (const auto& ranked : search_layouts(request, 3).best) CHECK(ranked.layout.tp == 1);
  request = request_of("llama-7b", 8);
  const auto roomy = search_layouts(request, 1'000'000);
  request.speed.memory_bytes /= 3;
  const auto narrow = search_layouts(request, 1'000'000);
  CHECK(narrow.best.size() < roomy.best.size());
  CHECK(narrow.too_large > roomy.too_large);
  request.speed.memory_bytes = 1 << 20;
  CHECK(search_layouts(request, 1).best.empty());
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
    // The last table has a line per device: index, replica, stage, rank, ..., total MiB.
    std::istringstream lines(dry.out.substr(dry.out.find("total MiB\n") + 10));
    for (int index, replica, rank; lines >> index >> replica;) {
      std::size_t stage = 0;
      double mib = 0;
      lines >> stage >> rank;
      for (int column = 0; column < 7; ++column) lines >> mib;
      if (rank == 0) CHECK(mib == Approx(layouts[i]["memory_bytes"][stage].get<double>() / (1 << 20)).margin(0.06));
    }
  }
  CHECK(of_auto > 0);
}

TEST_CASE("tune recomputes only where less of it does not fit, and then reaches layouts that nothing else does") {
  LayoutRequest request = request_of("llama-7b", 4);
  request.precision = Precision::bf16();
  request.device = DeviceKind::cuda;
  request.speed.memory_bytes = 46.0 * (1 << 30);
  const auto searched = search_layouts(request, 1'000'000).best;
  const auto with = [&](Recompute mode) {
    LayoutRequest one = request;
    one.recompute = mode;
    return search_layouts(one, 1'000'000).best;
  };
  const auto none = with(Recompute::none), selective = with(Recompute::selective), full = with(Recompute::full);
  CHECK(none.size() < selective.size());
  CHECK(selective.size() < full.size());
  CHECK(searched.size() == full.size());
  std::map<std::string, std::pair<double, Recompute>> chosen;
  const auto key = [](const Layout& layout) {
    return fmt::format("{} {} {} {} {} {}", layout.pp, layout.tp, layout.dp, layout.chunks, layout.microbatch, layout.schedule);
  };
  for (const auto& ranked : searched) chosen[key(ranked.layout)] = {ranked.seconds, ranked.layout.recompute};
  for (const auto* mode : {&none, &selective, &full})
    for (const auto& ranked : *mode) CHECK(chosen.at(key(ranked.layout)).first <= ranked.seconds * (1 + 1e-9));
  for (const auto& ranked : none) CHECK(chosen.at(key(ranked.layout)).second == Recompute::none);
}

TEST_CASE("tune's plans of auto are faster than every other schedule of the same sizes, and cost little time") {
  LayoutRequest request = request_of("llama-13b", 16);
  request.with_auto = true;
  const auto all = search_layouts(request, 1'000'000).best;
  std::map<std::tuple<int, int, int, std::int64_t>, double> best;
  for (const auto& [layout, seconds, bubble, memory] : all) {
    if (layout.plan) continue;
    const auto place = best.try_emplace({layout.pp, layout.tp, layout.dp, layout.microbatch}, seconds).first;
    place->second = std::min(place->second, seconds);
  }
  int of_auto = 0;
  for (const auto& [layout, seconds, bubble, memory] : all) {
    if (!layout.plan) continue;
    ++of_auto;
    const auto other = best.find({layout.pp, layout.tp, layout.dp, layout.microbatch});  // none where no other fits the memory
    if (other != best.end()) CHECK(seconds < other->second);
    CHECK(layout.plan->placement.chunks() == layout.chunks);
    for (const auto bytes : memory) CHECK(static_cast<double>(bytes) <= request.speed.memory_bytes);
  }
  CHECK(of_auto > 0);
  request.with_auto = false;
  for (const auto& ranked : search_layouts(request, 1'000'000).best) CHECK(ranked.layout.schedule != "auto");
}

TEST_CASE("tune counts bf16 on GPUs as runs on them did") {
  // bench/results/gpu-2026-11-21.md: what the runs themselves estimated, within 1 % of what they took, less the workspace of
  // gradients that have had the place of kept values since: an MLP's gate and up, and the residual stream's.
  const double in_place_1b = 512 + 64, in_place_8b = 224 + 32;
  const auto mebibytes = [](const std::string& model, std::int64_t layers, std::int64_t global_batch, std::int64_t microbatch) {
    LayoutRequest request = request_of(model, 1);
    if (layers > 0) request.config.layers = layers;
    request.sequence = 4096;
    request.global_batch = global_batch;
    request.speed.memory_bytes = 140.0 * (1 << 30);
    request.precision = Precision::bf16();
    request.device = DeviceKind::cuda;
    for (const auto& [layout, seconds, bubble, memory] : search_layouts(request, 100).best)
      if (layout.microbatch == microbatch) return static_cast<double>(memory[0]) / (1 << 20);
    return 0.0;
  };
  CHECK(mebibytes("llama3.2-1b", 0, 16, 4) == Approx(46611 - in_place_1b).margin(0.5));
  CHECK(mebibytes("llama3-8b", 8, 8, 1) == Approx(54036 - in_place_8b).margin(0.5));
}

TEST_CASE("tune: bf16 halves what travels and activations, not gradients and the optimizer's state") {
  LayoutRequest request = request_of("llama-7b", 8);
  request.speed.link_rate /= 20;
  const auto full = search_layouts(request, 1).best.front();
  request.precision = Precision::bf16();
  const auto half = search_layouts(request, 1).best.front();
  CHECK(half.seconds < full.seconds);
  request = request_of("tiny", 1);
  request.sequence = 1;  // next to no activations: 16 bytes a parameter, and 2 for the rounded weights
  const auto state = [&] { return static_cast<double>(search_layouts(request, 1).best.front().memory[0]); };
  const double fp32 = state();
  request.precision = Precision::bf16();
  CHECK(state() / fp32 == Approx(18.0 / 16).epsilon(0.03));
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
  CHECK(layouts(" --tflops 0.001") == slow);  // options win
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

TEST_CASE("tune prints the ten best and their command lines") {
  const Result result = run("tune --model llama2-7b --devices 8 --seq-len 2048");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  std::size_t commands = 0;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) commands += line.substr(0, 18) == "pipetrain --model " ? 1 : 0;
  CHECK(commands == 10);
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
  CHECK_THAT(wrong("--devices 0"), Contains("--devices 0: must be at least 1"));
  CHECK_THAT(wrong("--model llama2-8b --devices 8"), Contains("llama2-7b"));
  CHECK_THAT(wrong("--devices 8 --tflops 0"), Contains("--tflops 0: must be a number from 1e-06 to 1000000000"));
  CHECK_THAT(wrong("--devices 8 --memory nan"), Contains("--memory nan: must be a number from 0.0009765625 to 65536"));
  CHECK_THAT(wrong("--devices 8 --layers 5"), Contains("has only 4"));
  CHECK_THAT(wrong("--devices 8 --precision fp16"), Contains("must be one of fp32, bf16"));
  CHECK_THAT(wrong("--devices 8 --recompute some"), Contains("must be one of none, selective, full"));
  CHECK_THAT(wrong("--devices 8 --device cpu --precision bf16"), Contains("not built yet on the CPU"));
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
