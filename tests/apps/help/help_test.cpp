// Pages of help by topic and option, completion in the shells themselves, and the manual page.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "apps/help/command_summary.hpp"
#include "apps/help/completion.hpp"
#include "apps/help/help_topic.hpp"
#include "apps/help/man_page.hpp"
#include "apps/help/overview.hpp"
#include "apps/options/option_table.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "skip.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

bool has_program(const std::string& name) { return std::system(("command -v " + name + " >/dev/null").c_str()) == 0; }

// Returns what bash completes after these words, the last of which is unfinished, in one line.
std::string completed_by_bash(const std::vector<std::string>& words) {
  const TempFolder folder;
  std::string line;
  for (const std::string& word : words) line += " '" + word + "'";
  const auto script =
      folder.write("try.sh", "source <('" + program_path() + "' completion bash)\nCOMP_WORDS=(" + line +
                                 ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_pipetrain\necho \"${COMPREPLY[*]}\"\n");
  const Result result = run_program("/bin/bash", script.string());
  CHECK(result.err.empty());
  return result.out.substr(0, result.out.find('\n'));
}

}  // namespace

TEST_CASE("help on a topic shows the options that belong together, and the page that explains them") {
  for (const std::string arguments : {"--help memory", "help memory", "train --help memory", "train -h memory"}) {
    INFO(arguments);
    const Result page = run(arguments);
    CHECK(page.status == 0);
    for (const char* option : {"--zero ", "--offload ", "--recompute "}) CHECK_THAT(page.out, Contains(option));
    CHECK_THAT(page.out, Contains("Explained in docs/memory.md."));
    CHECK(page.out.find("--seed") == std::string::npos);
  }
  CHECK_THAT(run("simulate --help schedules").out, Contains("--schedule "));
}

TEST_CASE("every topic has options of train and a page in docs") {
  const CommandSummary& train = *find_command_summary("train");
  for (const std::string& topic : help_topics()) {
    INFO(topic);
    const std::string page = help_page(train, topic);
    const std::string named = page.substr(page.rfind("docs/"));
    CHECK(std::filesystem::exists(source_folder() + "/" + named.substr(0, named.find(".md")) + ".md"));
    CHECK(find_command_summary(topic) == nullptr);  // `pipetrain help` takes either
  }
}

TEST_CASE("help on an option shows it alone, and a word that is neither is refused with the nearest") {
  const Result zero = run("--help zero");
  CHECK_THAT(zero.out, Contains("  --zero 0|1|2|3"));
  CHECK(zero.out.find("--offload") == std::string::npos);
  CHECK_THAT(run("simulate --help jitter").out, Contains("  --jitter"));
  CHECK(refused("--help memroy") == "--help memroy: train has no such topic or option; did you mean memory?");
}

TEST_CASE("the first page shows five commands, fits in a terminal, and names every topic and command") {
  const std::string page = overview();
  CHECK(std::count(page.begin(), page.end(), '\n') <= 24);
  for (std::size_t begin = 0; begin < page.size(); begin = page.find('\n', begin) + 1)
    CHECK(page.find('\n', begin) - begin <= 100);
  std::size_t examples = 0;
  for (std::size_t at = page.find("\n  pipetrain "); at != std::string::npos; at = page.find("\n  pipetrain ", at + 1))
    ++examples;
  CHECK(examples >= 5);
  for (const std::string& topic : help_topics()) CHECK_THAT(page, Contains(topic));
  for (const CommandSummary& command : command_summaries()) CHECK_THAT(page, Contains(command.name));
  CHECK_THAT(train_help(), StartsWith(page));
}

TEST_CASE("in a terminal pipetrain alone prints its first page, and with options in the environment it trains") {
  if (!has_program("script")) return test::skip("needs script of util-linux, which makes a terminal");
  const auto in_terminal = [](const std::string& variables) {
    return run_program("/usr/bin/script", "-qec \"env " + variables + " '" + program_path() + "'\" /dev/null");
  };
  CHECK_THAT(in_terminal("").out, StartsWith("pipetrain [train] OPTIONS\r\n") && !Contains("--seed"));
  CHECK_THAT(in_terminal("PIPETRAIN_STEPS=1").out, Contains("loss"));
}

TEST_CASE("bash completes commands, options, choices and files") {
  CHECK(completed_by_bash({"pipetrain", "simu"}) == "simulate");
  CHECK(completed_by_bash({"pipetrain", "--microbatche"}) == "--microbatches");
  CHECK(completed_by_bash({"pipetrain", "--zero", ""}) == "0 1 2 3");
  CHECK(completed_by_bash({"pipetrain", "simulate", "--jit"}) == "--jitter");
  CHECK(completed_by_bash({"pipetrain", "completion", ""}).find("bash zsh fish") == 0);
  CHECK(completed_by_bash({"pipetrain", "--steps", ""}).empty());
  const TempFolder folder;
  const std::string file = folder.write("corpus.jsonl", "").string();
  CHECK(completed_by_bash({"pipetrain", "--data", file.substr(0, file.size() - 3)}) == file);
  CHECK(completed_by_bash({"pipetrain", "watch", file.substr(0, file.size() - 3)}) == file);
}

TEST_CASE("each shell reads its script, which names every option of every command") {
  for (const std::string& shell : completed_shells()) {
    const std::string script = completion_script(shell);
    for (const CommandSummary& command : command_summaries())
      for (const OptionSpec& row : command.options()) CHECK_THAT(script, Contains(row.name));
    if (!has_program(shell)) continue;
    const TempFolder folder;
    const auto file = folder.write("script", script);
    INFO(shell);
    CHECK(run_program(shell, "-n " + file.string()).status == 0);
  }
  CHECK(refused("completion tcsh") == "completion: tcsh: unknown shell; write pipetrain completion bash|zsh|fish");
  CHECK(refused("completion") == "completion: takes one shell; write pipetrain completion bash|zsh|fish");
}

TEST_CASE("the manual page has every command and option, and no line that troff would take for a request") {
  const std::string page = man_page();
  CHECK_THAT(page, StartsWith(".TH PIPETRAIN 1"));
  std::set<std::string> requests;
  for (std::size_t begin = 0; begin < page.size(); begin = page.find('\n', begin) + 1)
    if (page[begin] == '.') requests.insert(page.substr(begin, page.find_first_of(" \n", begin) - begin));
  CHECK(requests == std::set<std::string>{".TH", ".SH", ".SS", ".TP", ".B"});
  CHECK_THAT(page, Contains("\\fB\\-\\-microbatches\\fR"));
  CHECK_THAT(page, Contains(".SH OPTIONS OF SIMULATE\n"));
  CHECK(run("man").out == page);
  CHECK(refused("man page") == "man: page: takes nothing; write pipetrain man");
}
