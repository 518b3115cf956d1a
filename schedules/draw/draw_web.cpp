#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

#include "schedules/draw/draw.hpp"
#include "schedules/draw/draw_detail.hpp"
#include "schedules/draw/utf8.hpp"

namespace pipetrain::schedules {

namespace {

constexpr int row_height = 24;

int label_width(const Timeline& timeline) { return 16 + 6 * std::max(8, longest_row_name(timeline)); }

constexpr std::array<std::pair<ActionKind, const char*>, 6> legend = {{{ActionKind::forward, "forward"},
                                                                       {ActionKind::backward, "backward"},
                                                                       {ActionKind::input_grad, "input gradient"},
                                                                       {ActionKind::weight_grad, "weight gradient"},
                                                                       {ActionKind::optimizer, "end of step"},
                                                                       {ActionKind::custom, "custom action"}}};

bool ends_step(ActionKind kind) { return !has_microbatch(kind) && !is_custom(kind); }

bool appears(const Timeline& timeline, ActionKind kind) {
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (span.action.kind == kind || (ends_step(kind) && ends_step(span.action.kind))) return true;
  return false;
}

// How the actions of a picture are drawn.
struct SvgScale {
  TimeRange range;
  double pixels = 0;     // per unit of time
  bool numbers = false;  // every microbatch's number fits into its action, so that all are written
};

std::string svg_text(const Action& action, const ActionForm& form) {
  return is_compute(action.kind) ? piece_text(action.microbatch, form.slices) : to_string(action);
}

bool fits(const std::string& text, double width) { return width >= 7.0 * static_cast<double>(text.size()) + 2; }

bool all_numbers_fit(const Timeline& timeline, double pixels) {
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (is_compute(span.action.kind) && span.end > span.start &&
          !fits(svg_text(span.action, timeline.form()), (span.end - span.start) * pixels))
        return false;
  return true;
}

void write_rect(std::ostream& out, double x, const SvgScale& scale, int row, const Span& span, const ActionForm& form) {
  const int y = 28 + row * row_height;
  const double width = (span.end - span.start) * scale.pixels;
  out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << (width > 4 ? width - 1 : width) << "\" height=\""
      << row_height - 2 << "\" fill=\"" << color_of(span.action.kind, span.action.chunk, form.chunks) << "\"><title>"
      << to_string(span.action, form) << ": " << span.start << " to " << span.end << "</title></rect>\n";
  const std::string text = svg_text(span.action, form);
  if (fits(text, width) && (scale.numbers || !is_compute(span.action.kind)))
    out << "<text x=\"" << x + width / 2 << "\" y=\"" << y + 15 << "\" text-anchor=\"middle\">" << text << "</text>\n";
}

void write_svg_row(std::ostream& out, const Timeline& timeline, int row, const SvgScale& scale) {
  const auto& spans = timeline.stages[static_cast<std::size_t>(row)];
  for (std::size_t i = 0; i < spans.size();) {
    // Neighbouring actions that are too narrow to see share one rectangle.
    std::size_t next = i + 1;
    while (next < spans.size() && (spans[next].end - spans[i].start) * scale.pixels < 1) ++next;
    Span merged = spans[i];
    merged.end = spans[next - 1].end;
    if (merged.end > merged.start)
      write_rect(out, label_width(timeline) + (merged.start - scale.range.begin) * scale.pixels, scale, row, merged,
                 timeline.form());
    i = next;
  }
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : valid_utf8(text)) {
    if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\\' || c == '\'' || static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      safe += code;
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string color_of(ActionKind kind, int chunk, int chunks) {
  std::array<int, 3> rgb{};
  switch (kind) {
    case ActionKind::forward:
      rgb = {86, 140, 207};
      break;
    case ActionKind::backward:
      rgb = {232, 163, 61};
      break;
    case ActionKind::input_grad:
      rgb = {222, 125, 102};
      break;
    case ActionKind::weight_grad:
      rgb = {104, 173, 112};
      break;
    case ActionKind::custom:
      rgb = {190, 120, 180};
      break;
    default:
      rgb = {150, 140, 170};
  }
  const double lighter = chunks > 1 ? 0.5 * chunk / (chunks - 1) : 0;
  char text[8];
  const auto mix = [&](int value) { return static_cast<unsigned>(value + (255 - value) * lighter) & 0xffu; };
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mix(rgb[0]), mix(rgb[1]), mix(rgb[2]));
  return text;
}

std::string row_name(const Timeline& timeline, std::size_t row) {
  return timeline.names.empty() ? "stage " + std::to_string(row) : timeline.names[row];
}

int longest_row_name(const Timeline& timeline) {
  std::size_t longest = 0;
  for (std::size_t row = 0; row < timeline.stages.size(); ++row) longest = std::max(longest, row_name(timeline, row).size());
  return static_cast<int>(longest);
}

void write_svg(std::ostream& out, const Timeline& timeline, int width) {
  const TimeRange range = range_of(timeline);
  const int rows = static_cast<int>(timeline.stages.size()), height = 28 + rows * row_height + 26;
  const int left = label_width(timeline);
  SvgScale scale{range, range.length() > 0 ? (width - left - 8) / range.length() : 0};
  scale.numbers = all_numbers_fit(timeline, scale.pixels);
  out.precision(7);
  std::string title;
  for (const char c : valid_utf8(timeline.title))
    if (c != '<' && c != '>' && c != '&' && static_cast<unsigned char>(c) >= 0x20) title += c;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height << "\" viewBox=\"0 0 "
      << width << ' ' << height
      << "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text "
         "x=\"4\" y=\"17\" font-size=\"13\">"
      << title << "</text>\n";
  double at = width - 8;
  for (auto entry = legend.rbegin(); entry != legend.rend(); ++entry) {
    if (!appears(timeline, entry->first)) continue;
    at -= 7.0 * static_cast<double>(std::string(entry->second).size()) + 26;
    out << "<rect x=\"" << at << "\" y=\"7\" width=\"12\" height=\"12\" fill=\"" << color_of(entry->first, 0, 1)
        << "\"/><text x=\"" << at + 16 << "\" y=\"17\">" << entry->second << "</text>\n";
  }
  for (int row = 0; row < rows; ++row) {
    out << "<text x=\"4\" y=\"" << 28 + row * row_height + 15 << "\">"
        << escaped(row_name(timeline, static_cast<std::size_t>(row))) << "</text>\n<rect x=\"" << left << "\" y=\""
        << 28 + row * row_height << "\" width=\"" << width - left - 8 << "\" height=\"" << row_height - 2
        << "\" fill=\"#eeeeee\"/>\n";
    write_svg_row(out, timeline, row, scale);
  }
  out << "<text x=\"" << left << "\" y=\"" << height - 9 << "\">0</text>\n<text x=\"" << width - 8 << "\" y=\"" << height - 9
      << "\" text-anchor=\"end\">" << range.length() << ' ' << escaped(timeline.unit) << "</text>\n</svg>\n";
}

}  // namespace pipetrain::schedules
