// The options of `pipetrain train`, after every layer (command line, environment, --config file, defaults) has had its say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/fault.hpp"
#include "apps/option_layers.hpp"
#include "core/device.hpp"
#include "core/dtype.hpp"
#include "data/dataset.hpp"
#include "data/sampler.hpp"
#include "model/learning_rate.hpp"
#include "model/precision.hpp"
#include "model/recompute.hpp"
#include "schedules/stage_protocol.hpp"

namespace pipetrain {

// Checked as far as is possible without reading model and data. What stays to be checked with them: that the model exists and
// splits over tp, that pp stages have blocks enough, lengths and token ids, checkpoints.
struct TrainOptions {
  // Model and data
  std::string model = "tiny";  // a preset's name or a Hugging Face folder
  bool load_weights = false;   // --init hf: take the folder's weights; never for a preset
  std::optional<std::int64_t> layers;
  std::vector<DataInput> data;          // empty: the text that ships inside
  std::optional<std::int64_t> seq_len;  // not given: from the data's rows, else the model
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool no_dropout = false;  // --dropout 0 is given: whatever the model was made with

  // Layout
  int pp = 1, tp = 1, dp = 1;
  bool sequence_parallel = false;               // never true at tp 1
  BatchShape batch;                             // dp, microbatches and microbatch, resolved; the global batch is their product
  std::string schedule = "1f1b";                // one of all_schedules(), or the plan's name
  std::shared_ptr<const schedules::Plan> plan;  // from a file
  std::string plan_file;
  int chunks = 1;  // resolved
  schedules::Order order = schedules::Order::planned;

  // Length and optimizer
  std::optional<std::int64_t> steps, epochs;  // the first limit reached; neither: the contract's default
  double lr = 3e-4, min_lr = 0;
  LearningRate::Kind lr_schedule = LearningRate::Kind::cosine;
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;  // a share of all steps, then warmup_steps is 0
  double beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8, weight_decay = 0.1;
  double clip_grad = 1.0;  // 0: off

  // Numbers and devices
  Precision precision;
  Recompute recompute = Recompute::none;
  bool deterministic = true;
  DeviceKind device = DeviceKind::cpu;
  std::vector<int> devices;  // GPU ordinals by rank; empty on the CPU
  int threads = 1;           // compute threads of one CPU device

  // Files
  std::optional<std::filesystem::path> save, load, metrics, trace, profile;
  std::optional<std::int64_t> save_interval, save_keep;  // not given: only at the end; all
  bool resume = false;
  std::int64_t log_interval = 1;
  bool dry_run = false;
  std::int64_t stall_timeout = 600;  // seconds without any action completing; 0: never
  std::optional<Fault> fault;        // PIPETRAIN_FAULT

  OptionPlaces places;  // of what was not given on the command line

  // Lines for stderr. To be printed once nothing can end in exit status 2 any more, because an error is alone there.
  std::vector<std::string> notes;

  int device_count() const { return pp * tp * dp; }
  // The settings for a run of this many steps in all; resolves warmup_ratio.
  LearningRate learning_rate(std::int64_t total_steps) const;
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

// The text of `pipetrain train --help`.
std::string train_help();

}  // namespace pipetrain
