// `pipetrain tokenize` writes files from which train learns the same as from the text itself.
#include "apps/pipetrain_program.hpp"
#include "paths.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

std::string gpt2() { return test_data() + "/data/tokenizers/fixtures/gpt2.json"; }

std::string many_rows() {
  std::string rows;
  for (int i = 0; i < 3000; ++i) rows += "{\"text\": \"row " + std::to_string(i * i) + " of them\\nwith \\u00e9t\\u00e9\"}\n";
  return rows;
}

}  // namespace

TEST_CASE("tokenize shows ids and pieces") {
  const TempFolder folder;
  const auto file = folder.write("a.txt", "def f(self): return").string();
  const Result shown = run("tokenize --tokenizer '" + gpt2() + "' --data '" + file + "' --show");
  INFO(shown.err);
  CHECK(shown.status == 0);
  CHECK_THAT(shown.out, Contains("\t\"\u0120return\"\n"));
  CHECK_THAT(shown.out, EndsWith("0\t\"<|endoftext|>\"\n\n"));
}

TEST_CASE("training on a file of tokens is training on its text, to the bit") {
  const TempFolder folder;
  const std::string rows = folder.write("rows.jsonl", many_rows()).string(), tokens = (folder.path() / "rows.tokens").string();
  const Result written = run("tokenize --tokenizer '" + gpt2() + "' --data '" + rows + "' --out '" + tokens + "' --threads 3");
  INFO(written.err);
  REQUIRE(written.status == 0);
  CHECK_THAT(written.err, Contains("of 3000 documents"));
  CHECK(names_in(folder.path()).size() == 2);
  const auto loss_of = [&](const std::string& data) {
    const std::string config =
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":800,"hidden_size":32,)"
        R"("intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2,)"
        R"("max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu"})";
    folder.write("model/config.json", config);
    const Result trained =
        run("--model '" + (folder.path() / "model").string() + "' --init random --steps 3 --device cpu " + data);
    INFO(trained.err);
    CHECK(trained.status == 0);
    return trained.out;
  };
  const std::string from_text = loss_of("--tokenizer '" + gpt2() + "' --data '" + rows + "'");
  CHECK(from_text.find("loss") != std::string::npos);
  CHECK(from_text == loss_of("--data '" + tokens + "'"));
}

TEST_CASE("tokenize reads the texts of the named keys, and reports unknown keys") {
  const TempFolder folder;
  const std::string rows = folder.write("rows.jsonl", R"({"body": "a b", "text": "c", "reward": 1})").string();
  const std::string command = "tokenize --tokenizer '" + gpt2() + "' --show --data '" + rows + "'";
  CHECK_THAT(refused(command), Contains("rows.jsonl:1: \"reward\" is not read"));
  const Result shown = run(command + " --text-keys body");
  INFO(shown.err);
  CHECK(shown.status == 0);
  CHECK(shown.out == run("tokenize --tokenizer '" + gpt2() + "' --show --data '" +
                         folder.write("body.jsonl", R"({"text": "a b"})").string() + "'")
                         .out);
  CHECK(shown.err == "data: these keys of rows are not read: \"reward\", \"text\"\n");
}

TEST_CASE("a tokenizer without a token that ends a text is named by its option") {
  const TempFolder folder;
  folder.write("tokenizer/vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  folder.write("tokenizer/merges.txt", "#version: 0.2\na b\n");
  folder.write("tokenizer/tokenizer_config.json", R"({"bos_token": null, "eos_token": null, "unk_token": null})");
  const std::string file = folder.write("a.txt", "ab").string();
  CHECK_THAT(refused("tokenize --tokenizer '" + (folder.path() / "tokenizer").string() + "' --data '" + file + "' --show"),
             Contains("--tokenizer: its files name no token that ends a text"));
}

TEST_CASE("a failed tokenize gives one line and status 2, and leaves no file") {
  const TempFolder folder;
  const auto file = [&](const std::string& name, const std::string& content) { return folder.write(name, content).string(); };
  const std::string text = file("a.txt", "text"), out = (folder.path() / "a.tokens").string();
  const std::string tokenizer = "tokenize --tokenizer '" + gpt2() + "' ";
  CHECK_THAT(refused("tokenize"), Contains("--tokenizer: is needed"));
  CHECK_THAT(refused(tokenizer + "--data '" + text + "'"), Contains("--out: is needed"));
  CHECK_THAT(refused("tokenize --tokenizer /nonesuch --show"), Contains("--tokenizer /nonesuch: there is no such file"));
  CHECK_THAT(refused("tokenize --tokenizer '" + folder.path().string() + "' --show"), Contains("holds neither tokenizer.json"));
  CHECK_THAT(refused("tokenize --tokenizer '" + text + "' --show"), Contains("a file of this kind cannot be read"));
  CHECK_THAT(refused(tokenizer + "--data '" + text + "' --out /dev/stdout"), Contains("is no regular file"));
  CHECK_THAT(refused(tokenizer + "--data '" + text + "' --out '" + text + "x'"), Contains("does not end in .tokens"));
  CHECK_THAT(refused(tokenizer + "--data /nonesuch.txt --out '" + out + "'"), Contains("there is no such file"));
  CHECK_THAT(refused(tokenizer + "--data '" + file("b.jsonl", "{\"text\":\"a\"}\n{\"text\":1}\n") + "' --out '" + out + "'"),
             Contains("b.jsonl:2: \"text\" is not a string"));
  CHECK_THAT(refused(tokenizer + "--data '" + file("c.jsonl", "{\"input_ids\":[1]}\n") + "' --out '" + out + "'"),
             Contains("c.jsonl:1: rows with \"input_ids\" have token ids already"));
  CHECK_THAT(refused(tokenizer + "--data '" + file("d.jsonl", "{\"text\":\"\"}\n") + "' --out '" + out + "'"),
             Contains("there is no text in it"));
  CHECK_THAT(refused(tokenizer + "--data '" + file("e.tokens", "x") + "' --out '" + out + "'"),
             Contains("holds tokens already"));
  CHECK_THAT(refused("--model tiny --steps 1 --tokenizer '" + gpt2() + "'"), Contains("but the model's vocabulary has"));
  CHECK(!std::filesystem::exists(out));
  for (const std::string& name : names_in(folder.path())) CHECK(name.find("partial") == std::string::npos);
}
