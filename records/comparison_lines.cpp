#include "records/comparison_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace pipetrain {

namespace {

struct Unit {
  double size;
  const char* name;
};

// Returns the value in the largest of the units that is not larger than it, else in the smallest.
std::string in_units(double value, std::initializer_list<Unit> from_large) {
  const Unit* unit = std::find_if(from_large.begin(), from_large.end(), [&](const Unit& one) { return value >= one.size; });
  if (unit == from_large.end()) --unit;
  return fmt::format("{:.4g} {}", value / unit->size, unit->name);
}

std::string time_text(double seconds) { return in_units(seconds, {{60, "min"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}); }
std::string speed_text(double tflops) {
  return in_units(tflops, {{1e3, "PFLOP/s"}, {1, "TFLOP/s"}, {1e-3, "GFLOP/s"}, {1e-6, "MFLOP/s"}});
}
std::string bytes_text(double bytes) {
  return in_units(bytes, {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}});
}
std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string value_text(std::optional<double> value) { return value ? fmt::format("{}", *value) : "-"; }

std::string largest_line(const char* name, const LargestDifference& largest) {
  if (largest.step == 0) return fmt::format("{:<22} equal to the bit", name);
  return fmt::format("{:<22} differs by at most {:.3g} of its value, in step {}", name, largest.relative, largest.step);
}

}  // namespace

std::vector<std::vector<std::string>> figure_rows(const std::vector<RunFigures>& runs) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char* name, const std::function<std::optional<std::string>(const RunFigures&)>& text) {
    std::vector<std::string> row = {name};
    bool known = false;
    for (const RunFigures& run : runs) {
      const auto cell = text(run);
      known = known || cell;
      row.push_back(cell.value_or("-"));
    }
    if (known) rows.push_back(std::move(row));
  };
  const auto number = [&](const char* name, std::optional<double> RunFigures::*value, std::string (*text)(double)) {
    add(name, [&](const RunFigures& run) { return run.*value ? std::optional(text(*(run.*value))) : std::nullopt; });
  };
  add("steps", [](const RunFigures& run) { return std::optional(fmt::format("{}-{}", run.first_step, run.last_step)); });
  number("last loss", &RunFigures::last_loss, [](double loss) { return fmt::format("{:.6g}", loss); });
  number("tokens/s", &RunFigures::tokens_per_second, [](double rate) { return fmt::format("{:.1f}", rate); });
  number("time of a step", &RunFigures::seconds, time_text);
  number("FLOP/s a device", &RunFigures::tflops_per_device, speed_text);
  number("MFU", &RunFigures::mfu, share_text);
  number("bubble", &RunFigures::bubble, share_text);
  add("fullest device", [](const RunFigures& run) {
    return run.memory_bytes ? std::optional(bytes_text(static_cast<double>(*run.memory_bytes))) : std::nullopt;
  });
  return rows;
}

std::vector<std::string> finding_lines(const RunComparison& found) {
  std::vector<std::string> lines = {largest_line("loss", found.loss), largest_line("gradient norm", found.grad_norm),
                                    largest_line("learning rate", found.lr)};
  if (!found.same_work) lines.emplace_back("tokens or skipped steps differ");
  lines.push_back(found.first ? fmt::format("first differing step   {}: {} {} and {}", found.first->step, found.first->value,
                                            value_text(found.first->a), value_text(found.first->b))
                              : "first differing step   none: equal to the bit");
  return lines;
}

}  // namespace pipetrain
