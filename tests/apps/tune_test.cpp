// pipetrain tune: the search against itself without bounds, its layouts against real runs' own estimates, and wrong input.
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/tune_search.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using nlohmann::json;
using pipetrain::TempFolder;

namespace {

struct Result {
  int status = -1;
  std::string out, err;
};

Result run(const std::string& arguments) {
  const TempFolder folder;
  const std::string out = (folder.path() / "out").string(), err = (folder.path() / "err").string();
  const int status = std::system(("'" PIPETRAIN_PROGRAM "' " + arguments + " > '" + out + "' 2> '" + err + "'").c_str());
  Result result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, "", ""};
  for (auto [path, text] : {std::pair{out, &result.out}, std::pair{err, &result.err}}) {
    std::ostringstream stream;
    stream << std::ifstream(path).rdbuf();
    *text = stream.str();
  }
  return result;
}

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
  const Result result = run("tune --model tiny --devices 4 --global-batch 16 --count 40 --json");
  REQUIRE(result.status == 0);
  const json layouts = json::parse(result.out);
  REQUIRE(layouts.size() == 40);
  for (std::size_t i = 0; i < layouts.size(); i += 13) {
    const std::string command = layouts[i]["command"];
    REQUIRE(command.substr(0, 10) == "pipetrain ");
    const Result dry = run(command.substr(10) + " --device cpu --dry-run");
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
  CHECK_THAT(wrong("--devices 8 --tflops 0"), Contains("--tflops 0: must be a number above 0"));
  CHECK_THAT(wrong("--devices 8 --memory nan"), Contains("--memory nan: must be a number above 0"));
  CHECK_THAT(wrong("--devices 8 --layers 5"), Contains("has only 4"));
  CHECK_THAT(wrong("--devices 8 --seq-len 100000"), Contains("positions"));
  CHECK_THAT(wrong("--devices 7 --global-batch 3 --layers 1"), Contains("use another number of devices"));
  CHECK_THAT(wrong("--devices 8 --memory 0.001", 1), Contains("fits 8 devices"));
}
