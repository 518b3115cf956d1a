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

// Maps steps and values to dots: the first step to the left, the largest value to the top.
class CurveScale {
 public:
  CurveScale(const CurvePoints& points, const CurvePoints& marks)
      : first_(points.front().first), last_(points.back().first), low_(points.front().second), high_(low_) {
    for (const CurvePoints* each : {&points, &marks}) {
      for (const auto& [step, value] : *each) {
        first_ = std::min(first_, step);
        last_ = std::max(last_, step);
        low_ = std::min(low_, value);
        high_ = std::max(high_, value);
      }
    }
  }
  int x(std::int64_t step, int width) const {
    return last_ > first_ ? place(static_cast<double>(step - first_) / static_cast<double>(last_ - first_), width) : 0;
  }
  int y(double value, int height) const { return high_ > low_ ? place((high_ - value) / (high_ - low_), height) : height / 2; }

 private:
  static int place(double share, int count) {
    return std::clamp(static_cast<int>(std::lround(share * (count - 1))), 0, count - 1);
  }

  std::int64_t first_, last_;
  double low_, high_;
};

Dots dots_of(const CurvePoints& points, const CurveScale& scale, int width, int height) {
  Dots dots(width, height);
  int before_x = -1, before_y = 0;
  for (const auto& [step, value] : points) {
    const int x = scale.x(step, width), y = scale.y(value, height);
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

std::vector<std::string> draw_curve(const CurvePoints& points, const CurvePoints& marks, const CurveSize& size, Glyphs glyphs) {
  std::vector<std::string> rows;
  if (points.empty()) return rows;
  const bool fine = glyphs == Glyphs::braille;
  const CurveScale scale(points, marks);
  const Dots dots = dots_of(points, scale, size.columns * (fine ? 2 : 1), size.rows * (fine ? 4 : 1));
  Dots marked(size.columns, size.rows);
  for (const auto& [step, value] : marks) marked.set(scale.x(step, size.columns), scale.y(value, size.rows));
  for (int row = 0; row < size.rows; ++row) {
    std::string& line = rows.emplace_back();
    for (int column = 0; column < size.columns; ++column)
      line += marked.at(column, row) ? "o" : fine ? braille(dots, column, row) : dots.at(column, row) ? "*" : " ";
  }
  return rows;
}

}  // namespace pipetrain
