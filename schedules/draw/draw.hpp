// Draws a timeline for terminals, browsers, trace viewers and spreadsheets. The pages and pictures load nothing from
// the network.
#pragma once

#include <iosfwd>
#include <string>

#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

// Draws one line per stage, `width` columns in all. An action is its letter, F B I W (lower case for odd chunks), then its
// microbatch if there is room; '.' is idle time, '+' the end of the step. A column that several actions share shows the
// longest of them. With more than 40 stages it draws some of them.
std::string draw_terminal(const Timeline& timeline, int width = 80);

// Writes an SVG of `width` pixels. Draws neighbouring actions that are narrower than a pixel as one. Writes the numbers of
// microbatches only if all of them fit into their actions.
void write_svg(std::ostream& out, const Timeline& timeline, int width = 1200);

// Writes one self-contained HTML page: zoom with the wheel, scroll or drag, choose a step, and point at an action for its
// times and what it waited for.
void write_html(std::ostream& out, const Timeline& timeline, const Summary& summary);

// JSON for chrome://tracing and ui.perfetto.dev. microseconds: in one unit of the timeline's time.
void write_chrome_trace(std::ostream& out, const Timeline& timeline, double microseconds = 1e6);

// Writes a header and one row per action: stage, action, kind, chunk, microbatch (for plans with slices also slice), start,
// end, waited_for.
void write_csv(std::ostream& out, const Timeline& timeline);

const char* to_string(WaitedFor reason);  // "activation"

}  // namespace pipetrain::schedules
