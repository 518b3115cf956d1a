// The options of `pipetrain train`, after every layer (command line, environment, --config file, defaults) has had its say.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/job/run_settings.hpp"
#include "actors/training/records/health_watch.hpp"
#include "actors/training/records/run_records.hpp"
#include "apps/options/given_options.hpp"
#include "apps/options/offload_options.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/options/process_options.hpp"

namespace pipetrain {

struct PlacedData;

// A run, and what the command line does around it. Checked as far as is possible without reading model and data. What stays to
// be checked with them: that the model exists and splits over tp, that pp stages have blocks enough, lengths and token ids,
// checkpoints.
struct TrainOptions {
  RunSettings run;
  RecordSettings records;
  std::optional<double> peak_tflops;  // of one device: what mfu is a share of
  std::int64_t log_interval = 1;
  std::optional<int> serve;  // port at which the report is shown; 0: any that is free
  WatchSettings watch;
  std::optional<std::int64_t> retune;        // steps between two searches for a better cut; not given: none
  std::optional<DataPlacement> placement;    // to be chosen before the run; no value: run.offload is the user's choice
  std::shared_ptr<const PlacedData> placed;  // how it was chosen; null: by the user
  std::optional<std::filesystem::path> save_config;
  std::string config_text;         // for it
  std::vector<GivenOption> given;  // for the report page
  bool dry_run = false;
  ProcessOptions processes;  // of which this one trains its share of the ranks

  // Returns the options of the same run with these arguments of relayout, for a process that has this place now. Throws as
  // parse_train_options().
  std::function<TrainOptions(const std::vector<std::string>& arguments, const RunPlace& place)> changed;

  OptionPlaces places;  // of what was not given on the command line

  // Lines for stderr. Print them once no error of exit status 2 can follow, because such an error must stand there alone.
  std::vector<std::string> notes;
};

using Environment = std::map<std::string, std::string>;

struct Machine {
  int gpus = 0;
  int cores = 1;
};
Machine this_machine();

// `arguments` are those after the command's name. Throws Error(input): one line that names the option as the user gave it
// ("--pp 0", "PIPETRAIN_PP=0", "run.toml:3: pp = 0"), the rule, and what to do. Reads the --config file; writes nothing.
TrainOptions parse_train_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine);

// The same options for pipetrain launch: what its processes will be given, and how it starts them. A run that they would refuse
// is refused here, once.
struct LaunchedRun {
  TrainOptions train;
  LaunchOptions launch;
};
LaunchedRun parse_launch_options(const std::vector<std::string>& arguments, const Environment& environment,
                                 const Machine& machine);

}  // namespace pipetrain
