#include "files/json.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using nlohmann::json;

namespace {

// Returns the error in which a text ends; empty if there is none.
std::string error_of(const std::string& text, const JsonLimits& limits = {}, const JsonLocation& place = {"x.json"}) {
  try {
    parse_json(text, place, limits);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

// Returns the text in pieces of this many bytes.
JsonPieces pieces_of(std::string_view text, std::size_t bytes) {
  return [text, bytes]() mutable {
    const std::string_view piece = text.substr(0, bytes);
    text.remove_prefix(piece.size());
    return piece;
  };
}

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

}  // namespace

TEST_CASE("JSON is read as nlohmann's own parser reads it, whole, by members, and in pieces of any size") {
  const std::string text = R"( {"a": [1, -2, 3.5e2, 18446744073709551615, true, false, null, [], {}],
    "b": {"c": "\u00e9\ud83d\ude00\n", "": {"d": [[{"e": 1}], 2]}}, "f": "text" } )";
  const std::string expected = json::parse(text).dump();
  CHECK(parse_json(text, {"x"}).dump() == expected);
  for (const std::size_t bytes : {1U, 2U, 7U, 1000U}) {
    Json members = Json::object();
    read_json_members(pieces_of(text, bytes), {"x"}, {}, [&](JsonMember&& member) {
      CHECK(member.line == (member.key == "a" ? 1 : 2));
      Json* const place = members.add(std::move(member.key));
      if (place) *place = std::move(member.value);
      return place != nullptr;
    });
    CHECK(members.dump() == expected);
  }
  for (const char* scalar : {"1", "\"a\"", "null", "[]"}) CHECK(parse_json(scalar, {"x"}).dump() == json::parse(scalar).dump());
}

TEST_CASE("invalid JSON is refused with file and line") {
  CHECK_THAT(error_of("{\"a\": 1,\n\"b\": }"), StartsWith("x.json:2: not valid JSON: syntax error"));
  CHECK_THAT(error_of("{\"a\": 1}\n\n x"), StartsWith("x.json:3: not valid JSON"));
  CHECK_THAT(error_of(""), StartsWith("x.json:1: not valid JSON"));
  CHECK_THAT(error_of("{\"a\": \"\xff\"}"), StartsWith("x.json:1: not valid JSON"));
  CHECK_THAT(error_of("{} // a"), StartsWith("x.json:1: not valid JSON"));
  CHECK(error_of("{} // a", {.comments = true}).empty());
  CHECK(error_of("{\"a\":\n 1e999}") == "x.json:2: \"a\": is too large a number; give a smaller one");
  CHECK_THAT(error_of("{]", {}, {"x: header", false}), StartsWith("x: header: not valid JSON"));
}

TEST_CASE("text after a NUL byte is not ignored") {
  for (const std::string& text : {std::string("{}\0", 3), std::string("{}\0{\"a\": 1}", 11), std::string("\0", 1)})
    CHECK_THAT(error_of(text), StartsWith("x.json:1: not valid JSON: it holds a NUL byte"));
  CHECK_THAT(error_of(std::string("{\"a\":\n\"\0\"}", 10)), StartsWith("x.json:2: "));
  // Written as an escape, it is a character.
  CHECK(parse_json("[\"\\u0000\"]", {"x"})[0].as_string() == std::string(1, '\0'));
}

TEST_CASE("keys that come twice are refused at every depth") {
  CHECK(error_of("{\"a\": 1,\n\"a\": 2}") == "x.json:2: key \"a\" appears twice; keep one");
  CHECK(error_of("[{\"a\": {\"b\": 1,\n\n\"\\u0062\": 2}}]") == "x.json:3: key \"b\" appears twice; keep one");
  CHECK(error_of("{\"a\": {\"b\": 1}, \"b\": {\"a\": 1}}").empty());
  std::set<std::string> keys;
  const auto take = [&](JsonMember&& member) { return keys.insert(member.key).second; };
  CHECK_THROWS_WITH(read_json_members(whole_text("{\"a\": 1, \"b\": 2,\n\"a\": 3}"), {"x"}, {}, take),
                    "x:2: key \"a\" appears twice; keep one");
  CHECK_THROWS_WITH(read_json_members(whole_text("[1]"), {"x"}, {}, take),
                    "x:1: not a JSON object; correct the file, or copy it again");
}

TEST_CASE("limits hold before memory is taken") {
  CHECK_THAT(error_of(std::string(100'000, '[')), Contains("nested deeper than 16 levels"));
  CHECK(error_of("[[1]]", {.depth = 2}).empty());
  CHECK_THAT(error_of("[[1]]", {.depth = 1}), Contains("nested deeper than 1 levels"));
  CHECK(error_of("[1,2,3]", {.values = 4}).empty());
  CHECK_THAT(error_of("[1,2,3]", {.values = 3}), Contains("more than 3 values"));
  CHECK(error_of("\"" + std::string(90, 'a') + "\"", {.token_bytes = 100}).empty());
  for (const std::string& text : {"\"" + std::string(200, 'a') + "\"", std::string(200, '1'), std::string(200, ' ') + "1"})
    CHECK_THAT(error_of(text, {.token_bytes = 100}), Contains("is longer than the 100 bytes allowed"));
  const auto take = [](JsonMember&&) { return true; };
  CHECK_NOTHROW(read_json_members(whole_text("{\"a\": [1, 2], \"b\": [1, 2]}"), {"x"}, {.values = 3}, take));
  CHECK_THROWS_WITH(read_json_members(whole_text("{\"a\": 1,\n\"b\": [1, 2, 3]}"), {"x"}, {.values = 3}, take),
                    "x:2: \"b\" has more than 3 values; shorten it");
}
