// Checkpoints that are wrong in some 200 named ways, each with matching checksums, so that the readers meet the fault.
// Every one is refused in a line that names the file.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/golden_run.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/checkpoint/rank_file.hpp"
#include "catch.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

std::string read_all(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string hex(const std::string& bytes) { return fmt::format("{:016x}", checksum(bytes.data(), bytes.size())); }

// The golden model's checkpoint of step 1 by two ranks, restored before each case.
class Checkpoint {
 public:
  Checkpoint() {
    Trainer trainer(golden_job("llama3_tiny", {1, 2, 1, 2}));
    trainer.step();
    trainer.start_checkpoint(folder_.path()).get();
    whole_ = read_all(path / "state.json");
    config_ = read_all(path / "config.json");
  }
  void restore() const {
    write("state.json", whole_);
    write("config.json", config_);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary | std::ios::trunc) << text;
  }
  ordered_json state() const { return ordered_json::parse(whole_); }
  ordered_json config() const { return ordered_json::parse(config_); }
  // Writes state.json with its checksum of itself.
  void write_state(ordered_json state) const {
    if (state.contains("checksum") && state["checksum"] == this->state()["checksum"]) state["checksum"] = std::string(16, '0');
    std::string text = state.dump(1) + "\n";
    const std::size_t place = text.find("\"checksum\": \"" + std::string(16, '0'));
    if (place != std::string::npos) text.replace(place + 13, 16, hex(text));
    write("state.json", text);
  }
  void write_config(const std::string& text) const {
    write("config.json", text);
    ordered_json changed = state();
    changed["checksums"]["files"]["config.json"] = hex(text);
    write_state(changed);
  }

 private:
  TempFolder folder_;

 public:
  const fs::path path = checkpoint_path(folder_.path(), 1);

 private:
  std::string whole_, config_;
};

struct Case {
  std::string name;
  std::function<void()> spoil;
};

const std::vector<std::pair<const char*, ordered_json>> wrong_values = {{"null", nullptr},
                                                                        {"a text", "1"},
                                                                        {"negative", -1},
                                                                        {"a fraction", 1.5},
                                                                        {"beyond 64 bits", 1e300},
                                                                        {"a list", ordered_json::array()},
                                                                        {"an object", ordered_json::object()},
                                                                        {"a switch", true}};

// Adds cases in which each key of state.json is missing or has impossible values.
void add_states(const Checkpoint& checkpoint, std::vector<Case>& cases) {
  const auto add = [&](const std::string& name, const std::function<void(ordered_json&)>& change) {
    cases.push_back({name, [&checkpoint, change] {
                       ordered_json state = checkpoint.state();
                       change(state);
                       checkpoint.write_state(state);
                     }});
  };
  for (const char* key : {"format", "checksum", "step", "applied_steps", "first_loss", "global_batch", "sequence", "seed",
                          "shuffle", "samples", "data", "checksums"}) {
    add(fmt::format("{} missing", key), [key](ordered_json& state) { state.erase(key); });
    for (const auto& [name, value] : wrong_values) {
      const std::string what = name, of = key;
      const bool number = of == "first_loss" && value.is_number(), holds = of == "shuffle" && value.is_boolean();
      if (number || holds) continue;
      add(fmt::format("{} is {}", key, name), [of, value = value](ordered_json& state) { state[of] = value; });
    }
  }
  for (const char* key : {"step", "global_batch", "sequence", "samples"})
    add(fmt::format("{} is 0", key), [key](ordered_json& state) { state[key] = 0; });
  add("last_loss is a text", [](ordered_json& state) { state["last_loss"] = "low"; });
  add("more steps applied than done", [](ordered_json& state) { state["applied_steps"] = 2; });
  add("another step than its name", [](ordered_json& state) { state["step"] = 2; });
  for (const int format : {0, 1, 5, 2, 3})
    add(fmt::format("format {}", format), [=](ordered_json& state) { state["format"] = format; });
}

// Adds cases with wrong descriptions of the files.
void add_files(const Checkpoint& checkpoint, std::vector<Case>& cases) {
  const auto add = [&](const std::string& name, const std::function<void(ordered_json & files)>& change) {
    cases.push_back({"files: " + name, [&checkpoint, change] {
                       ordered_json state = checkpoint.state();
                       change(state["checksums"]["files"]);
                       checkpoint.write_state(state);
                     }});
  };
  const std::string first = rank_file_name(0);
  add("none", [](ordered_json& files) { files = ordered_json::object(); });
  add("a list", [](ordered_json& files) { files = ordered_json::array({1}); });
  add("without config.json", [](ordered_json& files) { files.erase("config.json"); });
  add("without a rank's", [=](ordered_json& files) { files.erase(first); });
  add("one that is not there", [](ordered_json& files) { files["rank-00007.safetensors"] = files["rank-00000.safetensors"]; });
  for (const std::string name : {"../config.json", "/etc/passwd", "", ".", "..", "a/b", "additional_chat_templates/..",
                                 "additional_chat_templates/../../a", "additional_chat_templates/"})
    add("named " + (name.empty() ? "nothing" : name), [=](ordered_json& files) { files[name] = files["config.json"]; });
  for (const auto& [what, value] : wrong_values) {
    for (const char* key : {"bytes", "header", "tensors"})
      add(fmt::format("{} is {}", key, what), [=, value = value](ordered_json& files) { files[first][key] = value; });
    add(fmt::format("a tensor's checksum is {}", what),
        [=, value = value](ordered_json& files) { files[first]["tensors"].begin().value() = value; });
    if (!value.is_object())
      add(fmt::format("a file is {}", what), [=, value = value](ordered_json& files) { files[first] = value; });
  }
  for (const char* key : {"bytes", "header", "tensors"})
    add(fmt::format("{} missing", key), [=](ordered_json& files) { files[first].erase(key); });
  add("a tensor missing", [=](ordered_json& files) { files[first]["tensors"].erase(files[first]["tensors"].begin().key()); });
  for (const char* digits : {"", "0", "0123456789abcdeg", "0123456789abcdef0", "-123456789abcdef", " 123456789abcdef"})
    add(fmt::format("a checksum of '{}'", digits), [=](ordered_json& files) { files["config.json"] = digits; });
}

// Adds cases with a wrong config.json whose checksum fits.
void add_configs(const Checkpoint& checkpoint, std::vector<Case>& cases) {
  const auto add = [&](const std::string& name, const std::string& text) {
    cases.push_back({"config.json: " + name, [&checkpoint, text] { checkpoint.write_config(text); }});
  };
  add("empty", "");
  add("no object", "[]");
  add("cut short", "{\"hidden_size\": ");
  add("a key twice", "{\"hidden_size\": 1, \"hidden_size\": 1}");
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"}) {
    ordered_json config = checkpoint.config();
    config.erase(key);
    add(fmt::format("{} missing", key), config.dump());
    for (const auto& [name, value] : wrong_values) {
      config = checkpoint.config();
      config[key] = value;
      add(fmt::format("{} is {}", key, name), config.dump());
    }
    config[key] = checkpoint.config()[key].get<std::int64_t>() * 2;
    add(fmt::format("{} is twice the files'", key), config.dump());
  }
}

}  // namespace

TEST_CASE("checkpoints that are wrong in 200 named ways are refused, each by its file") {
  const Checkpoint checkpoint;
  REQUIRE_NOTHROW(verify_checkpoint(checkpoint.path));
  checkpoint.write_state(checkpoint.state());
  REQUIRE_NOTHROW(verify_checkpoint(checkpoint.path));
  std::vector<Case> cases;
  add_states(checkpoint, cases);
  add_files(checkpoint, cases);
  add_configs(checkpoint, cases);
  CHECK(cases.size() >= 200);
  for (const Case& wrong : cases) {
    INFO(wrong.name);
    checkpoint.restore();
    wrong.spoil();
    try {
      verify_checkpoint(checkpoint.path);
      FAIL_CHECK("it is taken");
    } catch (const Error& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(error.kind() == ErrorKind::input);
      CHECK(text.find('\n') == std::string::npos);
      CHECK(text.find(checkpoint.path.string()) == 0);
      CHECK(text.find("take another") != std::string::npos);
    }
  }
}
