// Model folders through the program: their contents are trained, or refused by name.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/bound_program.hpp"
#include "catch.hpp"
#include "model/families/small_config.hpp"
#include "model/weights/weights_fixture.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;

ModelConfig folder_config(std::int64_t layers, bool tied = false, Family family = Family::llama) {
  ModelConfig config = test::small_config(tied, family);
  config.layers = layers;
  config.vocabulary = 300;
  config.max_positions = 64;
  return config;
}

// A model's folder and rows to train it on.
struct ModelFolder {
  explicit ModelFolder(const ModelConfig& of) : config(of) { save(config, model); }

  void set(const std::string& key, const json& value) const {
    json text = json::parse(read_file(model / "config.json"));
    text[key] = value;
    std::ofstream(model / "config.json") << text.dump();
  }
  std::string train_from(const fs::path& from, const std::string& rate = "1e-30") const {
    return "--device cpu --threads 1 --seq-len 8 --microbatch 1 --microbatches 1 --steps 1 --lr-schedule constant --lr " +
           rate + " --weight-decay 0 --shuffle off --model " + from.string() + " --data " + rows.string() + " ";
  }
  std::string train(const std::string& more = "") const { return train_from(model) + more; }
  std::string generate(const fs::path& from) const {
    return "generate --device cpu --json --prompt abc --max-new-tokens 8 --model " + from.string();
  }

  ModelConfig config;
  TempFolder folder;
  fs::path model = folder.path() / "model";
  fs::path rows = folder.write("rows.jsonl", "{\"input_ids\": [5, 3, 7, 9, 11, 13, 17, 19]}\n");
  fs::path run_folder = folder.path() / "run";
};

std::string loss_of(const ModelFolder& folder, const std::string& arguments) {
  const fs::path metrics = folder.folder.path() / "metrics.jsonl";
  const Result result = run(arguments + " --metrics " + metrics.string());
  INFO(result.err);
  REQUIRE(result.status == 0);
  std::ifstream lines(metrics);
  std::string line;
  std::getline(lines, line);
  return json::parse(line)["loss"].dump();
}

TEST_CASE("additional chat templates are copied into checkpoints, models and exports, and are checked like the rest") {
  const ModelFolder folder(folder_config(2));
  const fs::path kept = fs::path("additional_chat_templates") / "rag.jinja";
  fs::create_directory(folder.model / kept.parent_path());
  std::ofstream(folder.model / kept) << "{{ messages }}";
  std::ofstream(folder.model / kept.parent_path() / "notes.txt") << "no template";
  const Result result = run(folder.train("--save " + folder.run_folder.string()));
  INFO(result.err);
  REQUIRE(result.status == 0);
  const fs::path checkpoint = folder.run_folder / "step-00000001", exported = folder.folder.path() / "exported";
  REQUIRE(run("export --load " + checkpoint.string() + " --out " + exported.string()).status == 0);
  for (const fs::path& saved : {checkpoint, folder.run_folder / "model", exported}) {
    CHECK(read_file(saved / kept) == "{{ messages }}");
    CHECK(names_in(saved / kept.parent_path()) == std::vector<std::string>{"rag.jinja"});
  }
  const std::string go_on = folder.train("--load " + checkpoint.string() + " --steps 2");
  CHECK(run(go_on).status == 0);
  std::ofstream(checkpoint / kept) << "{{ message }}";
  CHECK_THAT(run(go_on).err, Contains("rag.jinja: differs from the saved one"));
}

TEST_CASE("a tied model with a head of its own trains, saves and writes text as the untied model that its weights are") {
  const ModelFolder folder(folder_config(2));
  const fs::path untied = folder.folder.path() / "untied";
  fs::copy(folder.model, untied, fs::copy_options::recursive);
  folder.set("tie_word_embeddings", true);
  const std::string save = "--save " + folder.run_folder.string();
  CHECK(loss_of(folder, folder.train(save)) == loss_of(folder, folder.train_from(untied)));
  const Result again = run(folder.train("--load " + (folder.run_folder / "step-00000001").string() + " --steps 2"));
  INFO(again.err);
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Contains("the weights hold lm_head.weight, which differs from model.embed_tokens.weight"));
  CHECK(json::parse(read_file(folder.run_folder / "model/config.json"))["tie_word_embeddings"] == false);
  const Result text = run(folder.generate(folder.model));
  CHECK_THAT(text.err, Contains("lm_head.weight"));
  CHECK(text.out == run(folder.generate(untied)).out);
  CHECK(text.out == run(folder.generate(folder.run_folder / "model")).out);
}

TEST_CASE("a tied model that is drawn anew is tied, whatever its weights hold") {
  const ModelFolder folder(folder_config(1));
  folder.set("tie_word_embeddings", true);
  const Result result = run(folder.train("--init random --save " + folder.run_folder.string()));
  CHECK(result.status == 0);
  CHECK_THAT(result.err, !Contains("lm_head"));
  CHECK(json::parse(read_file(folder.run_folder / "model/config.json"))["tie_word_embeddings"] == true);
}

TEST_CASE("a model with more layers in its weights than in config.json trains with the option for their number") {
  const ModelFolder folder(folder_config(3));
  folder.set("num_hidden_layers", 2);
  CHECK_THAT(refused(folder.train()), StartsWith("--layers 2: is not given, and ") &&
                                          Contains("tensor model.layers.2.input_layernorm.weight and 8 more"));
  CHECK(run(folder.train("--layers 2")).status == 0);
  CHECK(run(folder.train("--layers 1")).status == 0);
  CHECK_THAT(refused(folder.generate(folder.model)),
             Contains("tensor model.layers.2.input_layernorm.weight") && !Contains("--layers"));
}

TEST_CASE("a model's ids that end a text, and that of padding, go through training and export into generation") {
  const ModelFolder folder(folder_config(2));
  // Whatever token comes first is in the set.
  json ids = json::array();
  for (int id = 0; id < 300; ++id) ids.push_back(id);
  folder.set("eos_token_id", ids);
  folder.set("pad_token_id", 7);
  const std::string run_folder = folder.run_folder.string(), out = (folder.folder.path() / "out").string();
  REQUIRE(run(folder.train("--save " + run_folder)).status == 0);
  REQUIRE(run("export --load " + run_folder + "/step-00000001 --out " + out).status == 0);
  for (const std::string& written : {run_folder + "/model", out}) {
    const json config = json::parse(read_file(written + "/config.json"));
    CHECK(config["eos_token_id"] == ids);
    CHECK(config["pad_token_id"] == 7);
    const json answer = json::parse(run(folder.generate(written)).out);
    CHECK(answer["tokens"] == 0);
    CHECK(answer["end"] == "end of text");
  }
}

TEST_CASE("a Llama's embedding of the padding token learns from the head alone, and that of a GPT-2 from both") {
  const bool tied = GENERATE(false, true);
  const Family family = GENERATE(Family::llama, Family::gpt2);
  const ModelFolder folder(folder_config(1, tied, family));
  folder.set("pad_token_id", 7);  // the rows contain it
  const std::string layout = GENERATE("", "--tp 2 "), table = logical_tensors(folder.config).front().name;
  const auto table_of = [&](const fs::path& model) {
    return load_all(*hf_weights(folder.config, model), folder.config).at(table);
  };
  const auto before = table_of(folder.model);
  const auto row_of = [&](const std::vector<float>& values, std::int64_t row) {
    const auto begin = values.begin() + row * folder.config.hidden;
    return std::vector<float>(begin, begin + folder.config.hidden);
  };
  REQUIRE(run(folder.train_from(folder.model, "0.1") + layout + "--save " + folder.run_folder.string()).status == 0);
  const auto after = table_of(folder.run_folder / "model");
  CHECK((row_of(after, 7) == row_of(before, 7)) == (family == Family::llama && !tied));
  for (const std::int64_t other : {5, 9}) CHECK(row_of(after, other) != row_of(before, other));
}

TEST_CASE("generation_config.json is copied with the model, and its end token takes precedence over config.json's") {
  const ModelFolder folder(folder_config(1));
  json ids = json::array();
  for (int id = 299; id >= 0; --id) ids.push_back(id);
  const std::string text = json{{"eos_token_id", ids}, {"pad_token_id", 7}}.dump();
  folder.folder.write("model/generation_config.json", text);
  folder.set("eos_token_id", 1);
  const std::string run_folder = folder.run_folder.string(), out = (folder.folder.path() / "out").string();
  REQUIRE(run(folder.train("--save " + run_folder)).status == 0);
  REQUIRE(run("export --load " + run_folder + "/step-00000001 --out " + out).status == 0);
  for (const std::string& written : {run_folder + "/model", out}) {
    CHECK(read_file(written + "/generation_config.json") == text);
    CHECK(json::parse(run(folder.generate(written)).out)["end"] == "end of text");
  }
}

TEST_CASE("a profile stays that of its model when the ids of special tokens change") {
  const ModelFolder folder(folder_config(2));
  const std::string profile = (folder.folder.path() / "profile.json").string();
  REQUIRE(run(folder.train("--profile " + profile)).status == 0);
  folder.set("eos_token_id", {0, 272});
  folder.set("pad_token_id", 7);
  const std::string simulate = "simulate --costs " + profile + " --model " + folder.model.string();
  CHECK(run(simulate).status == 0);
  CHECK_THAT(refused(simulate + " --layers 1"), Contains("a profile from another model"));
}

TEST_CASE("an adapter is refused wherever a model or a checkpoint is asked for") {
  const ModelFolder folder(folder_config(1));
  folder.folder.write("adapter/adapter_config.json", R"({"peft_type": "LORA"})");
  const fs::path adapter = folder.folder.path() / "adapter";
  for (const std::string& arguments :
       {folder.train_from(adapter), folder.generate(adapter), folder.train("--load " + adapter.string())})
    CHECK_THAT(refused(arguments), Contains(adapter.string() + ": is a LoRA adapter (adapter_config.json), not a whole model"));
  folder.folder.write("model/adapter_config.json", R"({"peft_type": "LORA"})");
  for (const std::string& arguments : {folder.train(), folder.generate(folder.model)})
    CHECK_THAT(refused(arguments), StartsWith(folder.model.string() + ": has a LoRA adapter (adapter_config.json) next to"));
}

TEST_CASE("pointers of Git LFS are named in the place of weights, tokenizer and data") {
  const ModelFolder folder(folder_config(1));
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n";
  const auto refuses = [&](const std::string& arguments, const std::string& file) {
    CHECK_THAT(refused(arguments),
               Contains((folder.folder.path() / file).string() + ": is a Git LFS pointer") && Contains("run git lfs pull"));
  };
  folder.folder.write("model/tokenizer.json", pointer);
  refuses(folder.train("--save " + folder.run_folder.string()), "model/tokenizer.json");  // the destination of the copy
  refuses(folder.generate(folder.model), "model/tokenizer.json");
  fs::remove(folder.model / "tokenizer.json");
  const std::string data = folder.folder.write("data.txt", pointer).string();
  refuses("--device cpu --steps 1 --data " + data, "data.txt");
  refuses("--device cpu --steps 1 --tokenizer " + folder.folder.write("tokenizer.json", pointer).string() + " --data " +
              folder.rows.string(),
          "tokenizer.json");
  folder.folder.write("model/model.safetensors", pointer);
  refuses(folder.train(), "model/model.safetensors");
  refuses(folder.generate(folder.model), "model/model.safetensors");
}

TEST_CASE("an unreadable folder is not reported as missing") {
  if (!permissions_bind()) return;
  const ModelFolder folder(folder_config(1));
  fs::create_directories(folder.folder.path() / "closed/checkpoint");
  const fs::path closed = folder.folder.path() / "closed", inside = closed / "checkpoint";
  fs::permissions(closed, fs::perms::none);
  const std::string out = (folder.folder.path() / "out").string();
  for (const fs::path& path : {closed, inside}) {
    for (const std::string& arguments :
         {folder.train_from(path), folder.generate(path), folder.train("--load " + path.string()),
          "export --load " + path.string() + " --out " + out}) {
      const Result result = run_bound(arguments);
      INFO(arguments << ": " << result.err);
      CHECK(result.status == 2);
      CHECK_THAT(result.err, Contains(path.string() + ": cannot be read (Permission denied); check its permissions"));
    }
  }
  fs::permissions(closed, fs::perms::owner_all);
}

}  // namespace
}  // namespace pipetrain
