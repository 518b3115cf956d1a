// pipetrain generate prints text on stdout, and one line for any error.
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/byte_level_file.hpp"
#include "paths.hpp"
#include "pipetrain_program.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

const std::string golden_folders = test_data() + "/golden/";
const std::string fixtures = test_data() + "/data/tokenizers/fixtures/";
const std::string generate_llama = "generate --device cpu --model " + golden_folders + "llama3_tiny ";

std::vector<nlohmann::json> answer_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

TEST_CASE("generate writes the same text at every pp and tp, alone on stdout") {
  const Result one = run(generate_llama + "--prompt 'The river' --max-new-tokens 24");
  CHECK(one.status == 0);
  CHECK(one.out.size() > 1);
  CHECK(one.out.back() == '\n');
  CHECK(one.err.find("has no tokenizer: bytes are tokens") != std::string::npos);
  CHECK(one.err.find("24 tokens in ") != std::string::npos);
  for (const char* layout : {"--pp 2", "--pp 4 --tp 2", "--tp 4"})
    CHECK(run(generate_llama + "--prompt 'The river' --max-new-tokens 24 " + layout).out == one.out);
}

TEST_CASE("generate answers a file of prompts in its order, each as if it were alone, as text or as JSON") {
  const TempFolder folder;
  const std::string file = (folder.path() / "prompts.txt").string();
  write(file, "one\ntwo, which is longer\nthree\n");
  const auto answers =
      answer_lines(run(generate_llama + "--json --pp 2 --in-flight 2 --max-new-tokens 9 --prompts " + file).out);
  REQUIRE(answers.size() == 3);
  CHECK(answers[1]["prompt"] == "two, which is longer");
  CHECK(answers[1]["tokens"] == 9);
  CHECK(answers[1]["end"] == "length");
  std::string text;
  for (const auto& answer : answers) text += answer["text"].get<std::string>() + "\n";
  CHECK(run(generate_llama + "--max-new-tokens 9 --prompts " + file).out == text);
  const auto alone = answer_lines(run(generate_llama + "--json --max-new-tokens 9 --prompt 'two, which is longer'").out);
  CHECK(alone[0] == answers[1]);
}

TEST_CASE("generate puts messages in the template of the tokenizer's files, or says which option names one") {
  const TempFolder folder;
  const std::string added = test::special_token(256, "<|im_end|>");  // and no <|im_start|>, which identifies a template
  write(folder.path() / "tokenizer.json", test::byte_level_file("", added));
  const std::string rows = (folder.path() / "rows.jsonl").string(), chat = (folder.path() / "chat.jsonl").string();
  write(rows, R"({"messages": [{"role": "user", "content": "hi"}]})");
  const std::string plain = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  write(chat, nlohmann::json{{"prompt", plain}}.dump());
  const std::string generate = generate_llama + "--json --max-new-tokens 6 --tokenizer '" + folder.path().string() + "' ";
  const auto text_of = [&](const std::string& options) {
    const Result result = run(generate + options);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return answer_lines(result.out)[0]["text"];
  };
  const std::string chatml =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  write(folder.path() / "chat_template.jinja", chatml);
  const auto expected = text_of("--prompts " + chat);
  CHECK(text_of("--prompts " + rows) == expected);
  CHECK(text_of("--chat chatml --prompts " + rows) == expected);
  const std::string asked = generate + "--prompt hi ";
  CHECK(answer_lines(run(asked + "--chat auto").out)[0]["text"] == expected);
  CHECK(answer_lines(run(asked + "--chat '" + (folder.path() / "chat_template.jinja").string() + "'").out)[0]["text"] ==
        expected);
  CHECK_THAT(refused(asked + "--chat missing.jinja"),
             Catch::Matchers::Contains("is neither one of chatml, llama2, llama3 nor a file"));
  write(folder.path() / "chat_template.jinja", "{{ messages");
  CHECK_THAT(refused(generate + "--prompts " + rows),
             Catch::Matchers::StartsWith("--chat: ") && Catch::Matchers::Contains("chat_template.jinja:1: a tag does not end"));
  CHECK(text_of("--chat chatml --prompts " + rows) == expected);
  fs::remove(folder.path() / "chat_template.jinja");
  CHECK_THAT(refused(generate + "--prompts " + rows),
             Catch::Matchers::StartsWith("--chat: is needed for the \"messages\" of " + rows + ":1"));
}

TEST_CASE("generate continues rows by the adapters that they name, each as if it were the only one") {
  const TempFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  write(rows, R"({"prompt": "The sea", "adapter": "plain"}
{"prompt": "The sea", "adapter": "dora"}
{"prompt": "The sea", "adapter": "base"}
{"prompt": "A river", "adapter": "plain"}
)");
  const std::string plain = golden_folders + "adapters/llama3/adapter", dora = golden_folders + "adapters/llama3_dora/adapter";
  const std::string both = generate_llama + "--adapter plain=" + plain + " --adapter dora=" + dora + " --max-new-tokens 12 ";
  const auto answers = answer_lines(run(both + "--json --prompts " + rows).out);
  REQUIRE(answers.size() == 4);
  CHECK(answers[1]["adapter"] == "dora");
  const auto alone = [&](const std::string& options) { return run(generate_llama + "--max-new-tokens 12 " + options).out; };
  const auto text = [&](std::size_t i) { return answers[i]["text"].get<std::string>() + "\n"; };
  CHECK(text(0) == alone("--prompt 'The sea' --adapter " + plain));
  CHECK(text(1) == alone("--prompt 'The sea' --adapter it=" + dora));
  CHECK(text(2) == alone("--prompt 'The sea'"));
  CHECK(text(3) == alone("--prompt 'A river' --adapter " + plain));
  CHECK(text(0) != text(1));
  CHECK(text(0) != text(2));
  CHECK(run(both + "--json --pp 2 --in-flight 3 --prompts " + rows).out == run(both + "--json --prompts " + rows).out);
  CHECK(run("launch --nproc 2 " + both + "--json --pp 2 --prompts " + rows).out == run(both + "--json --prompts " + rows).out);
}

TEST_CASE("generate refuses adapters that have no names, or one name, and prompts that choose none of several") {
  const TempFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  const std::string plain = golden_folders + "adapters/llama3/adapter", given = generate_llama + "--prompt x ";
  const std::string both = "--adapter a=" + plain + " --adapter b=" + plain + " ",
                    from_rows = generate_llama + "--prompts " + rows;
  const auto refuses = [](const std::string& arguments, const std::string& part) {
    CHECK_THAT(refused(arguments), Catch::Matchers::Contains(part));
  };
  refuses(given + "--adapter no/such", "--adapter no/such: there is no folder \"no/such\"");
  refuses(given + "--adapter a=no/such", "there is no folder \"no/such\"");
  refuses(given + "--adapter " + plain + " --adapter b=" + plain,
          "several adapters need names, for prompts to choose by; give NAME=");
  refuses(given + "--adapter a=" + plain + " --adapter a=" + plain, "\"a\" names two adapters; choose another name");
  refuses(given + "--adapter base=" + plain, "\"base\" names the model without adapters; choose another name");
  refuses(given + both, "several adapters need prompts that name theirs; give rows {\"prompt\", \"adapter\"}");
  write(rows, "{\"prompt\": \"y\"}\n");
  refuses(from_rows + " " + both, rows + ":1: names no adapter; \"adapter\" is one of \"a\", \"b\", or \"base\"");
  write(rows, "{\"prompt\": \"y\", \"adapter\": \"c\"}\n");
  refuses(from_rows + " " + both, rows + ":1: no adapter is \"c\"; \"adapter\" is one of");
  refuses(from_rows, rows + ":1: no adapter is \"c\"; name adapters with --adapter NAME=DIR");
  write(rows, "{\"prompt\": \"y\", \"adapter\": 3}\n");
  refuses(from_rows, rows + ":1: \"adapter\" must be there, and be a string");
}

TEST_CASE("generate draws by seed") {
  const std::string draw = generate_llama + "--prompt x --max-new-tokens 16 --temperature 1.2 --top-k 100 --top-p 0.9 ";
  const Result one = run(draw + "--seed 1");
  CHECK(one.status == 0);
  CHECK(run(draw + "--seed 1 --pp 3").out == one.out);
  CHECK(run(draw + "--seed 2").out != one.out);
  CHECK(run(generate_llama + "--prompt x --max-new-tokens 16 --top-k 1").out ==
        run(generate_llama + "--prompt x --max-new-tokens 16").out);
}

TEST_CASE("generate ends at the tokens that the model's folder names") {
  const TempFolder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(golden_folders + "llama3_tiny/" + file, folder.path() / file);
  const std::string command =
      "generate --device cpu --json --prompt 'The river' --max-new-tokens 24 --model " + folder.path().string();
  const auto whole = answer_lines(run(command).out).at(0);
  // Any id may come first: all but one end the text, so it ends at once.
  nlohmann::json all = nlohmann::json::array();
  for (int id = 0; id < 320; ++id) all.push_back(id);
  write(folder.path() / "generation_config.json", nlohmann::json{{"eos_token_id", all}}.dump());
  const auto none = answer_lines(run(command).out).at(0);
  CHECK(none["tokens"] == 0);
  CHECK(none["text"] == "");
  CHECK(none["end"] == "end of text");
  CHECK(whole["end"] == "length");
  write(folder.path() / "generation_config.json", R"({"eos_token_id": 320})");
  CHECK(refused(command).find("generation_config.json: eos_token_id: 320 is no token id") != std::string::npos);
  write(folder.path() / "generation_config.json", R"({"eos_token_id": 2, )");
  CHECK(refused(command).find("generation_config.json:1: ") != std::string::npos);
}

TEST_CASE("generate reports the memory that a run would need") {
  const Result result = run(generate_llama + "--prompt x --max-new-tokens 50 --pp 2 --tp 2 --dry-run");
  CHECK(result.status == 0);
  CHECK(result.out.find("1 prompt of 1 at the same time, at most 51 positions each\n") == 0);
  CHECK(result.out.find("key-value cache") != std::string::npos);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 6);
}

TEST_CASE("a dry run over processes counts what goes between them") {
  const auto total = [](const Result& result) {
    CHECK(result.status == 0);
    double sum = 0;
    std::istringstream lines(result.out);
    std::string line;
    for (int skipped = 0; skipped < 2; ++skipped) std::getline(lines, line);
    while (std::getline(lines, line)) sum += std::stod(line.substr(line.rfind(' ')));
    return sum;
  };
  const std::string options = generate_llama + "--prompt x --max-new-tokens 50 --pp 2 --tp 2 --dry-run";
  const double alone = total(run(options));
  CHECK(alone > 0);
  CHECK(total(run("launch --nproc 4 " + options)) > alone);
}

TEST_CASE("generate refuses what is wrong in one line") {
  const TempFolder folder;
  const auto check = [](const std::string& arguments, const std::string& begin) {
    const std::string line = refused(arguments);
    INFO(line);
    CHECK(line.substr(0, begin.size()) == begin);
  };
  const std::string given = generate_llama + "--prompt x ";
  check("generate --prompt x", "--model: is needed");
  check("generate --model no/such --prompt x", "--model no/such: there is no such folder");
  check(generate_llama, "--prompt: is needed");
  check(generate_llama + "--prompt ''", "--prompt");
  check(given + "--prompts " + golden_folders + "README.md", "--prompts");
  check(given + "--temperature -1", "--temperature -1: ");
  check(given + "--temperature nan", "--temperature nan: ");
  check(given + "--top-p 0", "--top-p 0: ");
  check(given + "--top-p 1.5", "--top-p 1.5: ");
  check(given + "--top-k 0", "--top-k 0: ");
  check(given + "--temperature 0 --top-k 5", "--top-k 5: has no meaning at temperature 0");
  check(given + "--repetition-penalty 0", "--repetition-penalty 0: ");
  check(given + "--seed -1", "--seed -1: ");
  check(given + "--max-new-tokens 0", "--max-new-tokens 0: ");
  check(given + "--max-new-tokens 128", "--max-new-tokens 128: the longest prompt has 1 token, and the model 128 positions");
  check(generate_llama + "--prompt " + std::string(128, 'a'),
        "--prompt: the prompt has 128 tokens and leaves no position of the model's 128");
  check(given + "--chat alpaca", "--chat alpaca: ");
  check(given + "--chat chatml", "--chat chatml: a chat needs a tokenizer");
  check(given + "--system s", "--system s: needs --chat");
  check(given + "--tp 3", "--tp 3: ");
  check(given + "--pp 19",
        "--pp: the model's 16 attention and MLP blocks, two a layer, are too few for 19 stages; use 16 or fewer");
  check(given + "--precision fp8", "--precision fp8: ");
  check(given + "--tokenizer no/such", "--tokenizer no/such: ");
  check(given + "--beams 4", "--beams: ");
  check(given + "--tokenizer " + fixtures + "llama3.json", "--prompt: the tokenizer gives the id ");
  const std::string rows = (folder.path() / "rows.jsonl").string();
  write(rows, "{\"prompt\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n");
  check(generate_llama + "--prompts " + rows, "--tokenizer: is needed for the \"messages\" of " + rows + ":2");
  write(folder.path() / "config.json", "{}");
  check("generate --prompt x --model " + folder.path().string(), folder.path().string() + "/config.json: ");
  check(given + "--pp 2 --nproc 2", "--nproc 2: belongs to pipetrain launch");
  check(given + "--transport ucx", "--transport ucx: is between processes");
  check(given + "--nnodes 2 --node-rank 0 --master 127.0.0.1:29500", "--nnodes 2: 2 processes for 1 rank");
}

TEST_CASE("generate stops when nobody reads its text any more") {
  const Result result = run_program("/bin/sh", "-c '\"" + program_path() + "\" " + generate_llama +
                                                   "--prompt x --max-new-tokens 100 | head -c 1 > /dev/null'");
  CHECK(result.status == 0);
}

}  // namespace
}  // namespace pipetrain
