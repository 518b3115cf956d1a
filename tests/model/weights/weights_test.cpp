// Weights of Hugging Face folders.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/weights/weights_fixture.hpp"
#include "paths.hpp"
#include "run_program.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

TEST_CASE("a Hugging Face folder's weights load in slices") {
  const fs::path folder = fs::path(test_data()) / "golden" / GENERATE("llama2_tiny", "llama3_tiny");
  const ModelConfig config = read_hf_config(folder);
  check_slices(*hf_weights(config, folder), config);
}

const std::string of_one_model = "; give the weights and the config.json of one model";
const std::string again = "; correct the index, or copy it again";

TEST_CASE("fewer layers than the folder has may be kept") {
  const fs::path folder = fs::path(test_data()) / "golden/llama2_tiny";
  ModelConfig config = read_hf_config(folder);
  config.layers = 3;
  CHECK_NOTHROW(hf_weights(config, folder, {.cut = {.wanted = true}}));
}

TEST_CASE("a saved model reads back as the same model, bit by bit") {
  const TempFolder folder;
  const ModelConfig config = small_config(GENERATE(false, true));
  save(config, folder.path() / "out/model");
  CHECK(names_in(folder.path() / "out") == std::vector<std::string>{"model"});
  CHECK(names_in(folder.path() / "out/model") == std::vector<std::string>{"config.json", "model.safetensors"});
  CHECK(read_hf_config(folder.path() / "out/model") == config);
  CHECK(load_all(*hf_weights(config, folder.path() / "out/model"), config) == load_all(*random_weights(config, 1), config));
}

TEST_CASE("a tied checkpoint may hold its matrix under either name") {
  const ModelConfig config = small_config(true);
  const TempFolder folder;
  std::vector<std::string> names = tensor_names(config);
  std::string expected_name = "model.embed_tokens.weight";
  SECTION("the embedding only") {}
  SECTION("the head only") {
    names.front() = "lm_head.weight";
    expected_name = "lm_head.weight";
  }
  write_weights(folder.path() / "model.safetensors", config, names);
  const NamedShape table = logical_tensors(config).front();
  CHECK(load(*hf_weights(config, folder.path()), whole(table)) ==
        load(*random_weights(config, 1), whole({expected_name, table.shape})));
}

// A folder whose weights a test damages.
struct SpoiltFolder {
  ModelConfig config = small_config();
  TempFolder folder;
  fs::path file = folder.path() / "model.safetensors";
  std::vector<std::string> names = tensor_names(config);

  std::string error() const {
    return input_error([&] { hf_weights(config, folder.path()); });
  }
};

TEST_CASE("missing tensors are named") {
  SpoiltFolder spoilt;
  auto& [config, folder, file, names] = spoilt;
  const auto error = [&spoilt] { return spoilt.error(); };
  CHECK(error() ==
        folder.path().string() + ": has no *.safetensors files; copy them too, or start from random weights: init random");
  SECTION("missing") {
    names.erase(std::find(names.begin(), names.end(), "model.layers.1.mlp.up_proj.weight"));
    write_weights(file, config, names);
    CHECK(error() == file.string() + ": tensor model.layers.1.mlp.up_proj.weight is missing" + of_one_model);
  }
  SECTION("missing in the header, its data still there") {
    write_weights(file, config, names);
    std::string bytes = read_file(file);
    const std::string name = "model.layers.1.self_attn.q_proj.weight";
    std::string entry = bytes.substr(bytes.find('"' + name));
    entry = entry.substr(0, entry.find("},") + 2);
    bytes.replace(bytes.find(entry), entry.size(), std::string(entry.size(), ' '));
    folder.write("model.safetensors", bytes);
    CHECK(error() == file.string() + ": tensor " + name + " is missing" + of_one_model);
  }
  SECTION("no head, though not tied") {
    names.pop_back();
    write_weights(file, config, names);
    CHECK(error().find("tensor lm_head.weight is missing; if the model's embeddings are tied") != std::string::npos);
  }
}

TEST_CASE("unknown tensors and those of another shape are named") {
  SpoiltFolder spoilt;
  auto& [config, folder, file, names] = spoilt;
  const auto error = [&spoilt] { return spoilt.error(); };
  SECTION("a bias") {
    names.push_back("model.layers.0.self_attn.q_proj.bias");
    write_weights(file, config, names);
    CHECK(error() == file.string() +
                         ": tensor model.layers.0.self_attn.q_proj.bias is not part of the model that config.json describes" +
                         of_one_model);
  }
  SECTION("what old files keep besides") {
    names.push_back("model.layers.0.self_attn.rotary_emb.inv_freq");
    write_weights(file, config, names);
    CHECK(error().empty());
  }
  SECTION("of another shape") {
    ModelConfig other = config;
    other.intermediate = 48;
    write_weights(file, other, names);
    CHECK(error() ==
          file.string() +
              ": tensor model.layers.0.mlp.gate_proj.weight has shape [48, 32], and the model's config.json asks for [24, 32]" +
              of_one_model);
  }
  SECTION("a file cut short") {
    write_weights(file, config, names);
    fs::resize_file(file, fs::file_size(file) - 1);
    CHECK(error().find("truncated") != std::string::npos);
  }
}

TEST_CASE("shards are found by their index, which must not lead out of the folder") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const std::vector<std::string> names = tensor_names(config);
  const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
  write_weights(folder.path() / "model-1.safetensors", config, {names.begin(), middle});
  write_weights(folder.path() / "model-2.safetensors", config, {middle, names.end()});
  nlohmann::json index;
  for (auto name = names.begin(); name != names.end(); ++name) {
    index["weight_map"][*name] = name < middle ? "model-1.safetensors" : "model-2.safetensors";
  }
  const auto error = [&] {
    const fs::path file = folder.write("model.safetensors.index.json", index.dump());
    return input_error([&] { hf_weights(config, folder.path()); });
  };
  const std::string where = (folder.path() / "model.safetensors.index.json").string() + ": ";
  const std::string line = (folder.path() / "model.safetensors.index.json").string() + ":1: ";

  CHECK(error().empty());
  CHECK(load_all(*hf_weights(config, folder.path()), config) == load_all(*random_weights(config, 1), config));

  for (const char* bad : {"../model-1.safetensors", "/etc/passwd", "..", "", "a/b"}) {
    index["weight_map"][names[0]] = bad;
    CHECK(error() == line + "tensor " + names[0] + ": file \"" + bad + "\" is not the name of a file in this folder" + again);
  }
  index["weight_map"][names[0]] = 3;
  CHECK(error() == line + "tensor " + names[0] + ": its file is not a name" + again);
  index["weight_map"][names[0]] = "model-3.safetensors";
  CHECK(error() ==
        (folder.path() / "model-3.safetensors").string() + ": cannot be read: No such file or directory; check the path");
  index["weight_map"][names[0]] = "model-2.safetensors";
  CHECK(error() == (folder.path() / "model-2.safetensors").string() + ": tensor " + names[0] +
                       " is missing, though model.safetensors.index.json says it is there; copy both again");
  index["weight_map"].erase(names[0]);
  CHECK(error() == (folder.path() / "model-1.safetensors").string() + ": has tensor " + names[0] +
                       ", which model.safetensors.index.json does not list; correct the index, or copy both again");
  index = {{"weight_map", 1}};
  CHECK(error() == where + "no \"weight_map\" object" + again);
}

TEST_CASE("weights under other names are read if they are unambiguous") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const std::vector<std::string> names = tensor_names(config);
  const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
  const auto write = [&](const char* file, auto begin, auto end) { write_weights(folder.path() / file, config, {begin, end}); };
  const auto read = [&] { return load_all(*hf_weights(config, folder.path()), config); };
  const auto error = [&] { return input_error([&] { hf_weights(config, folder.path()); }); };
  SECTION("one file") {
    write("weights.safetensors", names.begin(), names.end());
    write("exp_avg.safetensors", names.begin(), names.end());
    CHECK(read() == load_all(*random_weights(config, 1), config));
    write("other.safetensors", names.begin(), names.end());
    CHECK(error().find("several *.safetensors files and no index") != std::string::npos);
  }
  SECTION("shards without an index") {
    write("llama-00001-of-00002.safetensors", names.begin(), middle);
    CHECK(error() == folder.path().string() + ": has 1 of its 2 shards; get the others");
    write("llama-00002-of-00002.safetensors", middle, names.end());
    CHECK(read() == load_all(*random_weights(config, 1), config));
    fs::remove(folder.path() / "llama-00002-of-00002.safetensors");
    write("llama-00002-of-00002.safetensors", names.begin(), names.end());
    CHECK(error().find("is both in llama-0000") != std::string::npos);
  }
}

}  // namespace
}  // namespace pipetrain
