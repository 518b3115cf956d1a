#include "tuning/layout_candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "actors/training/job/combinations.hpp"
#include "core/error.hpp"
#include "model/families/adapter_tensors.hpp"
#include "model/fp8_weights.hpp"
#include "tuning/cut_layouts.hpp"

namespace pipetrain {

namespace {

using schedules::Placement;
using schedules::ScheduleInfo;

// The most stages x chunks x microbatches of one layout that can be simulated in a few seconds: for a single step, and
// with post-validation, where several follow each other.
constexpr std::int64_t most_work = std::int64_t{1} << 22, most_work_of_following = std::int64_t{1} << 16;

class Enumeration {
 public:
  Enumeration(const LayoutRequest& request, const LayoutVariants& variants, LayoutCosts& costs)
      : request_(request), variants_(variants), costs_(costs) {}

  LayoutCandidates run() {
    const int rings = request_.devices % request_.cp == 0 ? request_.devices / request_.cp : 0;
    for (int tp = 1; tp <= std::min(request_.most_tp, rings); ++tp)
      if (rings % tp == 0 && request_.devices / request_.hosts % tp == 0 && splits(tp))
        for (int pp = 1; pp <= rings / tp; ++pp)
          if (rings / tp % pp == 0 && pp == request_.pp.value_or(pp)) add_batches(pp, tp, rings / tp / pp);
    if (found_.looked_at == 0)
      throw Error(ErrorKind::input, {"devices", std::to_string(request_.devices)},
                  fmt::format("no pp x tp x dp takes them all with this model and a global batch of {}; use another number of "
                              "devices or a batch that more of them divide",
                              request_.global_batch));
    if (found_.by_bound.empty() && found_.too_long > 0) refuse_long_work();
    std::stable_sort(found_.by_bound.begin(), found_.by_bound.end(),
                     [](const LayoutCandidate& a, const LayoutCandidate& b) { return a.bound < b.bound; });
    return std::move(found_);
  }

 private:
  bool splits(int tp) const {
    const ModelConfig& config = request_.config;
    if (request_.precision.fp8_products && fp8_misfit(config, tp)) return false;
    return splits_over(config, tp);
  }

  void add_batches(int pp, int tp, int dp) {
    if (request_.global_batch % dp != 0) return;
    const std::int64_t sequences = request_.global_batch / dp;  // of one replica
    for (std::int64_t microbatch = 1; microbatch <= sequences; microbatch *= 2) {
      if (sequences % microbatch != 0) continue;
      for (int ep = 1; ep <= dp; ++ep)
        if (divides_experts(ep, dp))
          add_schedules({.pp = pp,
                         .tp = tp,
                         .dp = dp,
                         .microbatch = microbatch,
                         .microbatches = sequences / microbatch,
                         .cp = request_.cp,
                         .ep = ep});
    }
  }

  bool divides_experts(int ep, int dp) const {
    if (ep == 1) return true;
    if (request_.config.routed_layers() == 0 || dp % ep != 0 || request_.config.experts.count % ep != 0) return false;
    UsedFeatures used{request_.device};
    used.add(Feature::expert_parallel, "ep", std::to_string(ep));
    if (request_.compression.gradients != BlockCode::none) used.add(Feature::compressed_gradients, "compress-gradients", "");
    if (adapts_experts(request_.config)) used.add(Feature::expert_adapters, "lora-targets", "");
    return find_refused(used) == nullptr;
  }

  void add_schedules(Layout layout) {
    for (const ScheduleInfo& info : schedules::all_schedules()) {
      if (info.name == "solver") continue;  // auto's plan for every layout takes long enough
      if (info.uses_costs && !request_.with_auto) continue;
      if (layout.pp == 1 && info.name != "1f1b" && !info.braids) continue;
      if (info.braids && !can_braid(request_, layout)) continue;
      layout.schedule = info.name;
      layout.chunks = info.default_chunks;
      add(layout, info);
      for (int chunks = 2 * info.default_chunks; info.chunks_can_vary && chunks <= 8; chunks *= 2) {
        layout.chunks = chunks;
        add(layout, info);
      }
    }
  }

  void add(Layout layout, const ScheduleInfo& info) {
    if (layout.pp * layout.chunks > 2 * request_.config.layers) return;
    if (!request_.cut.empty() && std::ssize(request_.cut) != layout.pp * layout.chunks) return;
    layout.cut = request_.cut;
    ++found_.looked_at;
    if (request_.progress) request_.progress({.bounded = found_.looked_at});
    const auto placement =
        info.uses_costs ? Placement::looping(layout.pp, 1) : info.build({layout.pp, layout.chunks, 1}).placement;
    constexpr double unbounded = std::numeric_limits<double>::infinity();
    double bound = unbounded, state = unbounded;  // the minimum over the ways to recompute and to divide state
    for (Layout with : variants_.all(layout)) {
      state = std::min(state, costs_.most_state_bytes(with, placement));
      bound = std::min(bound, costs_.bound(with, placement));
      if (!info.uses_costs || !can_halve(request_, layout)) continue;
      with.chunks = 2;
      bound = std::min(bound, costs_.bound(with, Placement::v_shape(layout.pp)));
    }
    if (state > request_.speed.memory_bytes) {
      ++found_.too_large;
      return;
    }
    if (const std::int64_t work = layout.pp * layout.chunks * layout.microbatches; work > most()) {
      least_left_out_ = found_.too_long++ == 0 ? work : std::min(least_left_out_, work);
      return;
    }
    found_.by_bound.push_back({layout, &info, bound});
  }

  std::int64_t most() const { return request_.post_validation ? most_work_of_following : most_work; }

  [[noreturn]] void refuse_long_work() const {
    throw Error(
        ErrorKind::input, {"global-batch", std::to_string(request_.global_batch)},
        fmt::format("pp x chunks x microbatches is at least {}, more than {}, the most that is simulated of one layout; "
                    "use a smaller batch",
                    least_left_out_, most()));
  }

  const LayoutRequest& request_;
  const LayoutVariants& variants_;
  LayoutCosts& costs_;
  LayoutCandidates found_;
  std::int64_t least_left_out_ = 0;  // the least work of a layout that would take too long
};

}  // namespace

LayoutCandidates layout_candidates(const LayoutRequest& request, const LayoutVariants& variants, LayoutCosts& costs) {
  return Enumeration(request, variants, costs).run();
}

}  // namespace pipetrain
