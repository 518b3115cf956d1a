// Computes the memory of a layout's devices as a run does.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "actors/training/rank/stage_memory.hpp"
#include "schedules/plan/validate.hpp"
#include "tuning/layout_costs.hpp"

namespace pipetrain {

// Caches its results, so it is not thread-safe. The request and the costs must outlive it.
class LayoutMemory {
 public:
  LayoutMemory(const LayoutRequest& request, LayoutCosts& costs) : request_(request), costs_(costs) {}

  // Returns the bytes of each device of every stage; no value when one does not fit.
  std::optional<std::vector<std::size_t>> of(const Layout& layout, const schedules::Plan& plan,
                                             const std::vector<schedules::StageNeeds>& needs);
  // Returns the bytes of the first device of a stage, and those that it keeps elsewhere.
  MemoryUse use(const Layout& layout, const schedules::Plan& plan, const schedules::StageNeeds& needs, int stage);
  // Returns the bytes of each device of one stage.
  double of_stage(const Layout& layout, const schedules::Plan& plan, const schedules::StageNeeds& needs, int stage);
  // Returns the bytes that a device of each [stage][chunk] keeps of one microbatch from F on.
  std::vector<std::vector<double>> saved_bytes(const Layout& layout, const schedules::Placement& placement);
  // Returns the most microbatches that each stage of a layout with one chunk a stage could hold, if the weight
  // gradients of one or of all of them wait for W. Empty where some stage has no room for one.
  std::vector<double> slots(const Layout& layout, bool all_put_off);

 private:
  const StageMemory& stage_memory(const Layout& layout);
  std::vector<std::vector<Block>> chunks_of(const Layout& layout, const schedules::Placement& placement, int stage);
  bool is_hopeless(const Layout& layout) const;
  // The memory without knowledge of a plan's actions, as if no gradients shared memory.
  struct StageUse {
    int stage = 0;
    const schedules::StageNeeds& needs;
    std::vector<schedules::Action> actions;
  };
  std::size_t bytes(const Layout& layout, const schedules::Placement& placement, const StageUse& use);

  const LayoutRequest& request_;
  LayoutCosts& costs_;
  // Key: tp, dp, microbatch, recomputation, its layers, stage of ZeRO, and whether the plan braids.
  using Key = std::tuple<int, int, int, std::int64_t, Recompute, std::optional<std::int64_t>, int, bool>;
  std::map<Key, std::unique_ptr<StageMemory>> memories_;
};

}  // namespace pipetrain
