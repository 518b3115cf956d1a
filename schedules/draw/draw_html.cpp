#include <ostream>

#include "schedules/draw/draw.hpp"
#include "schedules/draw/draw_detail.hpp"
#include "schedules/draw/page_texts.hpp"

namespace pipetrain::schedules {

namespace {

// Writes "name":[[step,start,end],...] with times from `begin` on.
void write_periods(std::ostream& out, const char* name, const std::vector<Period>& periods, double begin) {
  out << ",\"" << name << "\":[";
  const char* separator = "";
  for (const Period& one : periods) {
    out << separator << '[' << one.step << ',' << one.start - begin << ',' << one.end - begin << ']';
    separator = ",";
  }
  out << ']';
}

void write_summary(std::ostream& out, const Summary& summary) {
  out << ",\"makespan\":" << summary.makespan << ",\"bubble\":" << summary.bubble_fraction
      << ",\"span_bubble\":" << summary.span_bubble << ",\"summary\":[";
  const char* separator = "";
  for (const StageSummary& stage : summary.stages) {
    out << separator << '[' << stage.busy << ',' << stage.idle << ',' << stage.idle_warm_up << ',' << stage.idle_steady << ','
        << stage.idle_cool_down << ',' << stage.idle_communication << ',' << stage.peak_activations << ']';
    separator = ",";
  }
  out << ']';
}

void write_spans(std::ostream& out, const std::vector<Span>& spans, double begin) {
  const char* separator = "";
  for (const Span& span : spans) {
    out << separator << "[\"" << letter(span.action.kind) << "\"," << span.action.chunk << ',' << span.action.microbatch << ','
        << span.start - begin << ',' << span.end - begin << ',' << static_cast<int>(span.waited_for) << ']';
    separator = ",";
  }
}

}  // namespace

void write_html(std::ostream& out, const Timeline& timeline, const Summary& summary) {
  const TimeRange range = range_of(timeline);
  out.precision(9);
  out << timeline_page_begin << "{\"title\":\"" << escaped(timeline.title) << "\",\"unit\":\"" << escaped(timeline.unit)
      << "\",\"length\":" << range.length() << ",\"chunks\":" << timeline.placement.chunks()
      << ",\"slices\":" << timeline.slices << ",\"names\":[";
  for (std::size_t row = 0; row < timeline.stages.size(); ++row)
    out << (row == 0 ? "\"" : ",\"") << escaped(row_name(timeline, row)) << '"';
  out << ']';
  write_summary(out, summary);
  write_periods(out, "steps", timeline.steps, range.begin);
  write_periods(out, "evaluations", timeline.evaluations, range.begin);
  out << ",\"stages\":[";
  const char* separator = "\n[";
  for (const auto& spans : timeline.stages) {
    out << separator;
    write_spans(out, spans, range.begin);
    out << ']';
    separator = ",\n[";
  }
  out << "]}" << timeline_page_end;
}

}  // namespace pipetrain::schedules
