#include "schedules/draw/draw.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <ostream>

#include "schedules/draw/draw_detail.hpp"

namespace pipetrain::schedules {

namespace {

constexpr int most_lines = 40;

// Returns the columns [begin, end) that a span covers, possibly none; spans come in time order.
std::pair<int, int> columns_of(const Span& span, const TimeRange& range, int columns) {
  const auto column = [&](double time) {
    return std::clamp(static_cast<int>(std::lround((time - range.begin) * columns / range.length())), 0, columns);
  };
  return {column(span.start), column(span.end)};
}

// Includes the slice, where there are slices: "3", or "3" and "1" with the separator between them.
std::string microbatch_of(const Timeline& timeline, const Action& action, const std::string& separator) {
  const bool none = is_custom(action.kind) || action.microbatch < 0;
  if (timeline.slices == 1) return std::to_string(none ? -1 : action.microbatch);
  const std::string microbatch = std::to_string(none ? -1 : action.microbatch / timeline.slices);
  return microbatch + separator + std::to_string(none ? -1 : action.microbatch % timeline.slices);
}

bool is_numbered(const Action& action) { return has_microbatch(action.kind) || is_custom(action.kind); }

char symbol(const Action& action) {
  if (!is_numbered(action)) return '+';
  const char upper = letter(action.kind);
  return action.chunk % 2 == 0 ? upper : static_cast<char>(upper - 'A' + 'a');
}

std::string draw_stage(const std::vector<Span>& spans, const TimeRange& range, int columns, int slices) {
  std::string line(static_cast<std::size_t>(columns), '.');
  for (const Span& span : spans) {
    const auto [begin, end] = columns_of(span, range, columns);
    if (begin == end) continue;
    std::string text(1, symbol(span.action));
    if (is_numbered(span.action)) text += piece_text(span.action.microbatch, is_custom(span.action.kind) ? 1 : slices);
    const auto width = static_cast<std::size_t>(end - begin);
    if (text.size() > width) text.resize(1);
    text.resize(width, ' ');
    line.replace(static_cast<std::size_t>(begin), width, text);
  }
  return line;
}

// With more actions than columns, each column shows the action that takes most of its time.
std::string draw_dense_stage(const std::vector<Span>& spans, const TimeRange& range, int columns) {
  std::vector<std::map<char, double>> times(static_cast<std::size_t>(columns));
  const double width = range.length() / columns;
  for (auto& column : times) column['.'] = width;
  for (const Span& span : spans) {
    double from = span.start - range.begin;
    const double until = span.end - range.begin;
    for (int c = std::clamp(static_cast<int>(from / width), 0, columns - 1); c < columns && from < until; ++c) {
      const double part = std::min(until, (c + 1) * width) - from;
      if (part <= 0) continue;
      auto& column = times[static_cast<std::size_t>(c)];
      column[symbol(span.action)] += part;
      column['.'] -= part;
      from += part;
    }
  }
  std::string line;
  for (const auto& column : times)
    line +=
        std::max_element(column.begin(), column.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  return line;
}

// The number of columns of the picture, chosen so that the shortest compute action covers a whole number of them if that fits.
struct Columns {
  int count;
  bool is_dense;  // an action may be narrower than a column
};
Columns columns_for(const Timeline& timeline, const TimeRange& range, int available) {
  double shortest = range.length();
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (is_compute(span.action.kind) && span.end > span.start) shortest = std::min(shortest, span.end - span.start);
  const double units = range.length() / shortest;
  const int each = static_cast<int>(std::min(8.0, available / units));
  if (each < 1) return {available, true};
  return {static_cast<int>(std::lround(units * each)), false};
}

// Returns the name of a custom action as a member of a JSON object, followed by a comma.
std::string custom_argument(const Timeline& timeline, const Action& action) {
  const auto number = static_cast<std::size_t>(action.microbatch);
  if (!is_custom(action.kind) || number >= timeline.custom.size()) return "";
  return "\"custom\":\"" + escaped(timeline.custom[number]) + "\",";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

TimeRange range_of(const Timeline& timeline) {
  TimeRange range{0, 0};
  bool is_empty = true;
  for (const auto& spans : timeline.stages) {
    if (spans.empty()) continue;
    range.begin = is_empty ? spans.front().start : std::min(range.begin, spans.front().start);
    range.end = is_empty ? spans.back().end : std::max(range.end, spans.back().end);
    is_empty = false;
  }
  return range;
}

const char* to_string(WaitedFor reason) {
  switch (reason) {
    case WaitedFor::nothing:
      return "nothing";
    case WaitedFor::activation:
      return "activation";
    case WaitedFor::gradient:
      return "gradient";
    case WaitedFor::slot:
      return "slot";
    case WaitedFor::partner:
      return "partner";
    case WaitedFor::memory:
      return "memory";
  }
  return "?";
}

std::string draw_terminal(const Timeline& timeline, int width) {
  const TimeRange range = range_of(timeline);
  const int stages = static_cast<int>(timeline.stages.size());
  if (!(range.length() > 0)) return "";
  const int label = static_cast<int>(std::to_string(stages - 1).size()) + 1;
  const auto [columns, is_dense] = columns_for(timeline, range, std::max(8, width - label));
  const int step = (stages + most_lines - 1) / most_lines;
  std::string text;
  for (int stage = 0; stage < stages; stage += step) {
    std::string name = std::to_string(stage);
    name.resize(static_cast<std::size_t>(label), ' ');
    const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
    std::string line =
        name + (is_dense ? draw_dense_stage(spans, range, columns) : draw_stage(spans, range, columns, timeline.slices));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  const std::string end = number(range.length());
  text += std::string(static_cast<std::size_t>(label), ' ') + "0";
  const int gap = columns - 1 - static_cast<int>(end.size());
  return text + std::string(static_cast<std::size_t>(std::max(1, gap)), ' ') + end + "\n";
}

namespace {

struct TraceRow {
  std::size_t number;
  std::string name;
  const std::vector<Span>& spans;
};

void write_trace_row(std::ostream& out, const Timeline& timeline, const TraceRow& row, double microseconds) {
  out << ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":" << row.number << ",\"name\":\"thread_name\",\"args\":{\"name\":\""
      << escaped(row.name) << "\"}}";
  for (const Span& span : row.spans) {
    out << ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":" << row.number << ",\"name\":\"" << to_string(span.action, timeline.form())
        << "\",\"cat\":\"" << letter(span.action.kind) << "\",\"ts\":" << span.start * microseconds
        << ",\"dur\":" << (span.end - span.start) * microseconds << ",\"args\":{" << custom_argument(timeline, span.action)
        << "\"chunk\":" << span.action.chunk << ",\"microbatch\":" << microbatch_of(timeline, span.action, ",\"slice\":")
        << ",\"waited_for\":\"" << to_string(span.waited_for) << "\"";
    if (span.begins_braid) out << ",\"braided_with\":\"" << to_string((&span + 1)->action, timeline.form()) << "\"";
    out << "}}";
  }
}

// Moves of one direction never overlap.
std::vector<Span> moves_of_kind(const std::vector<Span>& moves, ActionKind kind) {
  std::vector<Span> own;
  std::copy_if(moves.begin(), moves.end(), std::back_inserter(own),
               [kind](const Span& span) { return span.action.kind == kind; });
  return own;
}

}  // namespace

void write_chrome_trace(std::ostream& out, const Timeline& timeline, double microseconds) {
  out.precision(12);
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
         "\""
      << escaped(timeline.title) << "\"}}";
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage)
    write_trace_row(out, timeline, {stage, row_name(timeline, stage), timeline.stages[stage]}, microseconds);
  std::size_t row = timeline.stages.size();
  for (std::size_t stage = 0; stage < timeline.moves.size(); ++stage) {
    for (const auto& [kind, what] : {std::pair(ActionKind::offload, " offloads"), std::pair(ActionKind::reload, " reloads")}) {
      const std::vector<Span> own = moves_of_kind(timeline.moves[stage], kind);
      if (!own.empty()) write_trace_row(out, timeline, {row++, row_name(timeline, stage) + what, own}, microseconds);
    }
  }
  out << "\n]}\n";
}

void write_csv(std::ostream& out, const Timeline& timeline) {
  out.precision(12);
  out << "stage,action,kind,chunk,microbatch," << (timeline.slices > 1 ? "slice," : "") << "start,end,waited_for\n";
  const auto write = [&](std::size_t stage, const std::vector<Span>& spans) {
    for (const Span& span : spans)
      out << stage << ',' << to_string(span.action, timeline.form()) << ',' << letter(span.action.kind) << ','
          << span.action.chunk << ',' << microbatch_of(timeline, span.action, ",") << ',' << span.start << ',' << span.end
          << ',' << to_string(span.waited_for) << '\n';
  };
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    write(stage, timeline.stages[stage]);
    if (!timeline.moves.empty()) write(stage, timeline.moves[stage]);
  }
}

}  // namespace pipetrain::schedules
