// A timeline as a picture or as rows, for terminals, browsers, trace viewers and spreadsheets. Nothing here looks at the
// network.
#pragma once

#include <iosfwd>
#include <string>

#include "schedules/timeline.hpp"

namespace pipetrain::schedules {

// One line a stage, `width` columns in all: F B I W (f b i w for odd chunks, then upper case again), '.' where the stage waits,
// '+' for what ends the step. The letter marks an action's first column, and
// the microbatch follows where there is room. Where actions are narrower than a column, the column shows the one that took most
// of it. Of more than 40 stages it draws some.
std::string draw_terminal(const Timeline& timeline, int width = 80);

// `width` pixels. Neighbours narrower than a pixel are drawn as one.
void write_svg(std::ostream& out, const Timeline& timeline, int width = 1200);

// One page that needs nothing else: zoom with the wheel, drag, hover to see the action, its times and why it waited.
void write_html(std::ostream& out, const Timeline& timeline, const Summary& summary);

// For chrome://tracing and ui.perfetto.dev. microseconds: what one unit of the timeline's time is.
void write_chrome_trace(std::ostream& out, const Timeline& timeline, double microseconds = 1e6);

// Header and one row per action: stage, action, kind, chunk, microbatch, start, end, waited_for.
void write_csv(std::ostream& out, const Timeline& timeline);

const char* to_string(WaitedFor reason);  // "activation"

}  // namespace pipetrain::schedules
