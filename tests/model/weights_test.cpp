#include "model/weights.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/philox.hpp"
#include "model/safetensors.hpp"
#include "run_program.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, std::vector<float>>;

ModelConfig small_config(bool tied = false) {
  ModelConfig config = preset_config("tiny");
  config.hidden = 32;
  config.layers = 2;
  config.head_dim = 4;
  config.kv_heads = 4;
  config.intermediate = 24;
  config.vocabulary = 37;
  config.tied_embeddings = tied;
  return config;
}

Parameter whole(const NamedShape& tensor) {
  Parameter parameter;
  parameter.name = tensor.name;
  parameter.full = parameter.local = tensor.shape;
  return parameter;
}

std::vector<float> load(const WeightSource& source, const Parameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.local.elements()));
  source.load(parameter, values.data());
  return values;
}

Tensors load_all(const WeightSource& source, const ModelConfig& config) {
  Tensors tensors;
  for (const NamedShape& tensor : logical_tensors(config)) tensors[tensor.name] = load(source, whole(tensor));
  return tensors;
}

void save(const ModelConfig& config, const fs::path& folder, std::uint64_t seed = 1) {
  const auto source = random_weights(config, seed);
  const auto tensors = logical_tensors(config);
  save_hf_model(config, folder, [&](std::size_t i, float* out) { source->load(whole(tensors[i]), out); });
}

// Every rank's slice of every parameter, at every tensor-parallel size, is that slice of the full tensor.
void check_slices(const WeightSource& source, const ModelConfig& config) {
  const Tensors full = load_all(source, config);
  for (const int tp_size : {1, 2, 4}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, rank, tp_size).parameters) {
        const std::vector<float> slice = load(source, parameter);
        const std::vector<float>& tensor = full.at(parameter.name);
        if (parameter.full.rank() == 1) {
          CHECK(slice == tensor);
          continue;
        }
        const std::int64_t row0 = parameter.split_axis == 0 ? parameter.begin : 0;
        const std::int64_t col0 = parameter.split_axis == 1 ? parameter.begin : 0;
        bool same = true;
        for (std::int64_t row = 0; row < parameter.local[0]; ++row) {
          for (std::int64_t col = 0; col < parameter.local[1]; ++col) {
            same &= slice[static_cast<std::size_t>(row * parameter.local[1] + col)] ==
                    tensor[static_cast<std::size_t>((row0 + row) * parameter.full[1] + col0 + col)];
          }
        }
        INFO(parameter.name << " on rank " << rank << " of " << tp_size);
        CHECK(same);
      }
    }
  }
}

std::string content(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// --- Random weights
// ------------------------------------------------------------------------------------------------------------

TEST_CASE("Philox4x32-10 gives its authors' known answers") {
  struct Known {
    PhiloxKey key;
    std::array<std::uint32_t, 4> counter, words;
  };
  const std::array known{Known{{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                         Known{{~0U, ~0U}, {~0U, ~0U, ~0U, ~0U}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                         Known{{0xa4093822, 0x299f31d0},
                               {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  PhiloxWords<1> words;
  for (const Known& example : known) {
    for (std::size_t i = 0; i < 4; ++i) words[i][0] = example.counter[i];
    philox(example.key, words);
    for (std::size_t i = 0; i < 4; ++i) CHECK(words[i][0] == example.words[i]);
  }
}

TEST_CASE("random weights: a slice is the slice of the full tensor, whatever the layout") {
  const ModelConfig config = small_config(GENERATE(false, true));
  check_slices(*random_weights(config, 3), config);
}

TEST_CASE("random weights are normal with the configured deviation; norms are 1") {
  ModelConfig config = small_config();
  config.init_std = 0.5;
  const auto source = random_weights(config, 5);
  CHECK(load(*source, whole({"model.norm.weight", {32}})) == std::vector<float>(32, 1.0F));

  std::vector<float> values = load(*source, whole({"lm_head.weight", {1000, 1000}}));
  const double n = static_cast<double>(values.size());
  std::array<double, 5> moments{};
  double neighbours = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i] / 0.5;
    for (std::size_t power = 1; power < 5; ++power) moments[power] += std::pow(x, static_cast<double>(power)) / n;
    if (i > 0) neighbours += x * values[i - 1] / 0.5 / n;
  }
  // Within five standard errors of 0, 1, 0, 3 and of no correlation.
  CHECK(std::fabs(moments[1]) < 5 * std::sqrt(1 / n));
  CHECK(std::fabs(moments[2] - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::fabs(moments[3]) < 5 * std::sqrt(15 / n));
  CHECK(std::fabs(moments[4] - 3) < 5 * std::sqrt(96 / n));
  CHECK(std::fabs(neighbours) < 5 * std::sqrt(1 / n));

  // The largest distance to the normal distribution function (Kolmogorov); above 1.95 / sqrt(n) once in a thousand.
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = 0.5 * std::erfc(-values[i] / 0.5 / std::sqrt(2.0));
    distance = std::max(distance, std::fabs(static_cast<double>(i) / n - expected));
  }
  CHECK(distance < 1.95 / std::sqrt(n));
}

TEST_CASE("random weights depend on the seed and the name, and on nothing else") {
  const ModelConfig config = small_config();
  const Parameter a = whole({"a", {8, 8}}), b = whole({"b", {8, 8}});
  CHECK(load(*random_weights(config, 1), a) == load(*random_weights(config, 1), a));
  CHECK(load(*random_weights(config, 1), a) != load(*random_weights(config, 2), a));
  CHECK(load(*random_weights(config, 1), a) != load(*random_weights(config, 1), b));
  CHECK(load(*random_weights(config, 1), a) != load(*random_weights(config, std::uint64_t{1} << 32 | 1), a));
}

// --- Hugging Face folders
// --------------------------------------------------------------------------------------------------------

TEST_CASE("a Hugging Face folder's weights load in slices") {
  const fs::path folder = fs::path(PIPETRAIN_TEST_DATA) / "golden" / GENERATE("llama2_tiny", "llama3_tiny");
  const ModelConfig config = read_hf_config(folder);
  check_slices(*hf_weights(config, folder), config);
}

TEST_CASE("fewer layers than the folder has may be kept") {
  const fs::path folder = fs::path(PIPETRAIN_TEST_DATA) / "golden/llama2_tiny";
  ModelConfig config = read_hf_config(folder);
  config.layers = 3;
  CHECK_NOTHROW(hf_weights(config, folder));
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

// Writes random tensors under these names into one file; those of `config` have its shapes, others are [2].
void write_file(const fs::path& file, const ModelConfig& config, const std::vector<std::string>& names) {
  std::vector<NamedShape> tensors;
  for (const std::string& name : names) {
    Shape shape{2};
    for (const NamedShape& tensor : logical_tensors(config)) {
      if (tensor.name == name) shape = tensor.shape;
    }
    if (name == "lm_head.weight") shape = {config.vocabulary, config.hidden};
    tensors.push_back({name, shape});
  }
  SafetensorsWriter writer(file, tensors);
  const auto source = random_weights(config, 1);
  for (const NamedShape& tensor : tensors) writer.write(load(*source, whole(tensor)).data());
  writer.finish();
}

std::vector<std::string> names_of(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const NamedShape& tensor : logical_tensors(config)) names.push_back(tensor.name);
  return names;
}

TEST_CASE("a tied checkpoint may hold its matrix once or twice, under either name") {
  const ModelConfig config = small_config(true);
  const TempFolder folder;
  std::vector<std::string> names = names_of(config);
  std::string expected_name = "model.embed_tokens.weight";
  SECTION("the embedding only") {}
  SECTION("both") { names.push_back("lm_head.weight"); }
  SECTION("the head only") {
    names.front() = "lm_head.weight";
    expected_name = "lm_head.weight";
  }
  write_file(folder.path() / "model.safetensors", config, names);
  const NamedShape table = logical_tensors(config).front();
  CHECK(load(*hf_weights(config, folder.path()), whole(table)) ==
        load(*random_weights(config, 1), whole({expected_name, table.shape})));
}

TEST_CASE("missing and unknown tensors are named") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  std::vector<std::string> names = names_of(config);
  const auto error = [&] { return input_error([&] { hf_weights(config, folder.path()); }); };

  CHECK(error() == folder.path().string() + ": has no *.safetensors files; to start from random weights say --init random");
  SECTION("missing") {
    names.erase(std::find(names.begin(), names.end(), "model.layers.1.mlp.up_proj.weight"));
    write_file(file, config, names);
    CHECK(error() == file.string() + ": tensor model.layers.1.mlp.up_proj.weight is missing");
  }
  SECTION("missing in the header, its data still there") {
    write_file(file, config, names);
    std::string bytes = read_file(file);
    const std::string name = "model.layers.1.self_attn.q_proj.weight";
    std::string entry = bytes.substr(bytes.find('"' + name));
    entry = entry.substr(0, entry.find("},") + 2);
    bytes.replace(bytes.find(entry), entry.size(), std::string(entry.size(), ' '));
    folder.write("model.safetensors", bytes);
    CHECK(error() == file.string() + ": tensor " + name + " is missing");
  }
  SECTION("no head, though not tied") {
    names.pop_back();
    write_file(file, config, names);
    CHECK(error().find("tensor lm_head.weight is missing (if the model's embeddings are tied") != std::string::npos);
  }
  SECTION("a bias") {
    names.push_back("model.layers.0.self_attn.q_proj.bias");
    write_file(file, config, names);
    CHECK(error() ==
          file.string() + ": tensor model.layers.0.self_attn.q_proj.bias is not part of the model that config.json describes");
  }
  SECTION("what old files keep besides") {
    names.push_back("model.layers.0.self_attn.rotary_emb.inv_freq");
    names.push_back("model.layers.7.mlp.up_proj.weight");
    write_file(file, config, names);
    CHECK(error().empty());
  }
  SECTION("of another shape") {
    ModelConfig other = config;
    other.intermediate = 48;
    write_file(file, other, names);
    CHECK(error() ==
          file.string() +
              ": tensor model.layers.0.mlp.gate_proj.weight has shape [48, 32]; the model's config.json asks for [24, 32]");
  }
  SECTION("a file cut short") {
    write_file(file, config, names);
    fs::resize_file(file, fs::file_size(file) - 1);
    CHECK(error().find("truncated") != std::string::npos);
  }
}

TEST_CASE("shards are found by their index, which must not lead out of the folder") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const std::vector<std::string> names = names_of(config);
  const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
  write_file(folder.path() / "model-1.safetensors", config, {names.begin(), middle});
  write_file(folder.path() / "model-2.safetensors", config, {middle, names.end()});
  nlohmann::json index;
  for (auto name = names.begin(); name != names.end(); ++name) {
    index["weight_map"][*name] = name < middle ? "model-1.safetensors" : "model-2.safetensors";
  }
  const auto error = [&] {
    const fs::path file = folder.write("model.safetensors.index.json", index.dump());
    return input_error([&] { hf_weights(config, folder.path()); });
  };
  const std::string where = (folder.path() / "model.safetensors.index.json").string() + ": ";

  CHECK(error().empty());
  CHECK(load_all(*hf_weights(config, folder.path()), config) == load_all(*random_weights(config, 1), config));

  for (const char* bad : {"../model-1.safetensors", "/etc/passwd", "..", "", "a/b"}) {
    index["weight_map"][names[0]] = bad;
    CHECK(error() == where + "tensor " + names[0] + ": file \"" + bad + "\" is not the name of a file in this folder");
  }
  index["weight_map"][names[0]] = 3;
  CHECK(error() == where + "tensor " + names[0] + ": its file is not a name");
  index["weight_map"][names[0]] = "model-3.safetensors";
  CHECK(error() == (folder.path() / "model-3.safetensors").string() + ": cannot be read: No such file or directory");
  index["weight_map"][names[0]] = "model-2.safetensors";
  CHECK(error() == (folder.path() / "model-2.safetensors").string() + ": tensor " + names[0] +
                       " is missing, though model.safetensors.index.json says it is there");
  index["weight_map"].erase(names[0]);
  CHECK(error() == folder.path().string() + ": tensor " + names[0] + " is missing");
  index = {{"weight_map", 1}};
  CHECK(error() == where + "no \"weight_map\" object");
}

TEST_CASE("weights under other names are read where there is no doubt which") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const std::vector<std::string> names = names_of(config);
  const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
  const auto write = [&](const char* file, auto begin, auto end) { write_file(folder.path() / file, config, {begin, end}); };
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

// --- Saving
// --------------------------------------------------------------------------------------------------------------------------

TEST_CASE("saving replaces an older model and keeps what else its folder holds") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const fs::path model = folder.path() / "model";
  save(config, model, 1);
  fs::create_directory(model / "notes");
  std::ofstream(model / "notes/a.txt") << "note";
  std::ofstream(model / "tokenizer.json") << "{}";
  std::ofstream(model / "model-00002-of-00002.safetensors") << "an older shard";
  fs::create_directory(folder.path() / "model.partial");  // of a run that was killed
  std::ofstream(folder.path() / "model.partial/model.safetensors") << "half";

  save(config, model / "", 2);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"model"});
  CHECK(names_in(model) == std::vector<std::string>{"config.json", "model.safetensors", "notes", "tokenizer.json"});
  CHECK(content(model / "notes/a.txt") == "note");
  CHECK(load_all(*hf_weights(config, model), config) == load_all(*random_weights(config, 2), config));
}

TEST_CASE("a failed save leaves everything as it was") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const fs::path model = folder.path() / "model";
  save(config, model);
  const std::string before = content(model / "model.safetensors");
  const auto broken = [](std::size_t i, float*) {
    if (i == 3) throw Error(ErrorKind::peer_lost, "gone");
  };
  CHECK_THROWS_WITH(save_hf_model(config, model, broken), "gone");
  CHECK_THROWS_WITH(save_hf_model(config, folder.path() / "a/b/c", broken), "gone");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"model"});
  CHECK(content(model / "model.safetensors") == before);
}

TEST_CASE("places that cannot be written are refused before and at saving") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  const auto check = [&](const fs::path& place, const std::string& message) {
    const std::string expected = place.string() + ": " + message;
    CHECK(input_error([&] { check_hf_target(place); }) == expected);
    CHECK(input_error([&] { save(config, place); }) == expected);
  };
  const fs::path file = folder.write("file", "text"), other = folder.path() / "other";
  fs::create_directory(other);
  std::ofstream(other / "thesis.tex") << "text";
  check(file, "cannot be written: a file is in its place");
  check(file / "model", "cannot be written: Not a directory");
  check(other, "is a folder with other things in it than a model; choose another place, or empty it");
  const std::string error = input_error([&] { check_hf_target("/proc/pipetrain/model"); });  // no user can write there
  CHECK(error.starts_with("/proc/pipetrain/model: cannot be written: "));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file", "other"});
  CHECK(content(other / "thesis.tex") == "text");

  CHECK_NOTHROW(check_hf_target(folder.path() / "new/model"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file", "other"});
}

// A limit on file sizes stands for a full disk: the same calls fail.
TEST_CASE("no space for the file ends in one line and leaves nothing behind") {
  const TempFolder folder;
  const ModelConfig config = small_config();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 20'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const std::string error = input_error([&] { save(config, folder.path() / "out/model"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(error == (folder.path() / "out/model.partial/model.safetensors").string() + ": cannot be written: File too large");
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace pipetrain
