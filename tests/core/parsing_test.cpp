// Words of users that are numbers or lists.
#include <cstdint>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "core/parsing.hpp"

using namespace pipetrain;

TEST_CASE("a text has one part more than separators, and parts may be empty") {
  using Parts = std::vector<std::string_view>;
  CHECK(split("", ',') == Parts{""});
  CHECK(split("one", ',') == Parts{"one"});
  CHECK(split("one,two,", ',') == Parts{"one", "two", ""});
  CHECK(split(",,", ',') == Parts{"", "", ""});
}

TEST_CASE("only a text that is a number as a whole, and fits the type, is one") {
  CHECK(number_from<int>("-12") == -12);
  CHECK(number_from<double>("0.5") == 0.5);
  CHECK(number_from<std::uint64_t>("00ff", 16) == 255);
  for (const char* wrong : {"", " 1", "1 ", "+1", "1.5", "1x", "99999999999"}) {
    INFO('"' << wrong << '"');
    CHECK_FALSE(number_from<int>(wrong));
  }
  CHECK_FALSE(number_from<unsigned char>("256"));
  CHECK_FALSE(number_from<unsigned>("-1"));
}
