// Heads for sequence classification: config.json, tensors, and a new head on a language model's weights.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "model/costs.hpp"
#include "model/error_text.hpp"
#include "model/families/config_fixture.hpp"
#include "model/weights/weights_fixture.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

const fs::path golden_labels = fs::path(test_data()) / "golden";

json classifier(const std::string& name) {
  json text = json::parse(hf_config_text(read_hf_config(golden_labels / name)));
  text["architectures"] = {name == "gpt2_tiny" ? "GPT2ForSequenceClassification" : "LlamaForSequenceClassification"};
  return text;
}

ModelConfig parsed(const json& text) {
  const TempFolder folder;
  folder.write("config.json", text.dump());
  return read_hf_config(folder.path());
}

std::string labels_error_with(const std::string& key, const json& value) {
  json text = classifier("gpt2_tiny");
  text[key] = value;
  const std::string error = input_error([&] { parsed(text); });
  const std::size_t file = error.find("config.json: ");
  return file == std::string::npos ? error : error.substr(file + 13);
}

TEST_CASE("Hugging Face's classifiers are read, with two classes by default") {
  const ModelConfig config = read_hf_config(golden_labels / "gpt2_classify_tiny");
  CHECK(config.labels == std::vector<std::string>{"LABEL_0", "LABEL_1"});
  CHECK(config.classifies());
  CHECK(config.outputs() == 2);
  CHECK_FALSE(config.tied_embeddings);  // whatever the file says: nothing is tied to the head
  CHECK(config.pad_id == 0);
  CHECK_FALSE(read_hf_config(golden_labels / "gpt2_tiny").classifies());
  CHECK_NOTHROW(hf_weights(config, golden_labels / "gpt2_classify_tiny"));
  CHECK(logical_tensors(config).back().name == "score.weight");
  CHECK(logical_tensors(config).back().shape == Shape{2, 64});
}

TEST_CASE("the classes' names and number read back as they were written") {
  for (const std::string name : {"gpt2_tiny", "llama2_tiny"}) {
    json text = classifier(name);
    text["num_labels"] = 3;
    text["pad_token_id"] = 7;
    ModelConfig config = parsed(text);
    CHECK(config.labels == std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"});
    config.labels = {"no", "yes", "may be"};
    const json written = json::parse(hf_config_text(config));
    CHECK(written["architectures"] == text["architectures"]);
    CHECK(written["id2label"] == json{{"0", "no"}, {"1", "yes"}, {"2", "may be"}});
    CHECK(written["label2id"]["may be"] == 2);
    CHECK(written["num_labels"] == 3);
    CHECK(parsed(written) == config);
  }
}

TEST_CASE("classes that are none, one or not single are refused by their key") {
  CHECK(labels_error_with("num_labels", 1) ==
        "\"num_labels\" is 1; it must be of 2 to 65536 classes (regression is not built)");
  CHECK(labels_error_with("id2label", {{"0", "a"}, {"2", "b"}}).starts_with("\"id2label\" is {"));
  CHECK(labels_error_with("id2label", {{"0", "a"}, {"1", 5}}).starts_with("\"id2label\" is {"));
  CHECK(labels_error_with("id2label", {"a", "b"}).starts_with("\"id2label\" is ["));
  CHECK(labels_error_with("problem_type", "regression").starts_with("\"problem_type\" is \"regression\"; it must be "));
  json text = classifier("gpt2_tiny");
  text["id2label"] = {{"0", "a"}, {"1", "b"}};
  text["num_labels"] = 3;
  CHECK_THAT(input_error([&] { parsed(text); }), Catch::Matchers::EndsWith("it must be 2, as many as id2label has"));
}

TEST_CASE("a language model's folder with a new head has its own weights, and a head that follows from the seed") {
  for (const std::string name : {"gpt2_tiny", "llama2_tiny", "llama3_tiny"}) {
    const ModelConfig language = read_hf_config(golden_labels / name), config = with_new_head(language, 3);
    CHECK(config.outputs() == 3);
    CHECK(config.pad_id == config.eos_ids.at(0));
    const auto plain = load_all(*hf_weights(language, golden_labels / name), language);
    const auto weights = load_all(*hf_weights(config, golden_labels / name, {.new_head = 5}), config);
    CHECK(weights.at("score.weight") == load_all(*random_weights(config, 5), config).at("score.weight"));
    CHECK(weights.at("score.weight") !=
          load_all(*hf_weights(config, golden_labels / name, {.new_head = 6}), config).at("score.weight"));
    for (const auto& [tensor, values] : weights)
      if (tensor != "score.weight") CHECK(values == plain.at(tensor));
    CHECK_FALSE(weights.contains("lm_head.weight"));
    CHECK_THAT(input_error([&] { hf_weights(config, golden_labels / name); }),
               Catch::Matchers::Contains("tensor score.weight is missing"));
    CHECK(matmul_parameter_count(config) == matmul_parameter_count(language) + (3 - language.vocabulary) * language.hidden);
  }
}

}  // namespace
}  // namespace pipetrain
