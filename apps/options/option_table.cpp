#include "apps/options/option_table.hpp"

#include <fmt/format.h>

#include "actors/training/job/setting_row.hpp"
#include "actors/training/records/health_watch.hpp"
#include "apps/options/process_options.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

namespace {

// Settings stand in their help as `seq-len`, and options as --seq-len.
std::string with_dashes(const std::string& help) {
  std::string text;
  bool inside = false;
  for (const char c : help) {
    if (c != '`') {
      text += c;
    } else if (inside = !inside; inside) {
      text += "--";
    }
  }
  return text;
}

OptionRows settings_of(std::string_view group) {
  OptionRows rows;
  for (const SettingRow& row : setting_table())
    if (row.group == group)
      rows.push_back({row.group, row.name, row.value, with_dashes(row.help), row.member.reader, row.default_text()});
  return rows;
}

OptionRows retune_rows() {
  return {
      {"Layout", "retune", "N",
       "every N steps search cut, schedule, chunks and less recomputation anew with the times that the run has measured, and change to a layout that is simulated to be 5 % faster",
       IntegerRange{1, 1'000'000'000}},
      {"Layout", "memory", "GIB", "with --offload auto: memory of each device that the run may use",
       NumberRange::from_to(0.001, 65536), "what is free"},
      {"Layout", "offload-bandwidth", "GB/S",
       "with --offload auto: rate between a device and the disk of --offload-to, else the memory of its host, each way",
       NumberRange::from_to(0.001, 1e6), "measured"}};
}

OptionRows process_rows() {
  constexpr const char* group = "Processes";
  constexpr std::int64_t longest = 1'000'000;
  return {
      {group, "master", "HOST:PORT", "the address at which process 0 listens and the others connect", AnyText{},
       fmt::format("{}:{}, or as the launcher says", MasterAddress{}.host, MasterAddress{}.port)},
      {group, "nnodes", "N",
       "hosts of the run, with one process each, or --nproc of launch; 1 makes this process a run of its own, whatever launcher has started it",
       IntegerRange{1, most_processes}, "1, or as the launcher says"},
      {group, "node-rank", "K", "number of this host, from 0", IntegerRange{0, most_processes - 1}, "0"},
      {group, "nproc", "N", "processes on this host (pipetrain launch only)", IntegerRange{1, most_processes}},
      {group, "restart", "N",
       "after a failure start the whole run again from its last checkpoint, at most N times (pipetrain launch only)",
       IntegerRange{0, 1'000'000}, fmt::format("{}", LaunchOptions{}.restarts)},
      {group, "restart-processes", "N",
       "with --elastic takeover: for a lost process start another one, which joins the run, at most N times (pipetrain launch only)",
       IntegerRange{0, 1'000'000}, fmt::format("{}", LaunchOptions{}.restarted_processes)},
      {group, "join", "RUN",
       "join an elastic run that has begun, whose other options must be the same: its --save folder, or HOST:PORT as run.address there has it",
       AnyText{}},
      {group, "token-file", "FILE",
       "a file whose first line is the token that every process must have; also PIPETRAIN_TOKEN. Needed unless the master is on loopback",
       AnyText{}, "none; launch on one host makes one"},
      {group, "rendezvous-timeout", "SECONDS", "the longest wait for the other processes", IntegerRange{1, longest},
       fmt::format("{}", ProcessOptions{}.timeout.count())},
      {group, "stop-grace", "SECONDS",
       "the launcher's time between SIGTERM and SIGKILL: if it is too short for a step and a save, the last finished step is saved at once",
       IntegerRange{0, longest}, "1 under Open MPI, 30 under torchrun, or as they say"},
      {group, "preempt-signal", "",
       "the scheduler's notice that it will take a process's machine: with --elastic takeover the process hands its ranks over and ends, without it the run saves and ends",
       Choices{"usr2", "term"}, "usr2"},
      {group, "transport", "",
       "the transport between processes: memory of GPUs on one host, NCCL between hosts (with puts where it can; with puts only; or without), UCX for CPUs",
       Choices{"auto", "inproc", "ipc", "nccl", "nccl-put", "nccl-send", "ucx"}, "auto"},
  };
}

OptionRows report_rows() {
  constexpr const char* group = "Reports";
  return {
      {group, "metrics", "FILE", "one JSON line a step"},
      {group, "tensorboard", "DIR", "TensorBoard event files, readable during the run"},
      {group, "trace", "FILE", "the run's actions for Chrome and Perfetto; a page where it ends in .html, a picture in .svg"},
      {group, "profile", "FILE", "measured costs for simulate --costs"},
      {group, "record", "FILE", "what every stage received and decided, for pipetrain replay"},
      {group, "report", "FILE", "one HTML page with curves, timelines, memory and settings, rewritten during the run"},
      {group, "serve", "PORT",
       "show the report, always up to date, to browsers on this host at this port; 0 takes a free one. The run prints the address with a token, unless `token-file` gives it",
       IntegerRange{0, 65535}, "off"},
      {group, "peak-tflops", "X", "peak TFLOP/s of one device, of which MFU is a share",
       NumberRange{.above = true, .has_maximum = true, .maximum = 1e9}, "of known GPUs: as published"},
      {group, "log-interval", "N", "steps between two lines of progress (a terminal shows every step)", IntegerRange{},
       fmt::format("{}", TrainOptions{}.log_interval)},
  };
}

OptionRows watch_rows() {
  constexpr const char* group = "Watch";
  const WatchSettings usual;
  return {
      {group, "watch-slow", "PERCENT", "report a stage that computes for this much longer than simulated; 0: never",
       NumberRange{}, fmt::format("{}", usual.slow * 100)},
      {group, "watch-slow-steps", "N", "consecutive steps for that, and first steps whose costs are simulated",
       IntegerRange{1, 1'000'000}, fmt::format("{}", usual.slow_steps)},
      {group, "watch-loss-spike", "X", "report a loss X standard deviations above the last 50; 0: never", NumberRange{},
       fmt::format("{}", usual.loss_spike)},
      {group, "watch-norm-growth", "X", "report a gradient norm X times its least value so far; 0: never", NumberRange{},
       fmt::format("{}", usual.norm_growth)},
  };
}

OptionRows general_rows() {
  return joined_rows({
      {{"General", "config", "FILE",
        "options from a TOML or JSON file, by their names here; also a DeepSpeed JSON, a torchtitan TOML, or Megatron-LM's arguments (.args)"},
       {"General", "save-config", "FILE", "write the options of this run, wherever they came from, as a file for --config"}},
      settings_of("General"),
      {{"General", "dry-run", "", "print the plan and the memory of each device, and stop; status 1 if it does not fit",
        OnOff{}, "off"}},
      page_options(),
  });
}

}  // namespace

const OptionRows& train_option_table() {
  static const OptionRows table =
      joined_rows({settings_of("Model and data"), settings_of("Preferences"), settings_of("Evaluation"), settings_of("Layout"),
                   retune_rows(), settings_of("Batch and length"), settings_of("Optimizer"), settings_of("Adapters"),
                   settings_of("Numbers and devices"), process_rows(), settings_of("Checkpoints"), report_rows(), watch_rows(),
                   general_rows()});
  return table;
}

}  // namespace pipetrain
