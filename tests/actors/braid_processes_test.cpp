// Braids of ranks that share matrices or experts and run in different processes: the bits of one process, whatever the progress
// of each, and one end for all.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/mesh.hpp"
#include "hooked_ops.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Matchers::Contains;

namespace {

Layout braided_over(Layout layout, int ep = 1) {
  layout.schedule = "braided-v";
  layout.chunks = 2;
  layout.ep = ep;
  return layout;
}

TinyRun braided_run(const Layout& layout) {
  return {.family = layout.ep > 1 ? Family::qwen2_moe : Family::llama,
          .layers = 4,
          .sequence = 12,
          .microbatches = 4,
          .layout = layout};
}

// Delays the rank with this seed before some of its operations, on the threads of both actions of its braids.
WrapOps uneven_progress(std::uint32_t run) {
  return [run](std::unique_ptr<Ops> ops, const MeshCoordinate& id) {
    const auto rank = static_cast<std::uint32_t>(id.pp + 3 * id.tp + 7 * id.ep + 11 * id.dp);
    const auto state = std::make_shared<std::atomic<std::uint32_t>>(run * 7919 + rank * 104729 + 1);
    return make_hooked_ops(std::move(ops), [state] {
      const std::uint32_t drawn = *state = *state * 1664525U + 1013904223U;
      if (drawn >> 30 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn >> 16 & 511U));
    });
  };
}

}  // namespace

TEST_CASE("braids give the bits of one process however unevenly the processes of a stage proceed",
          "[braids][processes][experts]") {
  for (const auto& [layout, processes] : {std::pair{braided_over({1, 2}), 2}, std::pair{braided_over({2, 2}), 4},
                                          std::pair{braided_over({1, 1, 2}, 2), 2}, std::pair{braided_over({1, 2, 2}, 2), 4},
                                          std::pair{braided_over({2, 1, 2}, 2), 2}, std::pair{braided_over({2, 1, 2}, 2), 4}}) {
    const TinyRun tiny = braided_run(layout);
    TinyRun plain = tiny;
    plain.layout.schedule = "1f1b";
    plain.layout.chunks = plain.layout.pp = 1;
    const RunRecord one = run(plain);
    for (const std::uint32_t seed : {1U, 2U}) {
      INFO(processes << " processes, seed " << seed << ": " << to_string(tiny));
      CHECK((run_over(processes, [&] {
               TrainJob job = job_of(tiny);
               job.wrap_ops = uneven_progress(seed);
               return job;
             }) == one));
    }
  }
}

TEST_CASE("a rank that fails within a braid ends every process of its stage with its cause", "[braids][processes][experts]") {
  for (const Layout& layout : {braided_over({1, 2}), braided_over({1, 1, 2}, 2)}) {
    for (const FaultKind kind : {FaultKind::raise, FaultKind::hang}) {
      INFO(to_string(layout));
      const auto failures = lead(
          MemoryHub::make(2),
          [&, kind = kind](int) {
            TrainJob job = job_of(braided_run(layout));
            job.fault = Fault{1, 2, kind};
            if (kind == FaultKind::hang) job.stall = std::chrono::milliseconds(150);
            return job;
          },
          [](Trainer& trainer) {
            for (int step = 0; step < 3; ++step) trainer.step();
          });
      for (const std::string& failure : failures) {
        CHECK_THAT(failure, Contains(kind == FaultKind::raise ? "in step 2: a fault was asked for" : "no action completed"));
        CHECK_THAT(failure, !Contains("not everything stopped"));
      }
    }
  }
}
