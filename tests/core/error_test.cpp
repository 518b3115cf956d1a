#include "core/error.hpp"

#include <type_traits>

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("an error's text is one line, whatever it quotes") {
  const auto text = [](const std::string& what) { return std::string(Error(ErrorKind::input, what).what()); };
  CHECK(text("x.json: tensor a: no dtype") == "x.json: tensor a: no dtype");
  CHECK(text("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(text("a\nb\r\tc\x1b[31m\x7f") == "a\\nb\\r\\tc\\x1b[31m\\x7f");
}

TEST_CASE("an error about a setting names it and its value, and reads as a line") {
  const Error error(ErrorKind::input, {"tp", "3"}, "8 attention heads cannot be split over 3 devices; use 1, 2, 4 or 8");
  CHECK(std::string(error.what()) == "tp 3: 8 attention heads cannot be split over 3 devices; use 1, 2, 4 or 8");
  const Error copy = error;
  REQUIRE(copy.setting() != nullptr);
  CHECK(copy.setting()->name == "tp");
  CHECK(copy.setting()->value == "3");
  CHECK(std::string(Error(ErrorKind::input, {"seq-len", ""}, "give it").what()) == "seq-len: give it");
}

TEST_CASE("an error that is about no setting has none, and copies of errors cannot throw") {
  CHECK(Error(ErrorKind::numeric, "the loss is NaN").setting() == nullptr);
  CHECK(std::is_nothrow_copy_constructible_v<Error>);
}

TEST_CASE("the copies of an error share its setting, which lives as long as one of them") {
  const Setting* shared = nullptr;
  Error kept(ErrorKind::internal, "another");
  {
    const Error first(ErrorKind::input, {"tp", "3"}, "use 2");
    Error second = first;
    kept = second;
    second = Error(ErrorKind::input, {"pp", "5"}, "use 4");
    CHECK(second.setting()->name == "pp");
    shared = first.setting();
  }
  CHECK(kept.setting() == shared);
  CHECK(kept.setting()->value == "3");
  const Error& itself = kept;
  kept = itself;
  CHECK(kept.setting()->name == "tp");
}
