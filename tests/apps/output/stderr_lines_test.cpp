// The allowed contents of a line on stderr.
#include "apps/output/stderr_lines.hpp"

#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("a line has no control characters, and nothing that is not UTF-8") {
  CHECK(one_line("a\nb\tc\rd\x1b[31m\x7f") == "a\\nb\\tc\\rd\\x1b[31m\\x7f");
  CHECK(one_line("naïve 数 😀") == "naïve 数 😀");
  CHECK(one_line("\xff \xc3 \xc0\x80 \xed\xa0\x80 \xf5\x80\x80\x80 \xc2\x9b") ==
        "\\xff \\xc3 \\xc0\\x80 \\xed\\xa0\\x80 \\xf5\\x80\\x80\\x80 \\xc2\\x9b");
  CHECK(one_line("") == "");
  CHECK(one_line(std::string("\0", 1)) == "\\x00");
}

TEST_CASE("long words and long lines lose their middle") {
  const std::string word(200, 'w');
  CHECK(one_line("a " + word + " b") == "a " + word + " b");
  CHECK(one_line("begin " + std::string(3'000'000, 'w') + " end") ==
        "begin " + std::string(150, 'w') + "..." + std::string(50, 'w') + " end");
  std::string words, letters;
  for (int i = 0; i < 1'000'000; ++i) words += "x ";
  CHECK(one_line("begin " + words + "end").size() == 1003);
  CHECK_THAT(one_line("begin " + words + "end"), Catch::Matchers::StartsWith("begin x") && Catch::Matchers::EndsWith("x end"));
  for (int i = 0; i < 300; ++i) letters += "ü";
  CHECK(one_line(letters).size() == 2 * 200 + 3);
}

TEST_CASE("an error is one line whatever was given") {
  CHECK(refused("--model \"$(printf 'a\\nb\\033[31m\\377')\"").find("--model a\\nb\\x1b[31m\\xff: ") == 0);
  CHECK(refused("\"$(printf 'a\\nb')\"").find("a\\nb: unknown command") == 0);
}
