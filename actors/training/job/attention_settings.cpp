#include "actors/training/job/attention_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// DeepSpeed's configurations by their defaults: blocks of 16 positions.
constexpr std::int64_t sparse_block = 16;
// FixedSparsityConfig: four blocks attend to each other, and all later ones to the last of them.
constexpr AttentionSight fixed_sight{
    .window = 4 * sparse_block, .block = 4 * sparse_block, .period = 4 * sparse_block, .stripe = sparse_block};
// BSLongformerSparsityConfig: a window of three blocks, of which a causal query sees its own and the one before it, and the
// first block.
constexpr AttentionSight longformer_sight{.window = 2 * sparse_block, .sinks = sparse_block, .block = sparse_block};

AttentionSight sight_named(const std::string& name, const AttentionSettings& settings) {
  if (name == "full") return {};
  if (name == "fixed") return fixed_sight;
  if (name == "longformer") return longformer_sight;
  if (name != "window")
    throw Error(ErrorKind::input, {"attention-pattern", settings.patterns},
                "must be names among full, window, fixed and longformer, with commas between");
  if (settings.window == 0)
    throw Error(ErrorKind::input, {"attention-pattern", settings.patterns}, "the window needs its length; give window");
  return {.window = settings.window, .sinks = settings.sinks};
}

}  // namespace

void set_attention(const AttentionSettings& settings, ModelConfig& config) {
  if (!settings.any()) return;
  if (settings.sinks > 0 && settings.window == 0)
    throw Error(ErrorKind::input, {"sinks", fmt::format("{}", settings.sinks)},
                "without a window every query sees the first positions; give window, or leave it out");
  const std::string patterns = settings.patterns.empty() ? "window" : settings.patterns;
  config.attention.clear();
  bool uses_window = false;
  for (std::size_t begin = 0; begin <= patterns.size();) {
    const std::size_t end = std::min(patterns.find(',', begin), patterns.size());
    const std::string name = patterns.substr(begin, end - begin);
    config.attention.push_back(sight_named(name, settings));
    uses_window = uses_window || name == "window";
    begin = end + 1;
  }
  if (settings.window > 0 && !uses_window)
    throw Error(ErrorKind::input, {"window", fmt::format("{}", settings.window)},
                "no layer of attention-pattern is a window; leave one of them out");
}

}  // namespace pipetrain
