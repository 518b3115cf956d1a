// Measures a row. Our program, the peer and parts of this program run as separate processes, so that each starts on
// free GPUs and a failure of one leaves the others.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/command.hpp"
#include "bench/gpu/gpu_options.hpp"
#include "bench/gpu/our_run.hpp"
#include "bench/gpu/row_limit.hpp"
#include "bench/gpu/rows.hpp"
#include "bench/gpu/time_shares.hpp"

namespace pipetrain::bench {

// The paths of the programs to run.
struct Programs {
  std::string ours, self;
  std::string torchrun, peer_script;  // peer_script empty: there is no peer
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};
// Reads BENCH_PROGRAM, PIPETRAIN_TORCHRUN, PIPETRAIN_TORCH_PEER, and the folder of this program. Throws Error(input)
// for a missing program or script.
Programs find_programs();

struct ScheduleResult {
  Schedule schedule;
  RunFigures figures;
  double predicted = 0;  // seconds of a step, simulated with the costs measured in the same run; 0: there are none
  std::optional<double> from_split_run;  // simulated with the costs of the zb-h1 run, which ranks the schedules
};

struct RowResult {
  Row row;
  // The first represents the row: the fastest of those that take no more memory than the peer's fastest, if there are
  // any. The others are ordered by speed.
  std::vector<ScheduleResult> ours;
  std::vector<RunFigures> peers;  // the fastest first
  std::vector<double> ratios;     // our throughput over the peer's in the same round, for the first variants of both
  std::optional<RunFigures> not_deterministic;
  std::optional<RowLimit> limit;
  std::vector<LimitOp> limit_ops;
  std::optional<TimeShares> shares;
  double taken_bytes = 0;          // of the fullest GPU, as the driver reports; 0: not measured
  std::vector<std::string> notes;  // the rows that failed or were left out, and why

  bool failed = false;  // true when something failed that should have run
};

// Returns the first schedule whose actions are measured separately, to which the shares relate; null if there is none.
const ScheduleResult* fastest_apart(const RowResult& result);

// Sorts the measured runs in the order that RowResult promises.
void sort_runs(RowResult& result);

// `folder`: for the files of the runs.
RowResult run_row(const Row& row, const GpuOptions& options, const Programs& programs, const std::filesystem::path& folder);

}  // namespace pipetrain::bench
