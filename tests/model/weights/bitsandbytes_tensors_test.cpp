// Folders that bitsandbytes has quantised to nf4 (tests/golden/bitsandbytes/make_nf4.py): every value has the bits that
// bitsandbytes gives it, whole and in slices, and other forms are refused.
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/config/config.hpp"
#include "model/quantisation/fnv.hpp"
#include "model/quantisation/quantise.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/raw_folder.hpp"
#include "temp_folder.hpp"

using Catch::Contains;

namespace pipetrain::test {
namespace {

namespace fs = std::filesystem;

fs::path quantised_folder(const char* name) { return golden_folder("bitsandbytes") / name; }

std::vector<float> quantised_values(const WeightSource& source, const Parameter& slice, WeightForm form) {
  const QuantisedLayout layout = quantised_layout_of(slice, form);
  std::vector<std::byte> bytes(layout.bytes);
  REQUIRE(source.load_quantised(slice, layout, bytes.data()));
  std::vector<float> values(static_cast<std::size_t>(slice.local.elements()));
  read_values({layout, bytes.data()}, 0, slice.local.elements(), values.data());
  return values;
}

// Writes the folder again with another value of a key of quantization_config, and returns its error.
std::string error_with(const std::string& key, const nlohmann::json& value) {
  const TempFolder folder;
  fs::copy(quantised_folder("nf4"), folder.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  auto config = nlohmann::json::parse(std::ifstream(folder.path() / "config.json"));
  config["quantization_config"][key] = value;
  std::ofstream(folder.path() / "config.json") << config.dump();
  try {
    static_cast<void>(hf_weights(read_hf_config(folder.path()), folder.path()));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

// Writes the folder again with `from` replaced by `to` in the headers of its tensors, which are equally long.
std::string error_with_bytes(const std::string& from, const std::string& to) {
  const TempFolder folder;
  fs::copy(quantised_folder("nf4"), folder.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const fs::path file = folder.path() / "model.safetensors";
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const std::size_t at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  std::ofstream(file, std::ios::binary) << bytes.replace(at, from.size(), to);
  try {
    static_cast<void>(hf_weights(read_hf_config(folder.path()), folder.path()));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a folder of bitsandbytes has the values that bitsandbytes gives it, whole and in slices", "[quantisation]") {
  for (const char* name : {"nf4", "nf4_single"}) {
    INFO(name);
    const fs::path folder = quantised_folder(name);
    const ModelConfig config = read_hf_config(folder);
    const WeightForm form = std::string(name) == "nf4" ? WeightForm::nf4 : WeightForm::nf4_scales;
    CHECK(config.base_form == form);
    const auto weights = hf_weights(config, folder);
    const auto expected = nlohmann::json::parse(std::ifstream(folder / "dequantised.json")).at("fnv");
    std::size_t checked = 0;
    for (const NamedShape& tensor : logical_tensors(config)) {
      if (!expected.contains(tensor.name)) continue;
      INFO(tensor.name);
      Parameter all = whole(tensor);
      const std::vector<float> values = load(*weights, all);
      CHECK(fnv(values) == expected.at(tensor.name).get<std::string>());
      CHECK((quantised_values(*weights, all, form) == values));
      for (std::int64_t part = 0; part < 3; ++part) {  // rows, of which the second part begins inside of a block
        Parameter slice = all;
        slice.split_axis = 0;
        slice.local = {5, all.full[1]};
        slice.begin = 5 * part;
        const auto* const first = values.data() + 5 * part * all.full[1];
        const std::vector<float> same(first, first + slice.local.elements());
        CHECK((load(*weights, slice) == same));
        CHECK((quantised_values(*weights, slice, form) == same));
      }
      ++checked;
    }
    CHECK(checked == expected.size());
  }
}

TEST_CASE("columns of a folder of bitsandbytes are read as values where they divide blocks, and refused as nf4",
          "[quantisation]") {
  const ModelConfig config = read_hf_config(quantised_folder("nf4"));
  const auto weights = hf_weights(config, quantised_folder("nf4"));
  Parameter slice = whole({"model.layers.0.mlp.down_proj.weight", {64, 272}});
  const std::vector<float> all = load(*weights, slice);
  slice.split_axis = 1;
  slice.local = {64, 136};
  slice.begin = 136;
  const std::vector<float> values = load(*weights, slice);
  bool same = true;
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t col = 0; col < 136; ++col)
      same &= values[static_cast<std::size_t>(row * 136 + col)] == all[static_cast<std::size_t>(row * 272 + 136 + col)];
  }
  CHECK(same);
  CHECK_THROWS_WITH(quantised_layout_of(slice, WeightForm::nf4), Contains("use a smaller tp, or fp8"));
}

TEST_CASE("forms of bitsandbytes that are not read are refused by name", "[quantisation]") {
  CHECK_THAT(error_with("bnb_4bit_quant_type", "fp4"), Contains("quantized the weights to fp4 in uint8; nf4 in uint8 is read"));
  CHECK_THAT(error_with("bnb_4bit_quant_storage", "bfloat16"), Contains("to nf4 in bfloat16"));
  CHECK_THAT(error_with("load_in_4bit", false), Contains("quantized by bitsandbytes; use the model's unquantized weights"));
  CHECK_THAT(error_with("quant_method", "gptq"), Contains("quantized by gptq; use the model's unquantized weights"));
  CHECK(error_with("bnb_4bit_compute_dtype", "bfloat16") == "none");
}

TEST_CASE("a damaged folder of bitsandbytes is refused with the tensor's name", "[quantisation]") {
  CHECK_THAT(error_with_bytes("q_proj.weight.absmax", "q_proj.weight.absmix"),
             Contains("lacks model.layers.0.self_attn.q_proj."));
  CHECK_THAT(error_with_bytes("bitsandbytes__nf4", "bitsandbytes__fp4"), Contains("is of fp4"));
  CHECK_THAT(error_with_bytes("\"blocksize\": 64", "\"blocksize\": 32"), Contains("has blocksize 32; only 64 is read"));
  CHECK_THAT(error_with_bytes("\"nested_blocksize\": 256", "\"nested_blocksize\": 128"), Contains("only 256 is read"));
  CHECK_THAT(error_with_bytes("\"nested_offset\"", "\"nested_offsat\""), Contains("has no nested_offset"));
}

}  // namespace pipetrain::test
