#include "files/json_value.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "catch.hpp"
#include "files/json.hpp"
#include "files/json_misuse.hpp"

using namespace pipetrain;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// One document twice: as ours and as nlohmann's.
struct Twice {
  Json ours;
  ordered_json theirs;
};

class Documents {
 public:
  explicit Documents(unsigned seed) : random_(seed) {}

  std::uint64_t up_to(std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(random_); }
  std::uint64_t bits() { return random_(); }

  // Bytes that need not be UTF-8.
  std::string bytes() {
    std::string text;
    for (std::uint64_t left = up_to(12); left > 0; --left) text += static_cast<char>(up_to(255));
    return text;
  }
  std::string text() {
    static const std::vector<std::string> parts = {"a",
                                                   "B7",
                                                   "\"",
                                                   "\\",
                                                   "/",
                                                   "\n",
                                                   "\t",
                                                   "\x01",
                                                   "\x7f",
                                                   std::string(1, '\0'),
                                                   "\xC3\xA9",
                                                   "\xE2\x96\x81",
                                                   "\xEF\xBF\xBD",
                                                   "\xF0\x9F\x98\x80",
                                                   " "};
    std::string text;
    for (std::uint64_t left = up_to(6); left > 0; --left) text += parts[up_to(parts.size() - 1)];
    return text;
  }
  Twice document(int depth) {
    switch (up_to(depth > 0 ? 8 : 6)) {
      case 0:
        return {nullptr, nullptr};
      case 1:
        return {true, true};
      case 2:
        return same(static_cast<std::int64_t>(bits()));
      case 3:
        return same(bits());
      case 4:
        return same(static_cast<double>(up_to(1000)) / 8);
      case 5:
        return same(real());
      case 6:
        return same(text());
      case 7:
        return array(depth);
      default:
        return object(depth);
    }
  }
  double real() {
    const auto value = std::bit_cast<double>(bits());
    return value - value == 0 ? value : 0.1;
  }

 private:
  template <class Value>
  static Twice same(const Value& value) {
    return {value, value};
  }
  Twice array(int depth) {
    Twice made{Json::array(), ordered_json::array()};
    for (std::uint64_t left = up_to(4); left > 0; --left) {
      auto [ours, theirs] = document(depth - 1);
      made.ours.push_back(std::move(ours));
      made.theirs.push_back(std::move(theirs));
    }
    return made;
  }
  Twice object(int depth) {
    Twice made{Json::object(), ordered_json::object()};
    for (std::uint64_t left = up_to(5); left > 0; --left) {
      const std::string key = text();
      auto [ours, theirs] = document(depth - 1);
      made.ours[key] = std::move(ours);
      made.theirs[key] = std::move(theirs);
    }
    return made;
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("JSON is written as nlohmann's library writes it, in both orders of keys") {
  Documents documents(1);
  for (int round = 0; round < 2000; ++round) {
    const auto [ours, theirs] = documents.document(4);
    const json by_key = json::parse(theirs.dump());
    for (const int indent : {-1, 0, 1, 2}) {
      CHECK(ours.dump({.indent = indent, .order = JsonOrder::as_added}) == theirs.dump(indent));
      CHECK(ours.dump({.indent = indent}) == by_key.dump(indent));
      CHECK(ours.dump({.indent = indent, .ascii = true}) == by_key.dump(indent, ' ', true));
    }
  }
}

TEST_CASE("a written value is read back unchanged") {
  Documents documents(2);
  for (int round = 0; round < 2000; ++round) {
    const Json written = documents.document(4).ours;
    const std::string text = written.dump();
    const Json read = parse_json(text, {"x"});
    CHECK(read == written);
    CHECK(read.dump() == text);
  }
}

TEST_CASE("numbers have the shortest text that gives them back") {
  Documents documents(3);
  for (int round = 0; round < 20'000; ++round) {
    const double number = documents.real();
    const std::string text = Json(number).dump();
    REQUIRE(text == json(number).dump());
    REQUIRE(parse_json(text, {"x"}).as_double() == number);
  }
  CHECK(Json(1.0).dump() == "1.0");
  CHECK(Json(1e22).dump() == "1e+22");
  CHECK(Json(0.1).dump() == "0.1");
  CHECK(Json(-0.0).dump() == "-0.0");
  CHECK(Json(std::numeric_limits<double>::infinity()).dump() == "null");
  CHECK(Json(std::numeric_limits<double>::quiet_NaN()).dump() == "null");
  CHECK(Json(std::numeric_limits<std::int64_t>::min()).dump() == "-9223372036854775808");
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).dump() == "18446744073709551615");
}

TEST_CASE("bytes that are not UTF-8 are replaced or refused as in nlohmann's library") {
  Documents documents(4);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string bytes = documents.bytes();
    for (const bool ascii : {false, true})
      CHECK(Json(bytes).dump({.ascii = ascii, .replace = true}) ==
            json(bytes).dump(-1, ' ', ascii, json::error_handler_t::replace));
    std::string ours, theirs;
    try {
      ours = Json(bytes).dump();
    } catch (const JsonMisuse& error) {
      ours = error.what();
      ++refused;
    }
    try {
      theirs = json(bytes).dump();
    } catch (const json::exception& error) {
      theirs = error.what();
    }
    CHECK(ours == theirs);
  }
  CHECK(refused > 1000);
}

TEST_CASE("numbers are equal by their values, as in nlohmann's library") {
  const auto most = std::numeric_limits<std::int64_t>::max();
  const std::vector<Twice> numbers = {{0, 0},       {0U, 0U},   {0.0, 0.0},        {-1, -1},     {1, 1},
                                      {1U, 1U},     {1.0, 1.0}, {1.5, 1.5},        {most, most}, {false, false},
                                      {true, true}, {"1", "1"}, {nullptr, nullptr}};
  for (const Twice& one : numbers)
    for (const Twice& other : numbers) {
      INFO(one.ours.dump() << " and " << other.ours.dump());
      CHECK((one.ours == other.ours) == (one.theirs == other.theirs));
    }
  CHECK(Json(std::uint64_t{1} << 63) != Json(std::numeric_limits<std::int64_t>::min()));
  CHECK(Json::object({{"a", 1}, {"b", 2.0}}) == Json::object({{"b", 2}, {"a", 1U}}));
  CHECK(Json::object({{"a", 1}}) != Json::object({{"a", 1}, {"b", 2}}));
  CHECK(Json::array({1, "a"}) == Json::array({1.0, "a"}));
  CHECK(Json::array() != Json::object());
}

TEST_CASE("text distinguishes integers with and without sign, and real numbers") {
  const auto read = [](const char* text) { return parse_json(text, {"x"}); };
  CHECK(read("1").kind() == JsonKind::unsigned_integer);
  CHECK(read("-1").kind() == JsonKind::integer);
  CHECK(read("1.0").kind() == JsonKind::real);
  CHECK(read("1e2").kind() == JsonKind::real);
  CHECK(read("18446744073709551615").as_uint64() == std::numeric_limits<std::uint64_t>::max());
  CHECK(read("18446744073709551615").whole() == std::nullopt);
  const Json large = read("-18446744073709551616"), copy = large;
  CHECK((copy.is_number() && !copy.is_integer() && !copy.is_real()));
  CHECK((copy.digits() == "-18446744073709551616" && copy.as_double() == -18446744073709551616.0 && !copy.whole()));
  CHECK((copy == large && copy == Json(-18446744073709551616.0) && copy != read("-18446744073709551617")));
  CHECK(copy.dump() == "-1.8446744073709552e+19");
  CHECK_THROWS_AS(Json(1).digits(), JsonMisuse);
  CHECK(read("18446744073709551616").kind() == JsonKind::large_integer);
  CHECK(read("9223372036854775807").whole() == std::numeric_limits<std::int64_t>::max());
  CHECK(read("-5").whole() == -5);
  CHECK(read("-5").as_double() == -5);
  CHECK(read("5").as_int64() == 5);
  CHECK(Json(5).as_uint64() == 5);
  CHECK(read("5.0").whole() == std::nullopt);
}

TEST_CASE("a value asked for as another kind throws") {
  CHECK_THROWS_WITH(Json("a").as_double(), "a JSON value is a string, not a number");
  CHECK_THROWS_WITH(Json(1).as_string(), "a JSON value is an integer, not a string");
  CHECK_THROWS_AS(Json(1).as_bool(), JsonMisuse);
  CHECK_THROWS_AS(Json(1.5).as_int64(), JsonMisuse);
  CHECK_THROWS_AS(Json(-1).as_uint64(), JsonMisuse);
  CHECK_THROWS_AS(Json(std::uint64_t{1} << 63).as_int64(), JsonMisuse);
  CHECK_THROWS_AS(Json().at("a"), JsonMisuse);
  CHECK_THROWS_WITH(Json::object().at("a"), "a JSON object has no \"a\"");
  CHECK_THROWS_WITH(Json::array({1})[1], "a JSON array of 1 has no element 1");
  CHECK_THROWS_AS(Json(1).push_back(1), JsonMisuse);
  CHECK_THROWS_AS(Json::array()["a"], JsonMisuse);
  CHECK_THROWS_AS(Json(1).add("a"), JsonMisuse);
}

TEST_CASE("only an object has members, and only an array has elements") {
  for (const Json& value : {Json(), Json(true), Json(1), Json("a"), Json::array({1})}) {
    CHECK(value.find("a") == nullptr);
    CHECK(!value.contains("a"));
    CHECK(value.items().empty());
  }
  for (const Json& value : {Json(), Json(1), Json("a"), Json::object({{"a", 1}})}) CHECK(value.begin() == value.end());
  CHECK(Json::object({{"a", 1}, {"b", 2}}).size() == 2);
  CHECK(Json("abc").empty());
}

TEST_CASE("members are found by key, and come by key or as they were added") {
  Json value;  // becomes an object
  value["b"] = 1;
  value["a"] = std::vector<int>{1, 2};
  value["c"]["d"] = "text";
  value["b"] = 2;  // keeps its position
  CHECK(value.dump() == R"({"a":[1,2],"b":2,"c":{"d":"text"}})");
  CHECK(value.dump({.order = JsonOrder::as_added}) == R"({"b":2,"a":[1,2],"c":{"d":"text"}})");
  std::string keys;
  for (const auto& [key, member] : value.items()) keys += key;
  for (const auto& [key, member] : value.items(JsonOrder::as_added)) keys += key;
  CHECK(keys == "abcbac");
  std::string key = "a key that is too long to be held inside";
  CHECK(value.add(std::move(key)) != nullptr);
  key = "a key that is too long to be held inside";
  CHECK(value.add(std::move(key)) == nullptr);
  CHECK(key == "a key that is too long to be held inside");
  CHECK(Json::object({{"a", 1}, {"a", 2}}).dump() == R"({"a":1})");
}

TEST_CASE("copies are independent, and what was moved from is null") {
  Json value = Json::object({{"a", Json::array({1, "text"})}});
  const Json copy = value;
  value["a"].push_back(2);
  CHECK(copy.dump() == R"({"a":[1,"text"]})");
  CHECK(value.dump() == R"({"a":[1,"text",2]})");
  const Json moved = std::move(value);
  CHECK(value.is_null());  // NOLINT(bugprone-use-after-move)
  CHECK(moved.at("a").size() == 3);
  Json nested = moved;
  nested = nested.at("a");  // a part of the value that it replaces
  CHECK(nested.dump() == R"([1,"text",2])");
  CHECK(sizeof(Json) == 16);
}
