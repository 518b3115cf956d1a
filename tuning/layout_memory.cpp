#include "tuning/layout_memory.hpp"

#include <limits>

namespace pipetrain {

using schedules::Placement;
using schedules::StageNeeds;

const StageMemory& LayoutMemory::stage_memory(const Layout& layout) {
  const bool braids = layout.braids();
  auto& memory = memories_[{layout.tp, layout.dp, layout.ep, layout.microbatch, layout.recompute, layout.recompute_layers,
                            layout.zero.stage, braids}];
  if (!memory) {
    JobSettings settings;
    settings.layout.tp = layout.tp;
    settings.layout.cp = layout.cp;
    settings.layout.ep = layout.ep;
    settings.batch.dp = layout.dp;
    settings.devices.kind = request_.device;
    settings.numerics = layout.numerics(request_.precision);
    settings.zero = layout.zero;
    settings.offload = request_.offload;
    settings.optimizer = request_.optimizer;
    settings.compression = layout.compression(request_);
    settings.post_validation = request_.post_validation;
    const MicrobatchShape shape{layout.microbatch, request_.sequence / layout.cp};
    memory = std::make_unique<StageMemory>(request_.config, shape, settings, braids);
  }
  return *memory;
}

std::vector<std::vector<Block>> LayoutMemory::chunks_of(const Layout& layout, const Placement& placement, int stage) {
  const auto& blocks = costs_.blocks(layout);
  std::vector<std::vector<Block>> chunks;
  for (int chunk = 0; chunk < layout.chunks; ++chunk)
    chunks.push_back(blocks[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))]);
  return chunks;
}

std::vector<std::vector<double>> LayoutMemory::saved_bytes(const Layout& layout, const Placement& placement) {
  std::vector<std::vector<double>> bytes;
  for (int stage = 0; stage < layout.pp; ++stage) {
    auto& row = bytes.emplace_back();
    for (const ActivationBytes& one : stage_memory(layout).activations(chunks_of(layout, placement, stage)))
      row.push_back(static_cast<double>(one.saved));
  }
  return bytes;
}

std::size_t LayoutMemory::bytes(const Layout& layout, const Placement& placement, const StageUse& use) {
  const auto chunks = chunks_of(layout, placement, use.stage);
  return stage_memory(layout).estimate(chunks, static_cast<int>(layout.microbatches), use.needs, use.actions).total();
}

MemoryUse LayoutMemory::use(const Layout& layout, const schedules::Plan& plan, const StageNeeds& needs, int stage) {
  return stage_memory(layout).estimate(chunks_of(layout, plan.placement, stage), static_cast<int>(layout.microbatches), needs,
                                       plan.stages[static_cast<std::size_t>(stage)]);
}

// True when not even one microbatch's residual stream fits. For so large a batch the sum of all memory may overflow 64 bits.
bool LayoutMemory::is_hopeless(const Layout& layout) const {
  const double elements = static_cast<double>(layout.microbatch) * static_cast<double>(request_.sequence) *
                          static_cast<double>(request_.config.hidden) / layout.tp / layout.cp;
  return elements * static_cast<double>(size_of(request_.precision.compute)) > request_.speed.memory_bytes;
}

std::optional<std::vector<std::size_t>> LayoutMemory::of(const Layout& layout, const schedules::Plan& plan,
                                                         const std::vector<StageNeeds>& needs) {
  if (is_hopeless(layout)) return std::nullopt;
  std::vector<std::size_t> all;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    all.push_back(bytes(layout, plan.placement, {stage, needs[at], plan.stages[at]}));
    if (static_cast<double>(all.back()) > request_.speed.memory_bytes) return std::nullopt;
  }
  return all;
}

double LayoutMemory::of_stage(const Layout& layout, const schedules::Plan& plan, const StageNeeds& needs, int stage) {
  if (is_hopeless(layout)) return std::numeric_limits<double>::infinity();
  return static_cast<double>(bytes(layout, plan.placement, {stage, needs, plan.stages[static_cast<std::size_t>(stage)]}));
}

std::vector<double> LayoutMemory::slots(const Layout& layout, bool all_put_off) {
  if (is_hopeless(layout)) return {};
  const auto placement = Placement::looping(layout.pp, 1);
  std::vector<double> slots;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const bool is_last = stage + 1 == layout.pp;
    const auto fits = [&](std::int64_t held) {
      const int count = static_cast<int>(held);
      const StageNeeds needs{{{count, is_last ? 0 : count, is_last ? count : 0, count, all_put_off ? count : 1}}, 0};
      return static_cast<double>(bytes(layout, placement, {stage, needs, {}})) <= request_.speed.memory_bytes;
    };
    std::int64_t most = 0, above = layout.microbatches + 1;
    while (above - most > 1) {
      const std::int64_t middle = most + (above - most) / 2;
      (fits(middle) ? most : above) = middle;
    }
    if (most == 0) return {};
    slots.push_back(static_cast<double>(most));
  }
  return slots;
}

}  // namespace pipetrain
