// A comment is a sentence or a noun phrase of the field. Fragments that open with "Of", "What" or "Whether", and after code
// with "what" or "whether", only make sense together with the code, so their number may fall but not grow.
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

// Lower this number whenever it exceeds the count that the test reports.
constexpr int most_fragments = 0;

constexpr std::array<std::string_view, 5> fragment_words{"Of ", "What ", "Whether ", "what ", "whether "};

// Returns the position of the line's first comment outside of strings and characters; npos where there is none.
std::size_t comment_begin(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\')
        ++i;
      else if (line[i] == quote)
        quote = 0;
    } else if (line[i] == '"' || (line[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(line[i - 1]))))) {
      quote = line[i];
    } else if (line.substr(i, 2) == "//" || line.substr(i, 2) == "/*") {
      return i;
    }
  }
  return line.npos;
}

std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" /<!*");
  return begin == text.npos ? std::string_view{} : text.substr(begin);
}

// Returns the first line of each comment. A comment that fills its line goes on in the next line if that is one, too.
std::vector<std::string> comment_openings(const std::string& text) {
  std::vector<std::string> openings;
  std::istringstream lines(text);
  bool in_comment = false;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = comment_begin(line);
    const bool fills_line = begin != line.npos && line.find_first_not_of(' ') == begin;
    if (begin != line.npos && !(fills_line && in_comment)) openings.emplace_back(without_blanks(line.substr(begin)));
    in_comment = fills_line && line.compare(begin, 2, "//") == 0;
  }
  return openings;
}

int fragments_in(const std::string& text) {
  int fragments = 0;
  for (const std::string& opening : comment_openings(text))
    for (const std::string_view word : fragment_words) fragments += opening.compare(0, word.size(), word) == 0;
  return fragments;
}

}  // namespace

TEST_CASE("no new comment opens with Of, What or Whether") {
  std::map<std::string, int> by_folder;
  int all = 0;
  for (const std::string& path : source_files()) {
    const int fragments = fragments_in(text_of(path));
    by_folder[path.substr(0, path.find('/'))] += fragments;
    all += fragments;
  }
  for (const auto& [folder, fragments] : by_folder) UNSCOPED_INFO(folder << ": " << fragments);
  UNSCOPED_INFO("write the new comment as a sentence, see CONTRIBUTING.md");
  CHECK(all <= most_fragments);
  CHECK(by_folder.size() > 10);
}

TEST_CASE("the reader finds the openings of comments") {
  const std::string sample =
      "// What it does.\n// Of this line only the block counts.\nint a;  // Of b\nconst char* c = \"// What\";  // whether d\n"
      "/* Whether e. */\n  /// Whether f\n  // g\n\n  // Of h\n";
  CHECK(comment_openings(sample) ==
        std::vector<std::string>{"What it does.", "Of b", "whether d", "Whether e. */", "Whether f", "Of h"});
  CHECK(fragments_in(sample) == 6);
}
