// Runs of two processes with a GPU each, started as users start them, give the bits of one process with both.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/measured_links.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "core/device.hpp"
#include "paths.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;

namespace {

struct LearnedOnGpus {
  std::vector<std::pair<double, double>> metrics;  // loss and norm of each step
  std::string weights;
  bool operator==(const LearnedOnGpus&) const = default;
};

LearnedOnGpus train_on_gpus(const std::string& command, const std::string& layout) {
  const TempFolder folder;
  const fs::path metrics = folder.path() / "metrics.jsonl", save = folder.path() / "run";
  const Result result = run(command + " --device cuda --deterministic on --layers 4 --steps 4 --lr 1e-3 " + layout +
                            (layout.find("--seq-len") == layout.npos ? " --seq-len 64" : "") +
                            (layout.find("--microbatches") == layout.npos ? " --microbatches 4" : "") + " --metrics '" +
                            metrics.string() + "' --save '" + save.string() + "'");
  INFO(command << " " << layout << ": " << result.err);
  REQUIRE(result.status == 0);
  LearnedOnGpus learned;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    learned.metrics.emplace_back(step.at("loss"), step.at("grad_norm"));
  }
  learned.weights = read_file(save / "model" / "model.safetensors");
  return learned;
}

}  // namespace

TEST_CASE("processes with a GPU each learn what one process with both learns, to the bit", "[gpu][launch][slow]") {
  if (!test::needs_gpus(cuda_device_count(), 2)) return;
  // Tensors of gpt2 travel in pieces.
  const std::string in_pieces = "--model gpt2 --tp 2 --seq-len 1024 --microbatch 2";
  const std::vector<std::string> layouts{"--pp 2",
                                         "--dp 2",
                                         "--pp 2 --schedule interleaved --chunks 2",
                                         "--pp 2 --schedule zb-v",
                                         "--pp 2 --order ready",
                                         "--dp 2 --zero 1",
                                         "--dp 2 --zero 2 --microbatches 1",
                                         "--dp 2 --zero 3",
                                         "--tp 2",
                                         "--tp 2 --sequence-parallel off",
                                         "--tp 2 --schedule braided-v",
                                         in_pieces,
                                         in_pieces + " --schedule braided-v"};
  for (const std::string& layout : layouts) {
    const LearnedOnGpus alone = train_on_gpus("", layout);
    REQUIRE(alone.metrics.size() == 4);
    for (const std::string transport : {"ipc", "nccl", "nccl-send"}) {
      if (transport != "ipc" && !has_nccl()) continue;
      // Nccl is the same.
      if (transport == "nccl-send" && describe_nccl().find("which puts") == std::string::npos) continue;
      INFO(transport << " " << layout);
      CHECK(train_on_gpus("launch --nproc 2 --transport " + transport, layout) == alone);
    }
  }
}

TEST_CASE("processes with a GPU each write the text of one process with both", "[gpu][launch]") {
  if (!test::needs_gpus(cuda_device_count(), 2)) return;
  const std::string options =
      "generate --device cuda --model " + test_data() + "/golden/llama3_tiny --prompt 'The river' --max-new-tokens 60 ";
  for (const std::string how : {"--precision fp32 --pp 2", "--pp 2", "--tp 2", "--tp 2 --temperature 1.2 --seed 3"}) {
    const Result alone = run(options + how);
    REQUIRE(alone.status == 0);
    for (const std::string transport : {"ipc", "nccl"}) {
      if (transport == "nccl" && !has_nccl()) continue;
      const Result together = run("launch --nproc 2 --transport " + transport + " " + options + how);
      INFO(transport << " " << how << ": " << together.err);
      CHECK(together.status == 0);
      CHECK(together.out == alone.out);
    }
  }
}

TEST_CASE("processes with a GPU each measure the link between them, which simulate takes", "[gpu][launch]") {
  if (!test::needs_gpus(cuda_device_count(), 2)) return;
  for (const std::string transport : {"ipc", "nccl"}) {
    if (transport == "nccl" && !has_nccl()) continue;
    const TempFolder folder;
    const std::string file = (folder.path() / "links.json").string();
    const Result first = measure_links_into(file, "--device cuda --transport " + transport).first;
    CHECK(first.out.find("us over " + transport) != std::string::npos);
    const auto measured = nlohmann::json::parse(read_file(file));
    CHECK(measured.at("device") == "cuda");
    CHECK(measured.at("links").at(0).at("rate").get<double>() > 1e8);
    CHECK(run("simulate --pp 2 --message-bytes 1000 --measured '" + file + "'").status == 0);
    CHECK(run("tune --model gpt2 --measured '" + file + "'").status == 0);
  }
}
