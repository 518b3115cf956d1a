// GPT-2 through the program: a folder as it is published, trained, stopped and resumed.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "llmc_file.hpp"
#include "model/weights/full_tensors.hpp"
#include "paths.hpp"

using nlohmann::json;
using pipetrain::read_file;
using pipetrain::refused;
using pipetrain::run;
using pipetrain::TempFolder;
namespace fs = std::filesystem;

namespace {

const fs::path golden_gpt2 = fs::path(pipetrain::test_data()) / "golden/gpt2_tiny";
// Writes a model that drops a tenth of the attention's weights, and returns its folder.
std::string write_with_dropout(const TempFolder& folder) {
  json config = json::parse(std::ifstream(golden_gpt2 / "config.json"));
  config["attn_pdrop"] = 0.1;
  folder.write("config.json", config.dump());
  return folder.path().string();
}

const std::string small_gpt2 = " --device cpu --threads 1 --seq-len 16 --lr-schedule constant --init random --layers 2";

}  // namespace

TEST_CASE("a GPT-2 with dropout trains with it, or without on request") {
  const TempFolder folder, outputs;
  const std::string model = "--model " + write_with_dropout(folder);
  const auto losses = [&](const std::string& arguments) {
    const fs::path metrics = outputs.path() / "metrics.jsonl";
    const auto result = run(model + small_gpt2 + " --steps 2 --metrics " + metrics.string() + " " + arguments);
    INFO(result.err);
    REQUIRE(result.status == 0);
    std::vector<double> all;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line)["loss"]);
    REQUIRE(all.size() == 2);
    return all;
  };
  const auto own = losses("--microbatches 4");
  CHECK(losses("--pp 2 --microbatches 4 --schedule zb-h1 --recompute full") == own);
  CHECK(losses("--microbatches 4 --seed 1") != own);
  const auto none = losses("--microbatches 4 --dropout 0");
  CHECK(none != own);
  CHECK(std::abs(none[0] - own[0]) < 0.1 * own[0]);
  const auto everywhere = losses("--microbatches 4 --dropout 0.1");  // in more than the attention
  CHECK((everywhere != own && everywhere != none));
}

TEST_CASE("a model file of llm.c trains, in any layout, and writes as the folder that it was made from") {
  using namespace pipetrain;
  const TempFolder folder;
  const ModelConfig config = read_hf_config(golden_gpt2);
  const std::string file =
      folder
          .write(
              "model_00000100.bin",
              LlmcFileWriter(config, test::load_all(*hf_weights(config, golden_gpt2), config)).bytes(3, config.vocabulary + 64))
          .string();
  const auto losses = [&](const std::string& model, const std::string& layout) {
    const fs::path metrics = folder.path() / "metrics.jsonl";
    const auto result = run("--model " + model + " --device cpu --threads 1 --steps 2 --metrics " + metrics.string() +
                            " --data " + (golden_gpt2 / "train.jsonl").string() + layout);
    INFO(result.err);
    REQUIRE(result.status == 0);
    std::vector<double> all;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line)["loss"]);
    return all;
  };
  for (const char* layout : {" --microbatches 4", " --pp 2 --tp 2 --microbatches 4"})
    CHECK(losses(file, layout) == losses(golden_gpt2.string(), layout));

  const std::string prompt = " --device cpu --max-new-tokens 8 --prompt abc";
  const auto written = run("generate --model " + file + prompt);
  INFO(written.err);
  CHECK(written.status == 0);
  CHECK(written.out == run("generate --model " + golden_gpt2.string() + prompt).out);
}

TEST_CASE("the estimates of tune and simulate hold for a GPT-2 with dropout") {
  const TempFolder folder;
  const std::string model = "--model " + write_with_dropout(folder);
  const auto tuned = run("tune " + model + " --devices 2 --device cpu --count 1 --json");
  INFO(tuned.err);
  REQUIRE(tuned.status == 0);
  const std::string command = json::parse(tuned.out)[0]["command"];
  INFO(command);
  CHECK(run(command.substr(command.find("--model")) + " --init random --dry-run").status == 0);

  const TempFolder records;
  const std::string profile = (records.path() / "profile.json").string();
  REQUIRE(run(model + small_gpt2 + " --pp 2 --steps 1 --profile " + profile).status == 0);
  CHECK(run("simulate " + model + " --layers 2 --costs " + profile).status == 0);
}

TEST_CASE("tune plans in fp32 where bf16 on GPUs has no heads of a GPT-2's size, and refuses a bf16 that is asked for") {
  const TempFolder folder;
  json config = json::parse(std::ifstream(golden_gpt2 / "config.json"));
  config["n_embd"] = 96;
  folder.write("config.json", config.dump());
  const std::string tune = "tune --devices 2 --device cuda --memory 80 --model " + folder.path().string();
  CHECK(refused(tune + " --precision bf16") ==
        "--precision bf16: the model's heads have size 12, and attention in bf16 on GPUs needs a multiple of 8; use fp32");
  const auto usual = run(tune), fp32 = run(tune + " --precision fp32");
  CHECK(usual.status == 0);
  CHECK(usual.err == "planned in fp32: attention in bf16 on GPUs has no heads of size 12\n");
  CHECK(usual.out == fp32.out);
}

TEST_CASE("a GPT-2 with dropout resumes from its checkpoint to the same bits, in other stages") {
  const TempFolder folder;
  const auto train = [&](const std::string& name, const std::string& arguments) {
    const auto result = run("--model " + golden_gpt2.string() + small_gpt2 + " --dropout 0.1 --tp 2 --save " +
                            (folder.path() / name).string() + " " + arguments);
    INFO(result.err);
    CHECK(result.status == 0);
  };
  train("whole", "--pp 2 --steps 4");
  train("parts", "--pp 2 --steps 2 --save-interval 2");
  train("parts", "--pp 1 --steps 4 --resume --microbatches 8");
  const std::string weights = read_file(folder.path() / "whole/model/model.safetensors");
  CHECK(!weights.empty());
  CHECK(read_file(folder.path() / "parts/model/model.safetensors") == weights);
}
