// The results of runs on data with --pack, --text-keys and --chat-template.
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "data/byte_level_file.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string small_data = "--device cpu --threads 1 --layers 2 --steps 2 --microbatches 2 --shuffle off ";

struct Step {
  double loss = 0, grad_norm = 0;
  std::int64_t tokens = 0;
  bool operator==(const Step&) const = default;
};

// Returns the steps of a run on these lines as a .jsonl file.
std::vector<Step> trained_rows(const std::vector<std::string>& rows, const std::string& options) {
  const TempFolder folder;
  const auto data = folder.path() / "rows.jsonl", metrics = folder.path() / "metrics.jsonl";
  std::ofstream file(data);
  for (const std::string& row : rows) file << row << "\n";
  file.close();
  const Result result = run(small_data + options + " --data '" + data.string() + "' --metrics '" + metrics.string() + "'");
  INFO(options << ": " << result.err);
  REQUIRE(result.status == 0);
  std::vector<Step> steps;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line);
    CHECK(step.at("input_wait").get<double>() >= 0);
    steps.push_back({step.at("loss"), step.at("grad_norm"), step.at("tokens")});
  }
  REQUIRE(steps.size() == 2);
  return steps;
}

std::vector<std::string> rows_of(int count, const std::function<json(int)>& row) {
  std::vector<std::string> rows;
  for (int i = 0; i < count; ++i) rows.push_back(row(i).dump());
  return rows;
}

std::string sum(int i) { return std::to_string(i) + "+" + std::to_string(7 * i) + "="; }

}  // namespace

TEST_CASE("isolated documents train alike on every pipeline, and not like documents that see each other") {
  const auto rows = rows_of(40, [](int i) { return json{{"text", "A text, number " + sum(i)}}; });
  const std::string length = "--seq-len 48 ";
  const auto isolated = trained_rows(rows, length + "--pack isolated");
  CHECK(trained_rows(rows, length + "--pack isolated --pp 2") == isolated);
  CHECK(trained_rows(rows, length + "--pack isolated --pp 2 --schedule zb-v") == isolated);
  const auto documents = trained_rows(rows, length + "--pack documents");
  CHECK(trained_rows(rows, length) == documents);
  CHECK(isolated[0].loss != documents[0].loss);
  CHECK(isolated[0].tokens < documents[0].tokens);  // a document's first token is not counted
}

TEST_CASE("each text is a sample of its own where nothing is packed") {
  const auto rows = rows_of(8, [](int i) { return json{{"text", "Text " + sum(100 + i)}}; });
  const auto steps = trained_rows(rows, "--pack none");
  CHECK(steps[0].tokens == 2 * std::ssize("Text " + sum(100)));  // all but the first byte, and the end of the text
  CHECK(trained_rows(rows, "--pack none --pp 2") == steps);
  CHECK(refused(small_data + "--pack none") ==
        "--pack none: the built-in text is one document, too long for a sample; pack documents");
}

TEST_CASE("texts are read with the tokenizer in the model's folder, or as bytes with a note that says why") {
  const TempFolder folder;
  for (const auto& file : std::filesystem::directory_iterator(test_data() + "/golden/llama3_tiny"))
    std::filesystem::copy(file.path(), folder.path());
  const std::string data = folder.write("rows.txt", "a text that has more than enough tokens for one sample").string();
  const std::string options = "--model '" + folder.path().string() +
                              "' --init random --device cpu --threads 1 --microbatches 1 --steps 1 --seq-len 4 --data '" +
                              data + "'";
  CHECK_THAT(run(options).err, !Contains("tokenizer"));
  folder.write("tokenizer.json", test::byte_level_file());
  const Result beside = run(options);
  CHECK(beside.status == 0);
  CHECK_THAT(beside.err, Contains("texts are read with the tokenizer in " + folder.path().string()));
  folder.write("tokenizer.json", "{\"model\": 3}");
  const Result damaged = run(options);
  CHECK(damaged.status == 0);
  CHECK_THAT(damaged.err, Contains("is not used (") && Contains("texts are read as bytes; name another tokenizer"));
}

TEST_CASE("messages are learned in the template of the tokenizer's files, or in that of a file that is named") {
  const TempFolder folder;
  folder.write("tokenizer.json", test::byte_level_file());
  const auto run_with = [&](const std::string& chat_template, const std::string& row, const std::string& options = "") {
    folder.write("tokenizer_config.json", json{{"chat_template", chat_template}}.dump());
    const std::string data = folder.write("rows.jsonl", row + "\n").string();
    return run("--model '" + test_data() +
               "/golden/llama3_tiny' --init random --device cpu --threads 1 --microbatches 1 --steps 1 --tokenizer '" +
               folder.path().string() + "' --data '" + data + "' " + options);
  };
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})";
  const std::string other = "{% for m in messages %}{{ '### ' + m['content'] }}{% endfor %}";
  const Result refused = run_with("{% for", chat);
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("error: --chat-template: ") && Contains("tokenizer_config.json:1: "));
  CHECK(run_with(other, chat).status == 0);
  const std::string file = folder.write("own.jinja", other).string();
  CHECK(run_with("{% for", chat, "--chat-template '" + file + "'").status == 0);
  CHECK(run_with(other, chat, "--chat-template chatml").status == 0);
  CHECK(run_with(other, R"({"text": "a text that has more than enough tokens for one sample"})", "--seq-len 4").status == 0);
}

TEST_CASE("the texts of several keys are one document") {
  const auto pairs = rows_of(60, [](int i) {
    return json{{"first", "Add " + sum(i)}, {"second", std::to_string(8 * i)}, {"id", i}};
  });
  const auto texts = rows_of(60, [](int i) { return json{{"text", "Add " + sum(i) + "\n" + std::to_string(8 * i)}}; });
  const auto steps = trained_rows(texts, "--seq-len 32");
  CHECK(trained_rows(pairs, "--seq-len 32 --text-keys first,second") == steps);
  CHECK(trained_rows(pairs, "--seq-len 32 --text-keys first,second --pp 2") == steps);
  CHECK(trained_rows(pairs, "--seq-len 32 --text-keys second,first") != steps);
}

TEST_CASE("a chat is learned in the template that is named, and only its answers count") {
  const auto rows = rows_of(8, [](int i) {
    return json{
        {"messages",
         {{{"role", "user"}, {"content", sum(100 + i)}}, {{"role", "assistant"}, {"content", std::to_string(8 * (100 + i))}}}}};
  });
  const auto chatml = trained_rows(rows, "--chat-template chatml");
  CHECK(chatml[0].tokens == 2 * std::ssize(std::string("800<|im_end|>")));
  CHECK(trained_rows(rows, "--chat-template chatml --pp 2") == chatml);
  CHECK(trained_rows(rows, "--chat-template llama2")[0].tokens == 2 * std::ssize(std::string(" 800 </s>")));
  const TempFolder folder;
  const auto data = folder.path() / "chats.jsonl";
  std::ofstream(data) << rows[0] << "\n";
  CHECK_THAT(refused(small_data + "--data '" + data.string() + "'"),
             Contains("chats.jsonl:1") && Contains("name the chat template"));
}

TEST_CASE("a run skips and counts the steps without a label, and continues after them") {
  const TempFolder folder;
  const std::vector<int> learned(33, 5);
  std::vector<int> last_only(33, -100);
  last_only.back() = 5;
  std::string rows;
  for (const auto& labels : {learned, last_only, learned})
    rows += json{{"input_ids", learned}, {"labels", labels}}.dump() + "\n";
  const std::string save = (folder.path() / "run").string(), metrics = (folder.path() / "m.jsonl").string();
  const std::string command =
      "--device cpu --threads 1 --layers 2 --microbatches 1 --microbatch 1 --shuffle off --pack documents "
      "--seq-len 16 --save-interval 1 --log-interval 1 --data '" +
      folder.write("rows.jsonl", rows).string() + "' --save '" + save + "' --metrics '" + metrics + "'";
  CHECK(run(command + " --steps 4 --dry-run").status == 0);
  const Result first = run(command + " --steps 4");
  INFO(first.err);
  CHECK(first.status == 0);
  CHECK_THAT(first.err, Contains("step 3/4  skipped  no label") &&
                            Contains("\nstep 3: no label of its samples counts, so the step is skipped:") &&
                            !Contains("step 4: no label") && Contains("\n2 steps of this run skipped, because no label"));
  const Result rest = run(command + " --steps 6 --resume");
  INFO(rest.err);
  CHECK(rest.status == 0);
  std::ifstream lines(metrics);
  std::string skipped;
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line);
    CHECK(step.at("loss").is_null() == (step.at("tokens") == 0));
    skipped += step.at("skipped") == true ? '-' : 'x';
  }
  CHECK(skipped == "xx--xx");
}

TEST_CASE("unknown keys of rows are named in one note") {
  const TempFolder folder;
  const std::string data = folder
                               .write("rows.jsonl", R"({"text": "some text to learn", "id": 1, "mood": "good"})"
                                                    "\n"
                                                    R"({"text": "and more of it, as it is", "score": null, "mood": "bad"})"
                                                    "\n")
                               .string();
  const std::string command =
      "--device cpu --threads 1 --layers 2 --microbatches 1 --microbatch 1 --steps 1 --seq-len 8 --data '";
  const Result result = run(command + data + "'");
  CHECK(result.status == 0);
  const std::string note = "data: these keys of rows are not read: \"mood\"\n";
  const auto at = result.err.find(note);
  REQUIRE(at != std::string::npos);
  CHECK(result.err.find(note, at + 1) == std::string::npos);
  const std::string scored = folder.write("scored.jsonl", R"({"text": "some text to learn", "reward": 3})").string();
  CHECK_THAT(refused(command + scored + "'"), Contains("scored.jsonl:1: \"reward\" is not read"));
  CHECK(run(command + scored + "' --text-keys text").status == 0);
}
