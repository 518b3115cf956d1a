#include "core/error.hpp"

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("an error's text is one line, whatever it quotes") {
  const auto text = [](const std::string& what) { return std::string(Error(ErrorKind::input, what).what()); };
  CHECK(text("x.json: tensor a: no dtype") == "x.json: tensor a: no dtype");
  CHECK(text("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(text("a\nb\r\tc\x1b[31m\x7f") == "a\\nb\\r\\tc\\x1b[31m\\x7f");
}
