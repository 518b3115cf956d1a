// Published folders whose matrices have few bits: GPT-OSS in mxfp4 and DeepSeek-V3 in blocks of fp8.
#include <cmath>
#include <cstring>
#include <random>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/error_text.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/raw_folder.hpp"
#include "model/weights/weights.hpp"
#include "ops/float8.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {
namespace {

const std::string stack = "model.layers.1.mlp.experts.gate_up_proj";
constexpr std::int64_t experts = 8, hidden = 32, inner = 32;

std::string random_bytes(std::size_t count, int low, int high) {
  std::mt19937 random(7);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(std::uniform_int_distribution<int>(low, high)(random));
  return bytes;
}

// GPT-OSS with the first matrices of one layer in mxfp4.
RawFolder mxfp4_folder() {
  RawFolder folder(golden_folder("gpt_oss_tiny"));
  folder.config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.layers.*.self_attn"}}};
  folder.tensors.erase(stack);
  const std::int64_t groups = experts * 2 * inner * hidden / 32;
  folder.tensors[stack + "_blocks"] = {
      "U8", {experts, 2 * inner, hidden / 32, 16}, random_bytes(static_cast<std::size_t>(groups * 16), 0, 255)};
  folder.tensors[stack + "_scales"] = {
      "U8", {experts, 2 * inner, hidden / 32}, random_bytes(static_cast<std::size_t>(groups), 118, 126)};
  return folder;
}

// DeepSeek-V3 with one matrix in blocks of fp8, which are larger than the matrix.
RawFolder fp8_folder(float factor) {
  RawFolder folder(golden_folder("deepseek_v3_tiny"));
  folder.config["quantization_config"] = {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 128}}};
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  const auto shape = folder.tensors.at(name).shape;
  folder.tensors[name] = {"F8_E4M3", shape, random_bytes(static_cast<std::size_t>(shape[0] * shape[1]), 0, 120)};
  folder.tensors[name + "_scale_inv"] = {"F32", {1, 1}, std::string(sizeof factor, '\0')};
  std::memcpy(folder.tensors[name + "_scale_inv"].bytes.data(), &factor, sizeof factor);
  return folder;
}

}  // namespace

TEST_CASE("the stacks of a GPT-OSS folder in mxfp4 are read as the numbers that they mean", "[weights][experts]") {
  const RawFolder raw = mxfp4_folder();
  const TempFolder folder;
  raw.write(folder.path());
  const ModelConfig config = read_hf_config(folder.path());
  const Tensors all = load_all(*hf_weights(config, folder.path()), config);
  constexpr float values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const std::string &codes = raw.tensors.at(stack + "_blocks").bytes, &scales = raw.tensors.at(stack + "_scales").bytes;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const std::string prefix = "model.layers.1.mlp.experts." + std::to_string(expert);
    for (std::int64_t row = 0; row < 2 * inner; ++row) {  // gate and up in turns
      const auto& matrix = all.at(prefix + (row % 2 == 0 ? ".gate_proj.weight" : ".up_proj.weight"));
      for (std::int64_t column = 0; column < hidden; ++column) {
        const auto at = static_cast<std::size_t>((expert * 2 * inner + row) * hidden + column);
        const int code = static_cast<unsigned char>(codes[at / 2]) >> (at % 2 == 0 ? 0 : 4) & 15;
        const double size = values[code & 7] * std::pow(2.0, static_cast<unsigned char>(scales[at / 32]) - 127);
        REQUIRE(matrix[static_cast<std::size_t>(row / 2 * hidden + column)] == Approx(code > 7 ? -size : size));
      }
    }
  }
}

TEST_CASE("a stack of experts that is missing or has another shape has its line", "[weights][experts]") {
  RawFolder missing = mxfp4_folder(), cut = mxfp4_folder();
  missing.tensors.erase(stack + "_scales");
  cut.tensors.at(stack + "_blocks").shape = {experts, inner, 2 * hidden / 32, 16};
  for (const auto& [raw, error] :
       {std::pair{&missing, stack + "_scales is missing"}, {&cut, "has no bytes of shape [8, 64, 1, 16]"}}) {
    const TempFolder folder;
    raw->write(folder.path());
    const ModelConfig config = read_hf_config(folder.path());
    CHECK(input_error([&] { hf_weights(config, folder.path()); }).find(error) != std::string::npos);
  }
}

TEST_CASE("a DeepSeek-V3 folder in blocks of fp8 is read as the numbers that it means", "[weights][experts]") {
  constexpr float factor = 0.0375F;
  const RawFolder raw = fp8_folder(factor);
  const TempFolder folder;
  raw.write(folder.path());
  const ModelConfig config = read_hf_config(folder.path());
  const Tensors all = load_all(*hf_weights(config, folder.path()), config);
  const std::string name = "model.layers.0.self_attn.o_proj.weight", &codes = raw.tensors.at(name).bytes;
  const auto& values = all.at(name);
  REQUIRE(values.size() == codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) REQUIRE(values[i] == from_e4m3(static_cast<std::uint8_t>(codes[i])) * factor);
}

TEST_CASE("an export of GPT-OSS has the stacks of the folder that it came from, to the bit", "[weights][experts]") {
  const RawFolder raw(golden_folder("gpt_oss_tiny"));
  const ModelConfig config = read_hf_config(golden_folder("gpt_oss_tiny"));
  const Tensors all = load_all(*hf_weights(config, golden_folder("gpt_oss_tiny")), config);
  const auto names = logical_tensors(config);
  const TempFolder folder;
  save_hf_model(config, folder.path() / "out", [&](std::size_t i, float* out) {
    const auto& values = all.at(names[i].name);
    std::copy(values.begin(), values.end(), out);
  });
  CHECK(RawFolder(folder.path() / "out").tensors == raw.tensors);
}

}  // namespace pipetrain::test
