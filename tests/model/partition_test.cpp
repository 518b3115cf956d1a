#include <algorithm>
#include <limits>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/config/cut.hpp"
#include "model/costs.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {
namespace {

double cost(const ModelConfig& config, const std::vector<Block>& run, std::int64_t sequence) {
  double sum = 0;
  for (const Block& block : run) sum += block_flops_per_token(config, block, sequence);
  return sum;
}

double costliest(const ModelConfig& config, const std::vector<std::vector<Block>>& runs, std::int64_t sequence) {
  double most = 0;
  for (const auto& run : runs) most = std::max(most, cost(config, run, sequence));
  return most;
}

// Returns the best bound over every way to cut blocks [from, ...) into `parts` ranges, by trying all.
double exhaustive(const ModelConfig& config, const std::vector<Block>& blocks, std::size_t from, int parts,
                  std::int64_t sequence) {
  const auto inner = [](const Block& block) { return block.kind == BlockKind::attention || block.kind == BlockKind::mlp; };
  const auto run_cost = [&](std::size_t begin, std::size_t end) {
    const std::vector<Block> run(blocks.begin() + static_cast<std::ptrdiff_t>(begin),
                                 blocks.begin() + static_cast<std::ptrdiff_t>(end));
    return std::any_of(run.begin(), run.end(), inner) ? cost(config, run, sequence) : std::numeric_limits<double>::infinity();
  };
  if (parts == 1) return run_cost(from, blocks.size());
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t end = from + 1; end < blocks.size(); ++end) {
    best = std::min(best, std::max(run_cost(from, end), exhaustive(config, blocks, end, parts - 1, sequence)));
  }
  return best;
}

std::vector<Block> joined(const std::vector<std::vector<Block>>& runs) {
  std::vector<Block> all;
  for (const auto& run : runs) all.insert(all.end(), run.begin(), run.end());
  return all;
}

TEST_CASE("partitions keep every block in order and are as good as trying all cuts") {
  ModelConfig config = preset_config("tiny");
  config.layers = GENERATE(1, 3, 5);
  config.vocabulary = GENERATE(64, 3000);
  config.intermediate = GENERATE(64, 1024);
  for (int parts = 1; parts <= std::min<int>(5, static_cast<int>(2 * config.layers)); ++parts) {
    const auto runs = partition_blocks(config, parts, 64);
    REQUIRE(runs.size() == static_cast<std::size_t>(parts));
    CHECK(joined(runs) == blocks_of(config));
    CHECK(costliest(config, runs, 64) == exhaustive(config, blocks_of(config), 0, parts, 64));
    CHECK(runs == partition_blocks(config, parts, 64));
  }
}

TEST_CASE("a model of thousands of layers is cut as level as a small one") {
  ModelConfig config = preset_config("tiny");
  config.layers = 10'000;
  for (const int parts : {1, 2, 7, 1000}) {
    const auto runs = partition_blocks(config, parts, 64);
    INFO(parts << " parts");
    CHECK(joined(runs) == blocks_of(config));
    const double even = cost(config, blocks_of(config), 64) / parts;
    const double largest_block = cost(config, {{BlockKind::mlp, 0}, {BlockKind::head, 0}}, 64);
    CHECK(costliest(config, runs, 64) < even + largest_block);
    for (std::size_t part = 1; part + 1 < runs.size(); ++part) CHECK(cost(config, runs[part], 64) > even - 2 * largest_block);
  }
}

TEST_CASE("a stage may hold a single block, and the head's stage holds fewer layers") {
  const ModelConfig tiny = preset_config("tiny");
  const auto single = partition_blocks(tiny, 8, 128);
  CHECK(single.front() == std::vector<Block>{{BlockKind::embedding, 0}, {BlockKind::attention, 0}});
  CHECK(single[3] == std::vector<Block>{{BlockKind::mlp, 1}});
  CHECK(single.back() == std::vector<Block>{{BlockKind::mlp, 3}, {BlockKind::head, 0}});

  const ModelConfig large = preset_config("llama3-8b");  // its head costs as much as two and a half layers
  const auto stages = partition_blocks(large, 4, 4096);
  CHECK(stages.back().size() < stages.front().size());
  // Within the bound that the costliest sets, the others are even: none of the equal stages is starved.
  CHECK(cost(large, stages[0], 4096) > 0.85 * costliest(large, stages, 4096));
  CHECK(cost(large, stages[1], 4096) > 0.85 * costliest(large, stages, 4096));
}

TEST_CASE("recomputation makes the head's share smaller, and its stage takes more layers") {
  const ModelConfig large = preset_config("llama3-8b");
  std::size_t blocks_more = 0;
  for (const int parts : {2, 4, 8, 16}) {
    const auto none = partition_blocks(large, parts, 4096),
               full = partition_blocks(large, parts, 4096, {.recompute = Recompute::full});
    CHECK(partition_blocks(large, parts, 4096, {.recompute = Recompute::selective}) == none);
    CHECK(joined(full) == blocks_of(large));
    CHECK(full.back().size() >= none.back().size());
    blocks_more += full.back().size() - none.back().size();
  }
  CHECK(blocks_more > 0);
}

TEST_CASE("if equally many layers of each part recompute, the parts are those of less recomputation") {
  const ModelConfig large = preset_config("llama3-8b");
  for (const int parts : {2, 4, 8}) {
    const Numerics some{.recompute = Recompute::full, .recompute_layers = 2};
    CHECK(partition_blocks(large, parts, 4096, some) == partition_blocks(large, parts, 4096));
  }
}

TEST_CASE("the second forward of a head in slices or chunks counts, and its stage takes fewer layers") {
  const ModelConfig large = preset_config("llama3-8b");
  for (const int parts : {2, 4, 8}) {
    const auto whole = partition_blocks(large, parts, 4096), slices = partition_blocks(large, parts, 4096, {}, 4);
    CHECK(slices == partition_blocks(large, parts, 4096, {.loss_chunks = 4}));
    CHECK(slices == partition_blocks(large, parts, 4096, {.loss_chunks = 4}, 2));
    CHECK(slices.back().size() <= whole.back().size());
    const double head = block_recompute_flops_per_token(large, slices.back().back(), 4096, Recompute::none, 4);
    CHECK(head == 2.0 * static_cast<double>(large.hidden * large.vocabulary));
    const auto heaviest = [&](const auto& runs) {
      return std::max(costliest(large, runs, 4096), cost(large, runs.back(), 4096) + head);
    };
    CHECK(heaviest(slices) <= heaviest(whole));
  }
  CHECK(partition_blocks(large, 8, 4096, {}, 4) != partition_blocks(large, 8, 4096));
}

TEST_CASE("a cut assigns its numbers of blocks, and can be read back from them") {
  ModelConfig config = preset_config("tiny");
  config.layers = 3;
  for (const Cut& cut : {Cut{6}, Cut{1, 5}, Cut{2, 1, 3}, Cut{1, 1, 1, 1, 1, 1}}) {
    const int parts = static_cast<int>(cut.size());
    const auto runs = cut_blocks(config, cut, parts);
    REQUIRE(std::ssize(runs) == parts);
    CHECK(joined(runs) == blocks_of(config));
    CHECK(cut_of(runs) == cut);
    CHECK(runs.front().front().kind == BlockKind::embedding);
    CHECK(runs.back().back().kind == BlockKind::head);
  }
  CHECK(cut_text({5, 7, 8, 4}) == "5,7,8,4");
  for (int parts = 1; parts <= 6; ++parts) {
    const auto by_cost = partition_blocks(config, parts, 64);
    CHECK(cut_blocks(config, cut_of(by_cost), parts) == by_cost);
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const Cut& wrong : {Cut{6, 0}, Cut{7, -1}, Cut{3, 2}, Cut{3, 4}, Cut{most, most}, Cut{2, 2, 2}})
    CHECK_THROWS_AS(cut_blocks(config, wrong, 2), Error);
}

TEST_CASE("large models are cut over many stages") {
  ModelConfig config = preset_config("llama2-70b");
  for (const int parts : {64, 160}) {
    const auto runs = partition_blocks(config, parts, 4096);
    CHECK(runs.size() == static_cast<std::size_t>(parts));
    CHECK(joined(runs) == blocks_of(config));
  }
  config.layers = 2000;
  CHECK(joined(partition_blocks(config, 64, 4096)) == blocks_of(config));
}

TEST_CASE("more stages than attention and MLP blocks are refused, naming both") {
  ModelConfig config = preset_config("tiny");
  config.layers = 3;
  const auto text = [&](int parts) -> std::string {
    try {
      partition_blocks(config, parts, 16);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return error.what();
    }
    return "";
  };
  CHECK(text(6).empty());
  CHECK(text(7) ==
        "pp: the model's 6 attention and MLP blocks, two a layer, are too few for 7 stages; use 6 or fewer (pp x chunks), or a "
        "model of more layers");
  CHECK(text(0) == "0 stages: at least 1 is needed");
}

}  // namespace
}  // namespace pipetrain
