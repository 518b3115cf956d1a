// Measures a row: our program and the peer as processes of their own, and parts of this program likewise, so that each starts
// on GPUs that nobody else holds and a failure of one leaves the others.
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

// Where to find what is run.
struct Programs {
  std::string ours, self;
  std::string torchrun, peer_script;  // peer_script empty: there is no peer
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};
// From BENCH_PROGRAM, PIPETRAIN_TORCHRUN, PIPETRAIN_TORCH_PEER, and the folder that this program lies in. Throws Error(input)
// for a program or script that is not there.
Programs find_programs();

struct ScheduleResult {
  Schedule schedule;
  RunFigures figures;
  double predicted = 0;                  // seconds of a step, simulated with the costs measured in this very run; 0: with none
  std::optional<double> from_split_run;  // the same with those of the zb-h1 run: what ranks the schedules
};

struct RowResult {
  Row row;
  // The first stands for the row: the fastest of those that take no more memory than the peer's fastest, where there are any.
  // The others by speed.
  std::vector<ScheduleResult> ours;
  std::vector<RunFigures> peers;  // the fastest first
  std::vector<double> ratios;     // ours to the peer's in the same round, the first variants of both
  std::optional<RunFigures> not_deterministic;
  std::optional<RowLimit> limit;
  std::vector<LimitOp> limit_ops;
  std::optional<TimeShares> shares;
  double taken_bytes = 0;          // of the fullest GPU, by the driver; 0: not measured
  std::vector<std::string> notes;  // what failed or was left out, and why

  bool failed = false;  // something that should have run did not
};

// The first whose actions are measured apart, which the shares are of; null where there is none.
const ScheduleResult* fastest_apart(const RowResult& result);

// Puts what was measured in the order that RowResult promises.
void sort_runs(RowResult& result);

// `folder`: for the files of the runs.
RowResult run_row(const Row& row, const GpuOptions& options, const Programs& programs, const std::filesystem::path& folder);

}  // namespace pipetrain::bench
