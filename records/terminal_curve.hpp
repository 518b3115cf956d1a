// Draws a curve in characters.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pipetrain {

enum class Glyphs {
  braille,  // 2 x 4 dots a character, in UTF-8
  ascii     // one star
};

struct CurveSize {
  int columns = 60, rows = 8;  // characters, without the scale at the side; at least 1
};

using CurvePoints = std::vector<std::pair<std::int64_t, double>>;  // step and value, steps ascending

// Every step is in the picture: a column of dots reaches from the
// smallest to the largest value of its steps, and on to the end of the previous column. Marks are shown as "o" on the
// curve's scale, which covers them too. Returns rows from top to
// bottom, each `columns` characters wide, or none for no points; the top is the largest value, the bottom the smallest.
std::vector<std::string> draw_curve(const CurvePoints& points, const CurvePoints& marks, const CurveSize& size, Glyphs glyphs);

}  // namespace pipetrain
