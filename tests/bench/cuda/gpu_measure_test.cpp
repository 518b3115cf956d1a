// The measurements of bench gpu on a GPU, at a small size.
#include <utility>

#include "bench/gpu/our_run.hpp"
#include "bench/gpu/row_limit.hpp"
#include "bench/gpu/time_shares.hpp"
#include "catch.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::bench;

namespace {

Row small_row(int pp, int tp) {
  Row row;
  row.model = "llama3.2-1b";
  row.layers = 2;
  row.pp = pp, row.tp = tp;
  row.sequence = 512;
  row.microbatches = 4;
  return row;
}

bool gpus_here(int count) { return test::needs_gpus(cuda_device_count(), count); }

}  // namespace

TEST_CASE("the limit of a row is measured on a GPU in bf16", "[gpu]") {
  if (!gpus_here(1)) return;
  const Row row = small_row(1, 1);
  auto ops = limit_ops(row);
  OpBench bench = gpu_op_bench();
  measure_limit(bench, row, ops, 0.05, 0.1);
  for (const auto& op : ops) {
    INFO(op.name << " " << op.seconds);
    CHECK(op.flops / op.seconds > 1e12);
    CHECK(op.flops / op.seconds < 1e16);
  }
}

TEST_CASE("a step's time on GPUs is divided into shares", "[gpu]") {
  for (const auto& [pp, tp] : {std::pair(1, 1), {2, 1}, {1, 2}}) {
    if (!gpus_here(pp * tp)) return;
    INFO("pp " << pp << " tp " << tp);
    const Row row = small_row(pp, tp);
    TempFolder folder;
    write_random_tokens(row, folder.path() / "tokens.jsonl");
    const StepMeasures measures = measure_step(row, {}, folder.path() / "tokens.jsonl", 2);
    REQUIRE(measures.taken.size() == static_cast<std::size_t>(pp * tp));
    for (const double bytes : measures.taken) CHECK(bytes > 1e9);
    const TimeShares& shares = measures.shares;
    CHECK(shares.seconds > 0);
    CHECK(shares.matrices > 0.05);
    CHECK(shares.attention > 0);
    CHECK(shares.elementwise > 0);
    CHECK(shares.bubble >= 0);
    CHECK(shares.bubble < 0.9);
    if (tp == 1) CHECK(shares.communication == 0);
    CHECK(shares.matrices + shares.attention + shares.elementwise < 1.2);
    CHECK(shares.launch_bound >= 0);
    CHECK(shares.launch_bound <= 1);
  }
}
