#include "schedules/plan/grid.hpp"

#include <algorithm>

namespace pipetrain::schedules {

namespace {

constexpr std::size_t shown_columns = 96;
constexpr int shown_stages = 16;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// Returns the width of the widest action in [begin, end) of the shown stages.
std::size_t cell_width(const Plan& plan, int first_stage, int end_stage) {
  std::size_t width = 1;
  for (int stage = first_stage; stage < end_stage; ++stage)
    for (const Action& action : plan.stages[static_cast<std::size_t>(stage)])
      width = std::max(width, to_string(action, plan.form()).size());
  return width + 2;  // room for the brackets of a mark
}

}  // namespace

std::string print_grid(const Plan& plan, const std::vector<GridMark>& marks) {
  const int stages = static_cast<int>(plan.stages.size());
  const GridMark centre = marks.empty() ? GridMark{} : marks.front();
  const int first_stage = std::clamp(centre.stage - shown_stages / 2, 0, std::max(0, stages - shown_stages));
  const int end_stage = std::min(stages, first_stage + shown_stages);
  const std::size_t width = cell_width(plan, first_stage, end_stage);
  const std::size_t cells = shown_columns / width;
  const std::size_t begin = centre.position > cells / 2 ? centre.position - cells / 2 : 0;

  std::string text;
  if (first_stage > 0) text += "..\n";
  for (int stage = first_stage; stage < end_stage; ++stage) {
    const auto& actions = plan.stages[static_cast<std::size_t>(stage)];
    const auto is_marked = [&](std::size_t position) {
      return std::any_of(marks.begin(), marks.end(),
                         [&](const GridMark& mark) { return mark.stage == stage && mark.position == position; });
    };
    std::string line = padded("stage " + std::to_string(stage), 10) + (begin > 0 ? "| .." : "|");
    for (std::size_t at = begin; at < std::min(begin + cells, actions.size() + 1); ++at) {
      const std::string cell = at < actions.size() ? to_string(actions[at], plan.form()) : "";
      line += padded(is_marked(at) ? "[" + cell + "]" : " " + cell, width);
    }
    if (actions.size() > begin + cells) line += "..";
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (end_stage < stages) text += "..\n";
  return text;
}

}  // namespace pipetrain::schedules
