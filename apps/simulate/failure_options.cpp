#include "apps/simulate/failure_options.hpp"

#include <fmt/format.h>

#include "apps/options/shared_options.hpp"

namespace pipetrain {

namespace {

constexpr std::int64_t most_gpus = std::int64_t{1} << 24;
constexpr std::int64_t usual_gpus[] = {1024, 16384};
constexpr double most_seconds = 1e9;
constexpr auto seconds_from_zero = NumberRange::from_to(0, most_seconds);
constexpr auto seconds_above_zero = NumberRange::from_to(1e-6, most_seconds);

void refuse_without_failures(const OptionValues& values) {
  for (const OptionSpec& row : failure_rows())
    if (row.name != "failures" && values.given(row.name))
      values.fail(row.name.c_str(), "applies to a month of failures; give --failures too");
}

// Throws Error(input) unless whole replicas, and whole hosts, have so many GPUs.
void check_shape(const OptionValues& values, const FailureOptions& options, int pp) {
  const std::int64_t replica = pp * options.tp;
  for (const std::int64_t gpus : options.gpus)
    if (gpus % replica != 0 || gpus % options.host_gpus != 0)
      values.fail(values.given("gpus") ? "gpus" : "pp",
                  fmt::format("{} GPUs are no whole number of replicas of pp {} x tp {} on hosts of {}; change one of them",
                              gpus, pp, options.tp, options.host_gpus));
}

}  // namespace

OptionRows failure_rows() {
  constexpr const char* group = "Failures";
  const FailureOptions usual;
  const auto shown = [](double value) { return fmt::format("{:g}", value); };
  return {
      {group, "failures", "",
       "simulate a month on hosts that fail: the share of its time that becomes steps, with restarts from checkpoints and with takeovers",
       OnOff{}, "off"},
      {group, "gpus", "N", "GPUs of the run", IntegerRange{1, most_gpus},
       fmt::format("{} and {}", usual_gpus[0], usual_gpus[1])},
      {group, "host-gpus", "N", "GPUs of a host; they fail together", IntegerRange{1, 1024},
       fmt::format("{}", usual.host_gpus)},
      {group, "tp", "N", "tensor-parallel ranks of a stage; replicas take the rest of the GPUs", IntegerRange{1, 1024},
       fmt::format("{}", usual.tp)},
      {group, "spares", "N", "idle hosts that replace failed ones", IntegerRange{0, most_gpus}, "1 for every 100 hosts"},
      {group, "failure-rate", "X",
       "failures of a host in 1,000 days; Llama 3's run on 16,384 H100 had 3.79 (arXiv 2407.21783), Meta's research clusters 2.34 and 6.50 (arXiv 2410.21680)",
       NumberRange::from_to(0, 1e6), shown(usual.host_failures)},
      {group, "repair-hours", "H", "until a failed host is a spare", NumberRange::from_to(0, 1e6), shown(usual.repair_hours)},
      {group, "days", "N", "length of the run", NumberRange::from_to(0.01, 10000), shown(usual.days)},
      {group, "step-time", "T", "seconds of an undisturbed step", seconds_above_zero, "the profile's"},
      {group, "save-every", "T", "seconds of steps between two checkpoints", seconds_above_zero,
       "what loses least: sqrt(2 x save-stall x time between failures)"},
      {group, "save-stall", "T", "seconds that a checkpoint stops the steps", seconds_from_zero, shown(usual.save_stall)},
      {group, "restart-time", "T", "seconds from a failure until all processes run again from a checkpoint", seconds_from_zero,
       shown(usual.restart)},
      {group, "takeover-time", "T", "seconds from a failure until the step in flight is repeated", seconds_from_zero,
       shown(usual.takeover)},
  };
}

std::optional<FailureOptions> read_failures(const OptionValues& values, int pp, bool profiled) {
  if (!values.on_off("failures").value_or(false)) {
    refuse_without_failures(values);
    return std::nullopt;
  }
  FailureOptions options;
  const auto count = [&](const char* name, std::int64_t usual) { return values.integer(name).value_or(usual); };
  const auto number = [&](const char* name, double usual) { return values.number(name).value_or(usual); };
  options.gpus = {std::begin(usual_gpus), std::end(usual_gpus)};
  if (const auto gpus = values.integer("gpus")) options.gpus = {*gpus};
  options.host_gpus = count("host-gpus", options.host_gpus);
  options.tp = count("tp", options.tp);
  options.spares = values.integer("spares");
  options.days = number("days", options.days);
  options.host_failures = number("failure-rate", options.host_failures);
  options.repair_hours = number("repair-hours", options.repair_hours);
  options.step = values.number("step-time");
  options.save_every = values.number("save-every");
  options.save_stall = number("save-stall", options.save_stall);
  options.restart = number("restart-time", options.restart);
  options.takeover = number("takeover-time", options.takeover);
  options.seed = values.unsigned_integer("seed").value_or(options.seed);
  if (!options.step && !profiled)
    values.fail("failures", "needs the seconds of a step: give --step-time T, or --costs with the profile of a run");
  check_shape(values, options, pp);
  return options;
}

}  // namespace pipetrain
