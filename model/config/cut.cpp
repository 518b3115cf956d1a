#include "model/config/cut.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/counted.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

void check(const ModelConfig& config, const Cut& cut, int parts) {
  const auto fail = [&](const std::string& why) { throw Error(ErrorKind::input, {"cut", cut_text(cut)}, why); };
  if (std::ssize(cut) != parts)
    fail(fmt::format("cuts the model into {}, and the run has {} virtual stages (pp x chunks); give one number for each",
                     counted(std::ssize(cut), "part"), parts));
  const std::int64_t blocks = dealt_blocks(config);
  std::int64_t left = blocks;
  for (std::size_t v = 0; v < cut.size(); ++v) {
    if (cut[v] < 1) fail(fmt::format("virtual stage {} is to hold {} blocks; give each at least 1", v, cut[v]));
    if (cut[v] > left) left = -1;
    if (left >= 0) left -= cut[v];
  }
  if (left == 0) return;
  fail(fmt::format("must add up to the model's {} attention and MLP blocks, two for each of its {}, and adds up to {}", blocks,
                   counted(config.layers, "layer"), left < 0 ? "more" : fmt::format("{}", blocks - left)));
}

}  // namespace

std::string cut_text(const Cut& cut) { return fmt::format("{}", fmt::join(cut, ",")); }

Cut cut_of(const std::vector<std::vector<Block>>& parts) {
  Cut cut;
  for (const auto& part : parts) {
    std::int64_t inner = 0;
    for (const Block& block : part) {
      if (block.kind == BlockKind::mtp) break;  // the blocks after it go with the head
      inner += is_of_layer(block.kind);
    }
    cut.push_back(inner);
  }
  return cut;
}

std::vector<std::vector<Block>> cut_blocks(const ModelConfig& config, const Cut& cut, int parts) {
  check(config, cut, parts);
  const std::vector<Block> blocks = blocks_of(config);
  std::vector<std::vector<Block>> runs;
  auto at = blocks.begin();
  for (std::size_t v = 0; v < cut.size(); ++v) {
    const auto end = v + 1 == cut.size() ? blocks.end() : at + static_cast<std::ptrdiff_t>(cut[v] + (v == 0 ? 1 : 0));
    runs.emplace_back(at, end);
    at = end;
  }
  return runs;
}

}  // namespace pipetrain
