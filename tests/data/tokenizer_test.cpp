// Tokenizers give the ids and the text that Hugging Face's library gives, and long words do not take long.
#include "data/tokenizers/tokenizer.hpp"

#include <algorithm>
#include <cstdlib>

#include "catch.hpp"
#include "paths.hpp"
#include "run_program.hpp"
#include "skip.hpp"
#include "tokenizer_files.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;

namespace {

std::string shown(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += std::to_string(id) + "=" + tokenizer.piece(id) + " ";
  return text.substr(0, 2000);
}

// Returns how many lines differ, and prints the first ones. `lines` receives their number.
int differences(const fs::path& folder, const std::string& name, int& lines, const char* extension = ".json") {
  const auto tokenizer = open_tokenizer(folder / (name + extension));
  const auto encoder = tokenizer->encoder();
  test::RecordFile line_file(folder / "lines.bin"), id_file(folder / (name + ".ids")), text_file(folder / (name + ".text"));
  int wrong = 0;
  for (lines = 0; !line_file.at_end(); ++lines) {
    const std::string line = line_file.text(), text = text_file.text();
    const std::vector<std::int32_t> expected = id_file.ids();
    std::vector<std::int32_t> ids;
    encoder->encode(line, SpecialTokens::keep, ids);
    const std::string decoded = tokenizer->decode(expected, SpecialTokens::leave_out);
    if (ids == expected && decoded == text) continue;
    if (++wrong <= 3) {
      UNSCOPED_INFO(name << ", line " << lines << ": " << line.substr(0, 300));
      if (ids != expected) UNSCOPED_INFO("ids     " << shown(*tokenizer, ids) << "\nwanted  " << shown(*tokenizer, expected));
      if (decoded != text) UNSCOPED_INFO("decoded " << decoded << "\nwanted  " << text);
    }
  }
  return wrong;
}

fs::path fixtures() { return fs::path(test_data()) / "data/tokenizers/fixtures"; }

// Returns a Python with the library: the one that the variable names, the system's, or one in an environment of its
// own; empty if there is none.
std::string python_with_tokenizers(const fs::path& folder) {
  const auto has = [](const std::string& python) {
    return std::system(("'" + python + "' -c 'import tokenizers' > /dev/null 2>&1").c_str()) == 0;
  };
  const char* named = std::getenv("PIPETRAIN_PYTHON");
  for (const std::string& python : {std::string(named != nullptr ? named : "python3"), std::string("python3")})
    if (has(python)) return python;
  const std::string own = (folder / "environment/bin/python3").string();
  const std::string make = "python3 -m venv '" + (folder / "environment").string() + "' > /dev/null 2>&1 && '" + own +
                           "' -m pip install -q 'tokenizers>=0.20' > /dev/null 2>&1";
  return std::system(make.c_str()) == 0 && has(own) ? own : "";
}

}  // namespace

TEST_CASE("seven tokenizers give what Hugging Face's library gave for the lines in the repository") {
  for (const std::string& name : test::tokenizer_shapes()) {
    int lines = 0;
    CHECK(differences(fixtures(), name, lines) == 0);
    CHECK(lines >= 300);
  }
}

TEST_CASE("a tokenizer.model gives what sentencepiece's own Python gave for the lines in the repository") {
  int lines = 0;
  CHECK(differences(fixtures(), "sentencepiece", lines, ".model") == 0);
  CHECK(lines >= 300);
  const auto tokenizer = open_tokenizer(fixtures() / "sentencepiece.model");
  CHECK(tokenizer->end_of_text() == tokenizer->find("</s>"));
  CHECK(tokenizer->decode(tokenizer->encode("two words"), SpecialTokens::keep) == "<s>two words");
  CHECK(!tokenizer->find("no such piece"));
}

TEST_CASE("seven tokenizers give what Hugging Face's library gives for 100,000 lines", "[slow][hugging-face]") {
  const TempFolder folder;
  const char* made = std::getenv("PIPETRAIN_TOKENIZER_LINES");  // a folder that hugging_face.py has written
  const fs::path out = made != nullptr ? fs::path(made) : folder.path() / "out";
  if (made == nullptr) {
    const std::string python = python_with_tokenizers(folder.path());
    if (python.empty()) return test::skip("Hugging Face's tokenizers (PyPI) cannot be had here");
    const Result result = run_program(python, "'" + (fixtures().parent_path() / "hugging_face.py").string() + "' '" +
                                                  out.string() + "' --lines 100000 --vocabulary 8000");
    INFO(result.err);
    REQUIRE(result.status == 0);
  }
  for (const std::string& name : test::tokenizer_shapes()) {
    int lines = 0;
    CHECK(differences(out, name, lines) == 0);
    CHECK(lines >= 100'000);
  }
}

TEST_CASE("a word of a megabyte is tokenized like others") {
  for (const std::string& name : test::tokenizer_shapes()) {
    const auto tokenizer = open_tokenizer(fixtures() / (name + ".json"));
    for (const std::string unit : {"a", "ab", "\xC3\xA9", "\xF0\x9F\x98\x80", " ", "\xFF", "\xCC\x81\xCC\xA7", "<", "1"}) {
      std::string text;
      while (text.size() < (1 << 20)) text += unit;
      const std::vector<std::int32_t> ids = tokenizer->encode(text);
      INFO(name << " " << unit);
      CHECK(ids.size() <= text.size() + 3);  // <s>, a space and </s>
      CHECK(std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= 0 && id < tokenizer->vocabulary(); }));
    }
  }
}
