// Offloading when replicas divide states, weights and gradients, or sum gradients, gives the bits of runs on the devices.
#include <filesystem>

#include "catch.hpp"
#include "golden_run.hpp"
#include "several_blocks.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

struct Numbers {
  Precision precision;
  bool tied = false;
};

RunRecord run_with(const Layout& layout, const Numbers& numbers, const Offload& offload) {
  TrainJob job = random_job(several_blocks_config(numbers.tied), 16, 12, layout);
  job.numerics.precision = numbers.precision;
  job.offload = offload;
  if (offload.any()) job.offload.folder = std::filesystem::temp_directory_path();
  return run(std::move(job), 3);
}

}  // namespace

TEST_CASE("replicas that divide states offload their shares, to the same bits") {
  Layout layout{2, 1, 2, 1};
  const RunRecord plain = run_with(layout, {}, {});
  for (layout.zero = 1; layout.zero <= most_zero_stages; ++layout.zero) {
    INFO(to_string(layout));
    CHECK((run_with(layout, {}, {.optimizer = true}) == plain));
  }
}

TEST_CASE("replicas that divide weights offload their runs of them, in every precision, to the same bits") {
  for (Layout layout :
       {Layout{1, 1, 2, 1}, Layout{2, 1, 3, 1, "zb-v", 2}, Layout{1, 2, 2, 2}, Layout{2, 1, 4, 1, "looped-bfs", 2}}) {
    for (const Numbers& numbers : {Numbers{Precision::fp32(), layout.microbatch == 2}, {Precision::bf16(), layout.dp == 2}}) {
      layout.zero = 0;
      const RunRecord expected = run_with(layout, numbers, {});
      for (layout.zero = 1; layout.zero <= most_zero_stages; ++layout.zero) {
        layout.prefetch = layout.zero == 2 ? 0 : layout.zero;
        INFO(to_string(layout) << (numbers.tied ? ", tied" : ""));
        CHECK((run_with(layout, numbers, {.optimizer = layout.zero != 2, .parameters = true}) == expected));
      }
    }
  }
}

TEST_CASE("replicas add gradients up that lie on a disk, with every stage of ZeRO, to the same bits") {
  for (Layout layout : {Layout{1, 1, 2, 1}, Layout{1, 1, 2, 6}, Layout{2, 1, 3, 1, "zb-v", 2}, Layout{1, 2, 2, 2},
                        Layout{2, 1, 2, 1, "interleaved", 2, Order::ready}}) {
    const Numbers numbers{Precision::fp32(), layout.microbatch == 1};
    const RunRecord expected = run_with(layout, numbers, {});
    const bool planned = layout.order == Order::planned;
    for (layout.zero = 0; layout.zero <= (planned ? most_zero_stages : 2); ++layout.zero) {
      const bool others = layout.zero % 2 == 1 && planned;
      INFO(to_string(layout) << (numbers.tied ? ", tied" : "") << (others ? ", with all else" : ""));
      CHECK((run_with(layout, numbers, {.optimizer = others, .parameters = others, .gradients = true}) == expected));
    }
  }
}
