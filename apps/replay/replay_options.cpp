#include "apps/replay/replay_options.hpp"

#include <fmt/format.h>

#include "apps/options/operands.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/simulate/simulate_costs.hpp"
#include "core/error.hpp"
#include "records/flight_record.hpp"

namespace pipetrain {

const OptionRows& replay_option_table() {
  constexpr auto factor = NumberRange::from_to(1e-6, 1e6);
  static const OptionRows table = joined_rows({
      {{"What is shown", "step", "N", "this step", IntegerRange{}, "the last one of training; files show the whole run"},
       {"What is shown", "at", "SECONDS",
        "show instead a moment, this long after the first action of the run or of --step: what every stage runs and waits for, and who holds which slot",
        NumberRange::from_to(0, 1e9)},
       {"What if", "stage-factor", "X", "stages take X times as long for their actions; or one per stage: 1,1.1,1,1", factor,
        "1"},
       {"What if", "link-factor", "X",
        "messages between stages take X times as long; or one per edge: between neighbours, then from the last stage to the first",
        factor, "1"},
       {"Output", "json", "",
        "print an array instead of tables, with the keys of simulate --json: the step, and with a change what it would be",
        OnOff{}, "off"}},
      timeline_options({}, ", as train --trace writes it"),
      general_options(),
  });
  return table;
}

ReplayOptions parse_replay_options(const std::vector<std::string>& given_arguments, const Environment& environment) {
  ReplayOptions options;
  std::vector<std::string> arguments = given_arguments;
  const auto operands = take_operands(replay_option_table(), arguments);
  const OptionValues values(replay_option_table(),
                            gather_options(replay_option_table(), arguments, environment, options.notes));
  if (operands.size() != 1)
    throw Error(ErrorKind::input, fmt::format("replay: takes one record of a run, and {} given; write pipetrain replay FILE",
                                              operands.empty() ? "none is" : fmt::format("{} are", operands.size())));
  options.file = operands.front();
  options.step = values.integer("step");
  options.at = values.number("at");
  const int pp = FlightRecordReader(options.file).head().run.plan.placement.stages();
  options.changes.stage_factors = per_stage(values, "stage-factor", pp);
  options.changes.link_factors = per_edge(values, "link-factor", pp);
  options.json = values.on_off("json").value_or(false);
  options.svg = output_file(values, "svg");
  options.html = output_file(values, "html");
  options.trace = output_file(values, "trace");
  options.csv = output_file(values, "csv");
  refuse_shared_files(values, {.inputs = {"config"}, .output_files = {"svg", "html", "trace", "csv"}, .output_folders = {}});
  for (const char* name : {"stage-factor", "link-factor", "json", "svg", "html", "trace", "csv"})
    if (options.at && values.given(name)) values.fail(name, "--at prints a moment; leave one of them out");
  return options;
}

std::string replay_help() {
  return "pipetrain replay FILE OPTIONS\n"
         "Replay a run that train --record wrote: the state machines that chose what each stage did get the recorded messages\n"
         "again, at their times, and must choose the same actions.\n"
         "\n"
         "  pipetrain train --steps 20 --pp 4 --record run.rec\n"
         "  pipetrain replay run.rec --step 3 --html step3.html\n"
         "  pipetrain replay run.rec --step 3 --at 0.012\n"
         "  pipetrain replay run.rec --stage-factor 1,1.1,1,1 --link-factor 0.5\n"
         "\n" +
         format_options(replay_option_table()) +
         "\n"
         "A change is made to every action or message as it was measured; what follows from it (who waits, for how long) is\n"
         "simulated, in the order in which the stages ran their actions. Files then show the changed step. Each replica is\n"
         "taken alone, and its sums over replicas last as long as they did.\n"
         "\n"
         "Exit status: 0 the same actions came out, 1 others did, 2 the command line or the file is wrong.\n";
}

}  // namespace pipetrain
