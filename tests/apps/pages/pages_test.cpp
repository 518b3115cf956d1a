// Every command in README.md, CONTRIBUTING.md and docs/ runs, or has at least options that exist.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/pages/page_commands.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using pages::Commands;

const fs::path root = source_folder();

std::vector<fs::path> pages_with_commands() {
  std::vector<fs::path> found = {root / "README.md", root / "CONTRIBUTING.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md" && entry.path().filename() != "options.md") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Returns the options that a command's help lists; all commands have --help and --version.
const std::set<std::string>& options_of(const std::string& command) {
  static std::map<std::string, std::set<std::string>> known;
  const auto [options, is_new] = known.try_emplace(command);
  if (is_new) {
    const Result help = run(command + " --help");
    REQUIRE(help.status == 0);
    for (std::size_t at = 0; (at = help.out.find("\n  --", at)) != std::string::npos; ++at) {
      const std::size_t begin = at + 3;
      options->second.insert(help.out.substr(begin, help.out.find_first_of(" \n", begin) - begin));
    }
    options->second.insert({"--help", "--version"});
  }
  return options->second;
}

const std::set<std::string> commands_without_help = {"help", "completion", "man"};  // and without options
const std::set<std::string> other_commands = {"launch",   "simulate", "tune",   "doctor", "watch",   "compare",
                                              "tokenize", "generate", "export", "replay", "relayout"};

// Returns the command of a call, and with launch the one that it starts. Empty: no command of pipetrain has the options.
std::string command_of(const std::vector<std::string>& call) {
  if (call.empty() || call[0] == "train" || call[0].starts_with("-")) return "train";
  if (commands_without_help.contains(call[0])) return "";
  if (call[0] != "launch") return other_commands.contains(call[0]) ? call[0] : "";
  for (const std::string& word : call)
    if (word == "generate" || word == "doctor") return word;
  return std::find(call.begin(), call.end(), "python") == call.end() ? "launch" : "";
}

void check_options(const std::vector<std::string>& call) {
  const std::string command = command_of(call);
  if (command.empty()) return;
  for (const std::string& word : call) {
    if (!word.starts_with("--")) continue;
    INFO(word << " of pipetrain " << command);
    const std::string option = word.substr(0, word.find('='));
    const bool known = options_of(command).contains(option) || (call[0] == "launch" && options_of("launch").contains(option));
    CHECK(known);
  }
}

// Adds the tokens of ChatML to the tokenizer and to the vocabulary of a model's folder.
void add_chat_tokens(const fs::path& folder) {
  auto tokenizer = nlohmann::json::parse(read_file(folder / "tokenizer.json")),
       config = nlohmann::json::parse(read_file(folder / "config.json"));
  int size = config["vocab_size"];
  for (const char* token : {"<|im_start|>", "<|im_end|>"})
    tokenizer["added_tokens"].push_back({{"id", size++}, {"content", token}, {"special", true}});
  config["vocab_size"] = size;
  std::ofstream(folder / "tokenizer.json") << tokenizer;
  std::ofstream(folder / "config.json") << config;
}

// Makes what readers of the pages bring: a model, an adapter of it, data, and the metrics of a run.
void make_inputs(const fs::path& folder) {
  const auto write = [&](const char* name, const std::string& row) {
    std::ofstream file(folder / name);
    for (int i = 0; i < 64; ++i) file << row << "\n";
  };
  const std::string text = "There was once a valley, and a river ran through it from the hills to the sea. ";
  write("text.txt", text + text + text + text);
  write("text.jsonl", R"({"text": ")" + text + text + text + R"("})");
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "1+1="}, {"role": "assistant", "content": "2"}]})");
  write("pairs.jsonl", R"({"prompt": "1+1=", "chosen": "2", "rejected": "3"})");
  fs::copy(root / "docs/tutorials/river", folder / "river");
  add_chat_tokens(folder / "river");
  const std::string inside = "cd '" + folder.string() + "' && '" + program_path() + "' ";
  const std::string steps = " --steps 4 --save-interval 2 --seq-len 64 --microbatch 1 --microbatches 1 --data ";
  const auto made = [&](const std::string& arguments) {
    const Result result = run_program("/bin/sh", "-c \"" + inside + arguments + "\"");
    INFO(arguments << ": " << result.err);
    REQUIRE(result.status == 0);
  };
  made("tokenize --tokenizer river --data text.txt --out text.tokens");
  made("--model river --init random --metrics run.jsonl --save whole" + steps + "text.txt");
  fs::rename(folder / "whole/model", folder / "model");
  fs::copy_file(folder / "river/tokenizer.json", folder / "model/tokenizer.json", fs::copy_options::overwrite_existing);
  made("--model model --lora-rank 2 --save adapted" + steps + "text.txt");
}

// Makes a folder that looks like the repository's root after ./dev build, with the programs that pages use in bin/.
void make_root(const fs::path& folder) {
  for (const char* name : {"data", "docs", "examples", "scripts", "tests"})
    fs::create_directory_symlink(root / name, folder / name);
  for (const char* name : {"bin", "build", "build-cuda", "home/.zfunc", "home/.config/fish/completions"})
    fs::create_directories(folder / name);
  for (const char* name : {"bin/pipetrain", "build/pipetrain", "build-cuda/pipetrain"})
    fs::create_symlink(root / "tests/apps/pages/pipetrain.sh", folder / name);
  fs::create_symlink(root / "tests/apps/pages/dev.sh", folder / "dev");
  if (run_program("/bin/sh", "-c 'command -v man'").status != 0) {  // then only its input counts
    std::ofstream(folder / "bin/man") << "#!/bin/sh\ncat > /dev/null\n";
    fs::permissions(folder / "bin/man", fs::perms::owner_all);
  }
}

Result run_in(const fs::path& folder, const fs::path& inputs, const Commands& commands) {
  std::ofstream(folder / "commands.sh") << "set -e\n" << commands.text;
  return run_program("/bin/bash", "-c 'cd \"" + folder.string() + "\" && exec timeout 300 bash commands.sh'",
                     "env PATH='" + (folder / "bin").string() + "':\"$PATH\" HOME='" + (folder / "home").string() +
                         "' PAGES_ROOT='" + root.string() + "' PAGES_PROGRAM='" + program_path() + "' PAGES_INPUTS='" +
                         inputs.string() + "'");
}

}  // namespace

TEST_CASE("every command of the pages has options that exist", "[pages]") {
  std::size_t calls = 0;
  for (const fs::path& page : pages_with_commands()) {
    const std::string text = read_file(page);
    for (const Commands& commands : pages::commands_of_page(text)) {
      if (!commands.error.empty()) continue;
      INFO(page.string() << ":" << commands.line << "\n" << commands.text);
      for (const auto& call : pages::program_calls(commands.text)) check_options(call), ++calls;
    }
    for (const std::string& command : pages::commands_in_prose(text)) {
      INFO(page.string() << ": `" << command << "`");
      for (const auto& call : pages::program_calls(command)) check_options(call), ++calls;
    }
  }
  CHECK(calls > 50);
}

TEST_CASE("every command of the pages runs that nothing marks", "[pages]") {
  const TempFolder inputs;
  make_inputs(inputs.path());
  std::size_t ran = 0;
  for (const fs::path& page : pages_with_commands()) {
    if (page.parent_path().filename() == "tutorials") continue;  // tutorials_test.cpp runs these as they are
    const TempFolder folder;
    make_root(folder.path());
    for (const Commands& commands : pages::commands_of_page(read_file(page))) {
      if (commands.marked()) continue;
      const Result result = run_in(folder.path(), inputs.path(), commands);
      INFO(page.string() << ":" << commands.line << "\n" << commands.text << result.out << result.err);
      if (commands.error.empty()) {
        CHECK(result.status == 0);
      } else {
        CHECK(result.status == 2);
        CHECK_THAT(result.err, Catch::Matchers::Contains(commands.error));
      }
      ++ran;
    }
  }
  CHECK(ran > 15);
}

TEST_CASE("a new command in a page is one that the tests run", "[pages]") {
  const std::string page =
      "Text.\n```\npipetrain --pp 2 \\\n  --steps 3\n```\n```sh hosts\nmpirun -n 2 pipetrain --pp 2 | tee log\n```\n"
      "```\n0 F0F1\nstage 0: F0\n```\n```\n$ pipetrain --tp 3\npipetrain: error: no\n$ ls\na  b\n```\nSee `pipetrain watch DIR`.\n";
  const auto found = pages::commands_of_page(page);
  REQUIRE(found.size() == 4);
  CHECK(found[0].text == "pipetrain --pp 2 \\\n  --steps 3\n");
  CHECK(found[0].line == 3);
  CHECK(!found[0].marked());
  CHECK(found[1].mark == "hosts");
  CHECK(found[2].text == "pipetrain --tp 3\n");
  CHECK(found[2].error == "pipetrain: error: no");
  CHECK(found[3].text == "ls\n");
  CHECK(found[3].error.empty());
  using Calls = std::vector<std::vector<std::string>>;
  CHECK(pages::program_calls(found[0].text) == Calls{{"--pp", "2", "--steps", "3"}});
  CHECK(pages::program_calls(found[1].text) == Calls{{"--pp", "2"}});
  CHECK(pages::commands_in_prose(page) == std::vector<std::string>{"pipetrain watch DIR"});
  CHECK_THROWS_WITH(pages::commands_of_page("```sh never\nls\n```\n"), Catch::Matchers::Contains("'never'"));
}

}  // namespace pipetrain
