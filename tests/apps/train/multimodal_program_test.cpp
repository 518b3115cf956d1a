// Folders of multimodal models through the program: their language model is trained, and all else is kept.

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "model/weights/raw_folder.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::RawFolder;

const fs::path multimodal = test::golden_folder("gemma3_multimodal_tiny"), text = test::golden_folder("gemma3_tiny");

struct Runs {
  TempFolder folder{};
  fs::path model = folder.path() / "model";

  explicit Runs(const RawFolder& of = RawFolder(multimodal)) { of.write(model); }

  std::string train(const fs::path& from, const std::string& run, int steps = 2) const {
    return "--device cpu --threads 1 --microbatch 1 --microbatches 2 --lr 0.01 --lr-schedule constant --steps " +
           std::to_string(steps) + " --model " + from.string() + " --data " + (text / "train.jsonl").string() + " --save " +
           path(run).string() + " ";
  }
  fs::path path(const std::string& name) const { return folder.path() / name; }
  fs::path checkpoint(const std::string& run) const { return path(run) / "step-00000001"; }
};

void succeed(const std::string& arguments) {
  const Result result = run(arguments);
  INFO(arguments << ": " << result.err);
  REQUIRE(result.status == 0);
}

// Returns the names of the classes of transformers 5, which some programs write.
RawFolder with_class_names(const RawFolder& model) {
  RawFolder renamed = model;
  renamed.tensors.clear();
  const std::string inside = "language_model.model.";
  for (const auto& [name, tensor] : model.tensors)
    renamed.tensors[name.starts_with(inside) ? "model.language_model." + name.substr(inside.size()) : "model." + name] = tensor;
  return renamed;
}

// Checks that `saved` is `before` with the language model of `trained`.
void check_saved(const fs::path& saved, const RawFolder& before, const fs::path& trained, const std::string& prefix) {
  const RawFolder after(saved), language_model(trained);
  REQUIRE(after.tensors.size() == before.tensors.size());
  for (const auto& [name, tensor] : language_model.tensors) {
    INFO(name);
    const std::string inside = prefix + name.substr(std::string("model.").size());
    REQUIRE(after.tensors.contains(inside));
    CHECK(after.tensors.at(inside) == tensor);
    CHECK_FALSE(before.tensors.at(inside) == tensor);
  }
  for (const auto& [name, tensor] : before.tensors) {
    INFO(name);
    if (!name.starts_with(prefix)) CHECK(after.tensors.at(name) == tensor);
  }
  json expected = before.config;
  expected["dtype"] = "float32";
  CHECK(after.config == expected);
}

TEST_CASE("the language model of a multimodal folder is trained as by itself, and the other parts and keys are kept") {
  const bool by_class = GENERATE(false, true);
  const RawFolder before = by_class ? with_class_names(RawFolder(multimodal)) : RawFolder(multimodal);
  const std::string prefix = by_class ? "model.language_model." : "language_model.model.";
  const Runs runs(before);
  succeed(runs.train(text, "text"));
  succeed(runs.train(runs.model, "run") + "--pp 2 --save-interval 1");
  check_saved(runs.path("run") / "model", before, runs.path("text") / "model", prefix);
  SECTION("exports of checkpoints have them too, in shards and with another type of weights") {
    succeed("export --load " + runs.checkpoint("run").string() + " --out " + runs.path("export").string() +
            " --save-shard-size 50KB --save-dtype bf16");
    CHECK(fs::exists(runs.path("export") / "model.safetensors.index.json"));
    const RawFolder exported(runs.path("export"));
    for (const auto& [name, tensor] : before.tensors)
      if (!name.starts_with(prefix)) CHECK(exported.tensors.at(name) == tensor);
    CHECK(exported.tensors.at(prefix + "norm.weight").dtype == "BF16");
    CHECK(exported.config["dtype"] == "bfloat16");
  }
  SECTION("a saved folder is a model to begin from") {
    succeed(runs.train(runs.path("run") / "model", "again", 1));
    CHECK(RawFolder(runs.path("again") / "model").tensors.size() == before.tensors.size());
  }
}

TEST_CASE("a folder whose config.json leaves text_config's defaults out is saved with the same config.json") {
  RawFolder before{multimodal};
  for (const char* key : {"attention_bias", "rms_norm_eps", "tie_word_embeddings", "hidden_activation"})
    before.config["text_config"].erase(key);
  before.config.erase("tie_word_embeddings");
  const Runs runs(before);
  succeed(runs.train(runs.model, "run", 1));
  json expected = before.config;
  expected["dtype"] = "float32";
  CHECK(RawFolder(runs.path("run") / "model").config == expected);
}

TEST_CASE("a checkpoint of a multimodal model names the folder that it needs, wherever that was moved") {
  const Runs runs;
  succeed(runs.train(runs.model, "run", 1) + "--save-interval 1");
  const fs::path moved = runs.path("moved");
  fs::rename(runs.model, moved);
  const std::string export_it = "export --load " + runs.checkpoint("run").string() + " --out " + runs.path("export").string();
  CHECK_THAT(refused(export_it), Contains("--model " + runs.model.string() + ": ") &&
                                     Contains("takes the tensors besides its language model from there") &&
                                     Contains("give the folder that its run began from"));
  CHECK_FALSE(fs::exists(runs.path("export")));
  succeed(export_it + " --model " + moved.string());
  CHECK(RawFolder(runs.path("export")).tensors.size() == RawFolder(multimodal).tensors.size());
  SECTION("a run goes on with the moved folder, and its checkpoints record the new place") {
    succeed(runs.train(moved, "run") + "--resume --save-interval 1");
    succeed("export --load " + (runs.path("run") / "step-00000002").string() + " --out " + runs.path("second").string());
    const Runs whole;
    succeed(whole.train(whole.model, "run"));
    CHECK(RawFolder(runs.path("second")).tensors == RawFolder(whole.path("run") / "model").tensors);
  }
  SECTION("a checkpoint as the model needs it too") {
    CHECK_THAT(refused(runs.train(runs.checkpoint("run"), "other")), Contains("takes the tensors besides its language model"));
    fs::rename(moved, runs.model);
    succeed(runs.train(runs.checkpoint("run"), "other"));
    CHECK(RawFolder(runs.path("other") / "model").tensors.size() == RawFolder(multimodal).tensors.size());
  }
  SECTION("a folder whose vision tower has changed is refused") {
    RawFolder changed(moved);
    auto& [name, tensor] = *std::find_if(changed.tensors.begin(), changed.tensors.end(),
                                         [](const auto& one) { return one.first.find("vision_tower") != std::string::npos; });
    ++tensor.bytes[0];
    changed.write(moved);
    const std::string line = "its tensor " + name + " is another one";
    CHECK_THAT(refused(export_it + "2 --model " + moved.string()), Contains(line));
    CHECK_THAT(refused(runs.train(moved, "run") + "--resume"), Contains(line));
  }
}

TEST_CASE("a folder of a multimodal model without its weights gives a language model") {
  const Runs runs;
  fs::remove(runs.model / "model.safetensors");
  succeed(runs.train(runs.model, "run", 1) + "--init random");
  CHECK(RawFolder(runs.path("run") / "model").config["model_type"] == "gemma3_text");
}

TEST_CASE("a multimodal model writes the text of its language model") {
  const std::string prompt = " --device cpu --json --prompt abc --max-new-tokens 8";
  const Result own = run("generate --model " + text.string() + prompt);
  CHECK(own.status == 0);
  CHECK(run("generate --model " + multimodal.string() + prompt).out == own.out);
}

TEST_CASE("multimodal folders are refused where their tensors or settings are not of one model") {
  const Runs runs;
  const std::string train = runs.train(runs.model, "run", 1);
  CHECK_THAT(refused(train + "--num-labels 3"), Contains("is multimodal, and classes are not built"));
  RawFolder model(multimodal);
  model.config = RawFolder(text).config;
  model.write(runs.model);
  CHECK_THAT(refused(train), Contains("tensor model.embed_tokens.weight is missing"));
  model = RawFolder(multimodal);
  model.tensors["audio_tower.weight"] = {"F32", {1}, "1234"};
  model.write(runs.model);
  CHECK_THAT(refused(train), Contains("tensor audio_tower.weight is not part of the model"));
}

}  // namespace
}  // namespace pipetrain
