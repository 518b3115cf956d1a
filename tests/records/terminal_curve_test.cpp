#include "records/terminal_curve.hpp"

#include <string>
#include <vector>

#include "catch.hpp"

using namespace pipetrain;
using Points = std::vector<std::pair<std::int64_t, double>>;

TEST_CASE("a curve in stars goes from the largest value at the top to the smallest at the bottom, without a gap") {
  const Points falling = {{1, 4}, {2, 3}, {3, 2}, {4, 1}};
  CHECK(draw_curve(falling, {}, {4, 4}, Glyphs::ascii) == std::vector<std::string>{"**  ", " ** ", "  **", "   *"});
  CHECK(draw_curve({{1, 1}, {5, 5}}, {}, {5, 5}, Glyphs::ascii) ==
        std::vector<std::string>{"    *", "   **", "  *  ", " *   ", "*    "});
  CHECK(draw_curve({{7, 2}}, {}, {3, 3}, Glyphs::ascii) == std::vector<std::string>{"   ", "*  ", "   "});
  CHECK(draw_curve({}, {}, {3, 3}, Glyphs::ascii).empty());
}

TEST_CASE("a curve of more steps than columns keeps its spikes") {
  Points points;
  for (int step = 1; step <= 1000; ++step) points.emplace_back(step, step == 500 ? 10 : 1);
  const auto rows = draw_curve(points, {}, {20, 5}, Glyphs::ascii);
  CHECK(rows[0].find('*') != std::string::npos);
  CHECK(rows[0].find('*') == rows[3].find('*'));
  CHECK(rows[4] == std::string(20, '*'));
}

TEST_CASE("a curve in braille has eight dots a character") {
  // Both upper dots, then both lower ones.
  CHECK(draw_curve({{1, 2}, {2, 2}, {3, 1}, {4, 1}}, {}, {2, 1}, Glyphs::braille) == std::vector<std::string>{"\u2809\u28c7"});
}

TEST_CASE("marks stand on the curve's scale, which covers them") {
  CHECK(draw_curve({{1, 3}, {3, 1}}, {{2, 4}, {4, 1}}, {4, 4}, Glyphs::ascii) ==
        std::vector<std::string>{" o  ", "*   ", " ** ", "  *o"});
}
