#include "records/terminal_curve.hpp"

#include <algorithm>
#include <cmath>

namespace pipetrain {

namespace {

// Rows of dots, the top row first.
class Dots {
 public:
  Dots(int width, int height) : width_(width), height_(height), set_(static_cast<std::size_t>(width) * height) {}

  int width() const { return width_; }
  int height() const { return height_; }
  bool at(int x, int y) const { return set_[index(x, y)]; }
  void set(int x, int y) { set_[index(x, y)] = true; }

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }

  int width_, height_;
  std::vector<bool> set_;
};

Dots dots_of(const std::vector<std::pair<std::int64_t, double>>& points, int width, int height) {
  Dots dots(width, height);
  double low = points.front().second, high = low;
  for (const auto& point : points) {
    low = std::min(low, point.second);
    high = std::max(high, point.second);
  }
  const double first = static_cast<double>(points.front().first), steps = static_cast<double>(points.back().first) - first;
  const auto place = [](double share, int count) {
    return std::clamp(static_cast<int>(std::lround(share * (count - 1))), 0, count - 1);
  };
  int before_x = -1, before_y = 0;
  for (const auto& [step, value] : points) {
    const int x = steps > 0 ? place((static_cast<double>(step) - first) / steps, width) : 0;
    const int y = high > low ? place((high - value) / (high - low), height) : height / 2;
    int from = before_x < 0 ? y : before_y;
    if (before_x >= 0) {  // fewer points than columns: draw a straight line between two
      const int begin = before_y;
      for (int at = before_x + 1; at < x; ++at) dots.set(at, from = begin + (y - begin) * (at - before_x) / (x - before_x));
    }
    for (int at = std::min(from, y); at <= std::max(from, y); ++at) dots.set(x, at);
    before_x = x;
    before_y = y;
  }
  return dots;
}

// Returns U+2800 with the bits of its eight dots, in UTF-8.
std::string braille(const Dots& dots, int column, int row) {
  constexpr unsigned bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  unsigned code = 0x2800;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 2; ++x)
      if (dots.at(2 * column + x, 4 * row + y)) code |= bits[y][x];
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

std::vector<std::string> draw_curve(const std::vector<std::pair<std::int64_t, double>>& points, const CurveSize& size,
                                    Glyphs glyphs) {
  std::vector<std::string> rows;
  if (points.empty()) return rows;
  const bool fine = glyphs == Glyphs::braille;
  const Dots dots = dots_of(points, size.columns * (fine ? 2 : 1), size.rows * (fine ? 4 : 1));
  for (int row = 0; row < size.rows; ++row) {
    std::string& line = rows.emplace_back();
    for (int column = 0; column < size.columns; ++column)
      line += fine ? braille(dots, column, row) : dots.at(column, row) ? "*" : " ";
  }
  return rows;
}

}  // namespace pipetrain
