// docs/options.md tells every option of every command, with its default: it is what --help prints. What does not work together
// is printed by the program too.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "catch.hpp"
#include "paths.hpp"
#include "skip.hpp"
#include "structure/source_files.hpp"

namespace fs = std::filesystem;
using pipetrain::structure::text_of;

namespace {

const std::string program = pipetrain::build_folder() + "/pipetrain";

std::string printed_by(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  REQUIRE(pipe);
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) text.append(buffer, got);
  return text;
}

std::string help_of(const std::string& command) { return printed_by("'" + program + "' " + command + " --help"); }

std::set<std::string> options_in_text(const std::string& text, const std::string& pattern) {
  const std::regex searched(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), searched), end; match != end; ++match) found.insert((*match)[1]);
  return found;
}

// Returns the text of the pages that people wrote.
std::string other_pages() {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(pipetrain::source_folder() + "/docs"))
    if (entry.path().extension() == ".md" && entry.path().filename() != "options.md")
      text += text_of(fs::relative(entry.path(), pipetrain::source_folder()).string());
  return text;
}

// Returns the commands that the program's own help lists.
std::set<std::string> all_commands() {
  const std::string help = help_of("");
  const std::size_t begin = help.find("\nOther commands");
  REQUIRE(begin != std::string::npos);
  std::set<std::string> commands = options_in_text(help.substr(begin, help.find("\n\n", begin) - begin), "([a-z]+)\\s+\\(");
  CHECK(commands.size() >= 10);
  commands.insert("train");
  return commands;
}

}  // namespace

TEST_CASE("the page of options is what the program prints of itself") {
  if (!fs::exists(program)) return pipetrain::test::skip("the program is not built");
  INFO("write it again: scripts/options_page.sh build/pipetrain >docs/options.md");
  CHECK(text_of("docs/options.md") ==
        printed_by("'" + pipetrain::source_folder() + "/scripts/options_page.sh' '" + program + "'"));
}

TEST_CASE("every command is on the page of options, and every option is explained on another page") {
  if (!fs::exists(program)) return pipetrain::test::skip("the program is not built");
  const std::string page = text_of("docs/options.md"), others = other_pages();
  for (const std::string& command : all_commands()) {
    INFO(command);
    CHECK(page.find("\n## " + command + "\n") != std::string::npos);
    const std::set<std::string> options = options_in_text(help_of(command), "\n  --([a-z0-9-]+)");
    CHECK(options.size() > 1);
    for (const std::string& option : options) {
      if (option == "help" || option == "version") continue;
      INFO(command << " --" << option);
      CHECK(std::regex_search(others, std::regex("--" + option + "(?![a-z0-9-])")));
    }
  }
}

TEST_CASE("docs/training.md and README.md say what does not work together as the program prints it") {
  if (!fs::exists(program)) return pipetrain::test::skip("the program is not built");
  INFO("write them again: scripts/combinations_page.sh build/pipetrain");
  const std::string page = printed_by("'" + program + "' doctor --combinations");
  const std::size_t end_of_list = page.find("\n\n");
  REQUIRE(end_of_list != std::string::npos);
  const std::string not_built = page.substr(0, end_of_list + 1), table = page.substr(end_of_list + 2);
  CHECK(not_built.size() > 100);
  CHECK(table.size() > 1000);
  CHECK(text_of("docs/training.md").find("-->\n" + table + "<!-- end of combinations -->\n") != std::string::npos);
  CHECK(text_of("README.md").find("-->\n" + not_built + "<!-- end of not built -->\n") != std::string::npos);
}
