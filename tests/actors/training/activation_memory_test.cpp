// The activations that schedules keep for microbatches in flight, known from the layout alone.
#include "actors/training/rank/stage_memory.hpp"
#include "catch.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;

namespace {

// Returns the bytes that stage 0 of two keeps of four layers, without queues and workspace.
std::size_t activations(const std::string& schedule, int chunks, Recompute recompute = Recompute::none) {
  ModelConfig config = preset_config("tiny");
  config.layers = 8;
  const int stages = 2, microbatches = 8;
  JobSettings settings;
  settings.numerics.recompute = recompute;
  const StageMemory memory(config, {1, 64}, settings);
  const auto plan = schedules::build_schedule(schedule, {.stages = stages, .chunks = chunks, .microbatches = microbatches});
  // Chunks of attention and MLP blocks only, so that all have one size.
  std::vector<std::vector<Block>> blocks(static_cast<std::size_t>(chunks));
  for (int layer = 0; layer < 4; ++layer) {
    for (const BlockKind kind : {BlockKind::attention, BlockKind::mlp})
      blocks[static_cast<std::size_t>(layer / (4 / chunks))].push_back({kind, layer});
  }
  return memory.estimate(blocks, microbatches, schedules::validate(plan)[0]).activations;
}

}  // namespace

TEST_CASE("schedules that split the backward keep as much as 1f1b") {
  CHECK(activations("zb-h1", 1) == activations("1f1b", 1));
  // Two halves of a stage keep one tensor less than a whole: the tensor between them waits in a queue.
  CHECK(activations("zb-v", 2) < activations("1f1b", 1));
  CHECK(activations("zb-v", 2) > 0.95 * static_cast<double>(activations("1f1b", 1)));
  CHECK(activations("v-half", 2) <= activations("zb-v", 2));
  // Values that are computed again for W are kept until then.
  CHECK(activations("zb-h1", 1, Recompute::selective) > activations("1f1b", 1, Recompute::selective));
}
