// Helpers that all drawings share. Internal to schedules/.
#pragma once

#include <string>

#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

struct TimeRange {
  double begin = 0;
  double end = 0;
  double length() const { return end - begin; }
};
TimeRange range_of(const Timeline& timeline);

// Returns "stage 3", or the row's own name.
std::string row_name(const Timeline& timeline, std::size_t row);
// Returns the length of the longest name, in characters.
int longest_row_name(const Timeline& timeline);

// Escapes text for a JSON string or for HTML, both in UTF-8.
std::string escaped(const std::string& text);

// Returns "#4c78a8": by kind, lighter for later chunks.
std::string color_of(ActionKind kind, int chunk, int chunks);

}  // namespace pipetrain::schedules
