// doctor --model: what is understood and what is refused of a model folder.
#include <sstream>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "model/weights/bad_folder.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::RawFolder;

Result report(const fs::path& model) { return run("doctor --model '" + model.string() + "'"); }

std::size_t count_of_refusals(const Result& result) {
  std::size_t count = 0;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) count += line.starts_with("refused ") ? 1 : 0;
  return count;
}

TEST_CASE("doctor says of each golden model what it is read from, and that it loads") {
  for (const std::string& name : test::golden_models()) {
    const Result result = report(test::golden_folder(name));
    INFO(name << "\n" << result.out << result.err);
    CHECK(result.status == 0);
    CHECK_THAT(result.out, Contains("\nloads      yes\n") && Contains("\nread       ") && Contains("as the model needs them"));
    CHECK(count_of_refusals(result) == 0);
  }
}

TEST_CASE("doctor and training refuse the same folders for the same reason, with status 2") {
  const auto names = test::golden_models();
  const TempFolder folder;
  std::size_t next = 0;
  for (const test::Damage& damage : test::damages()) {
    // Another model for each damage, so that the test stays short; bad_folder_test.cpp has all of them.
    std::string line;
    std::string name;
    const fs::path damaged = folder.path() / "model";
    for (std::size_t tries = 0; line.empty() && tries < names.size(); ++tries) {
      name = names[next++ % names.size()];
      fs::remove_all(damaged);
      line = damage.apply(RawFolder(test::golden_folder(name)), damaged);
    }
    INFO(damage.name << " of " << name);
    REQUIRE(!line.empty());
    const bool classifies = name.find("classify") != std::string::npos;
    const std::string row = "{\"input_ids\": [5, 3, 7, 9]" + std::string(classifies ? ", \"label\": 1" : "") + "}\n";
    const fs::path rows = folder.write("rows.jsonl", row);
    const Result result = report(damaged);
    INFO(result.out << result.err);
    CHECK(result.status == 2);
    CHECK_THAT(result.out, Contains(line) && Contains("\nloads      no: "));
    CHECK_THAT(refused("--device cpu --steps 1 --microbatch 1 --microbatches 1 --model " + damaged.string() + " --data " +
                       rows.string()),
               Contains(line));
  }
}

TEST_CASE("doctor lists every key and tensor that is refused, not the first alone") {
  RawFolder model(test::golden_folder("qwen3_tiny"));
  model.config["surprise"] = 1;
  model.config["final_logit_softcapping"] = 30;
  model.config["rope_parameters"] = {{"rope_type", "spiral"}, {"rope_theta", 1e4}};
  model.tensors.erase("model.norm.weight");
  for (int layer = 0; layer < 3; ++layer)
    model.tensors["model.layers." + std::to_string(layer) + ".mlp.router.weight"] = {"F32", {1}, "1234"};
  const TempFolder folder;
  model.write(folder.path());
  const Result result = report(folder.path());
  INFO(result.out);
  CHECK(result.status == 2);
  CHECK(count_of_refusals(result) == 5);
  CHECK_THAT(result.out, Contains("\"surprise\" is not known") && Contains("\"final_logit_softcapping\" is 30") &&
                             Contains("\"rope_parameters.rope_type\" is \"spiral\"") &&
                             Contains("tensor model.norm.weight is missing") &&
                             Contains("tensor model.layers.0.mlp.router.weight is not part of the model") &&
                             Contains("(2 tensors like it)") && Contains("loads      no: 5 refusals"));
}

TEST_CASE("doctor says what is known of a family that is not built, and which one is the nearest") {
  RawFolder model(test::golden_folder("llama3_tiny"));
  model.config["model_type"] = "llama_of_tomorrow";
  model.config["architectures"] = {"LlamaOfTomorrowForCausalLM"};
  model.config["factor_of_tomorrow"] = 8;
  const TempFolder folder;
  model.write(folder.path());
  const Result result = report(folder.path());
  INFO(result.out);
  CHECK(result.status == 2);
  CHECK_THAT(result.out, Contains("unknown architecture \"llama_of_tomorrow\"; known: ") && Contains("is the nearest") &&
                             Contains("hidden_size") && Contains("\"factor_of_tomorrow\" is not known") &&
                             Contains("docs/add-a-model.md"));
}

TEST_CASE("doctor reads a model whose model_type is empty by its architecture, as training does") {
  RawFolder model(test::golden_folder("llama3_tiny"));
  model.config["model_type"] = "";
  const TempFolder folder;
  model.write(folder.path());
  const Result result = report(folder.path());
  INFO(result.out);
  CHECK(result.status == 0);
}

TEST_CASE("doctor reports a tokenizer and its chat template") {
  RawFolder model(test::golden_folder("llama3_tiny"));
  const TempFolder folder;
  model.write(folder.path());
  CHECK_THAT(report(folder.path()).out, Contains("tokenizer  none"));
  folder.write("tokenizer.json", "{\"model\": 3}");
  Result result = report(folder.path());
  CHECK(result.status == 2);
  CHECK_THAT(result.out, Contains("tokenizer.json"));
  fs::copy_file(test_data() + "/data/tokenizers/fixtures/gpt2.json", folder.path() / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  result = report(folder.path());
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  folder.write("chat_template.jinja", "{% for message in messages %}{{ message.content }}");
  result = report(folder.path());
  CHECK(result.status == 2);
  CHECK_THAT(result.out, Contains("chat_template.jinja:1"));
  folder.write("chat_template.jinja", "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}");
  result = report(folder.path());
  INFO(result.out);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Contains("chat       the template of "));
}

TEST_CASE("doctor --model stands alone, and names a missing folder") {
  CHECK_THAT(refused("doctor --model nowhere"), Contains("--model nowhere: there is no such folder or file"));
  CHECK_THAT(refused("doctor --model " + test::golden_folder("qwen3_tiny").string() + " --measure m.json"),
             Contains("--model"));
}

}  // namespace
}  // namespace pipetrain
