#include "tuning/layout_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <stdexcept>

#include "actors/training/transformer_compute.hpp"
#include "core/error.hpp"
#include "model/fp8_weights.hpp"
#include "model/mode_names.hpp"
#include "schedules/activation_offload.hpp"
#include "schedules/auto_schedule.hpp"
#include "schedules/builders.hpp"
#include "schedules/simulate.hpp"
#include "schedules/solver.hpp"
#include "tuning/cut_layouts.hpp"
#include "tuning/layout_costs.hpp"
#include "tuning/layout_memory.hpp"
#include "tuning/whole_step.hpp"

namespace pipetrain {

namespace {

using schedules::Placement;
using schedules::Plan;
using schedules::ScheduleInfo;

// A layout, and a lower bound of the time that its simulation gives.
struct Candidate {
  Layout layout;
  const ScheduleInfo* schedule = nullptr;
  double bound = 0;
};

// Work that auto may do in one search: stages x microbatches over all its plans; a few tenths of a millisecond each.
constexpr std::int64_t most_auto_work = 4096;

// Stages x chunks x microbatches of one layout: a few seconds.
constexpr std::int64_t most_layout_work = std::int64_t{1} << 22;

constexpr double never = std::numeric_limits<double>::infinity();

class Search {
 public:
  Search(const LayoutRequest& request, int count)
      : request_(request), count_(static_cast<std::size_t>(count)), costs_(request), memory_(request, costs_) {}

  SearchResult run() {
    for (int tp = 1; tp <= std::min(request_.most_tp, request_.devices); ++tp)
      if (request_.devices / request_.hosts % tp == 0 && splits(tp))
        for (int pp = 1; pp <= request_.devices / tp; ++pp)
          if (request_.devices / tp % pp == 0 && pp == request_.pp.value_or(pp))
            add_batches(pp, tp, request_.devices / tp / pp);
    if (result_.candidates == 0)
      throw Error(ErrorKind::input, {"devices", std::to_string(request_.devices)},
                  fmt::format("no pp x tp x dp takes them all with this model and a global batch of {}; use another number of "
                              "devices or a batch that more of them divide",
                              request_.global_batch));
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (const bool of_auto : {false, true})  // auto last: it is of use only where it beats the others
      for (const Candidate& candidate : candidates_) {
        if (result_.best.size() == count_ && candidate.bound >= result_.best.back().seconds) break;
        if (candidate.schedule->uses_costs != of_auto) continue;
        if (of_auto) {
          judge_auto(candidate);
        } else {
          judge_named(candidate);
        }
      }
    if (request_.search_cuts) search_cuts();
    if (request_.solver_seconds > 0) improve_best();
    if (cuts_) refine_plans();
    return std::move(result_);
  }

 private:
  bool splits(int tp) const {
    const ModelConfig& config = request_.config;
    if (request_.precision.fp8_products && fp8_misfit(config, tp)) return false;
    return config.heads % tp == 0 && config.kv_heads % tp == 0 && config.intermediate % tp == 0;
  }

  void add_batches(int pp, int tp, int dp) {
    if (request_.global_batch % dp != 0) return;
    const std::int64_t sequences = request_.global_batch / dp;  // of one replica
    for (std::int64_t microbatch = 1; microbatch <= sequences; microbatch *= 2)
      if (sequences % microbatch == 0)
        add_schedules({pp, tp, dp, 1, microbatch, sequences / microbatch, "", Recompute::none, {}, {}, nullptr});
  }

  void add_schedules(Layout layout) {
    for (const ScheduleInfo& info : schedules::all_schedules()) {
      if (info.name == "solver") continue;  // auto's plan for every layout takes long enough
      if ((info.uses_costs && !request_.with_auto) || (layout.pp == 1 && info.name != "1f1b")) continue;
      if (info.name == "braided-v" && !can_braid(request_, layout)) continue;
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
    ++result_.candidates;
    const auto placement =
        info.uses_costs ? Placement::looping(layout.pp, 1) : info.build({layout.pp, layout.chunks, 1}).placement;
    double bound = never, state = never;  // the least over the ways to recompute and to divide state
    for (const Layout& with : variants(layout)) {
      state = std::min(state, costs_.most_state_bytes(with, placement));
      bound = std::min(bound, costs_.bound(with, placement));
      if (info.uses_costs && can_halve(layout))
        bound = std::min(bound, costs_.bound(halved(with), Placement::v_shape(layout.pp)));
    }
    if (state > request_.speed.memory_bytes) {
      ++result_.too_large;
      return;
    }
    refuse_long_work(layout);
    candidates_.push_back({layout, &info, bound});
  }

  // Refuses them before it simulates anything.
  void refuse_long_work(const Layout& layout) const {
    const std::int64_t work = layout.pp * layout.chunks * layout.microbatches;
    if (work <= most_layout_work) return;
    throw Error(
        ErrorKind::input, {"global-batch", std::to_string(request_.global_batch)},
        fmt::format("pp {} x chunks {} x microbatches {} is {}, more than {}, the most that is simulated of one layout; "
                    "use a smaller batch",
                    layout.pp, layout.chunks, layout.microbatches, work, most_layout_work));
  }

  // The least first: a layout that fits gains nothing from recomputing more.
  std::vector<Recompute> modes() const {
    if (request_.recompute) return {*request_.recompute};
    return {std::begin(recompute_modes), std::end(recompute_modes)};
  }
  // The fastest first: 1 never takes longer than 0 by these costs, 2 as long as 1, and 3 gathers besides. Offloaded weights are
  // gathered by 1 and 2 too.
  std::vector<int> zeros(const Layout& layout) const {
    if (layout.dp == 1) return {0};
    if (request_.zero) return {*request_.zero};
    if (request_.offload.parameters && !costs_.shares_sooner(layout)) return {0, 1, 2, 3};
    if (layout.schedule == "braided-v") return {1, 2};  // weights that are gathered come for one action at a time
    return {1, 2, 3};
  }
  Layout variant(Layout layout, Recompute mode, int zero) const {
    layout.recompute = mode;
    layout.recompute_layers = request_.recompute_layers;
    layout.zero.stage = zero;
    return layout;
  }
  std::vector<Layout> variants(const Layout& layout) const {
    std::vector<Layout> all;
    for (const Recompute mode : modes())
      for (const int zero : zeros(layout)) all.push_back(variant(layout, mode, zero));
    return all;
  }

  static bool same_sizes(const Layout& a, const Layout& b) {
    return a.pp == b.pp && a.tp == b.tp && a.dp == b.dp && a.microbatch == b.microbatch;
  }
  static bool same_but_memory(const Layout& a, const Layout& b) {
    return same_sizes(a, b) && a.schedule == b.schedule && a.chunks == b.chunks && a.plan == b.plan;
  }

  // auto cuts stages in two where that pays.
  bool can_halve(const Layout& layout) const { return request_.cut.empty() && 2 * layout.pp <= 2 * request_.config.layers; }
  static Layout halved(Layout layout) {
    layout.chunks = 2;
    return layout;
  }

  // The step with activations that leave the devices until their backward.
  struct Moving {
    double fraction = 0;
    WholeStep step;
  };
  // The fastest first; none where nothing is to leave or would free memory.
  std::vector<Moving> movings(const Layout& layout, const Plan& compute) const {
    std::vector<Moving> all;
    if (!request_.offload.activations) return all;
    for (const double fraction : {0.25, 0.5, 0.75, 1.0}) {
      try {
        all.push_back({fraction, whole_step(request_, layout, schedules::offload_activations(compute, fraction))});
      } catch (const std::invalid_argument&) {  // nothing waits long enough
      }
    }
    return all;
  }
  bool judge_moving(Layout layout, const std::vector<Moving>& moving) {
    return std::any_of(moving.begin(), moving.end(), [&](const Moving& one) {
      layout.offloaded_activations = one.fraction;
      return judge(layout, one.step);
    });
  }

  void judge_named(const Candidate& candidate) {
    const Layout& layout = candidate.layout;
    const Plan compute = candidate.schedule->build({layout.pp, layout.chunks, static_cast<int>(layout.microbatches)});
    const WholeStep step = whole_step(request_, layout, compute);
    const std::vector<Moving> moving = movings(layout, compute);
    bool fits = false;
    for (const Recompute mode : modes()) {
      for (const int zero : zeros(layout)) {
        Layout with = variant(layout, mode, zero);
        if (fits && with.zero.divides_weights()) continue;
        if (mode == Recompute::full && !request_.recompute) with.recompute_layers = fewest_layers(with, step);
        if (!judge(with, step)) {
          fits = judge_moving(with, moving) || fits;
          continue;
        }
        fits = true;
        if (!with.zero.divides_weights()) return;  // to recompute more takes longer; than to gather it may not
      }
    }
    if (!fits) ++result_.too_large;
  }

  // Of each chunk, that must recompute for the layout to fit; nothing where all of them must, or it does not fit even so.
  std::optional<std::int64_t> fewest_layers(Layout layout, const WholeStep& step) {
    if (!memory_.of(layout, step.plan, step.needs)) return std::nullopt;
    std::size_t most_blocks = 0;
    for (const auto& part : costs_.blocks(layout)) most_blocks = std::max(most_blocks, part.size());
    std::int64_t too_few = 0, enough = static_cast<std::int64_t>(most_blocks + 1) / 2;
    while (enough - too_few > 1) {
      layout.recompute_layers = too_few + (enough - too_few) / 2;
      (memory_.of(layout, step.plan, step.needs) ? enough : too_few) = *layout.recompute_layers;
    }
    return 2 * enough < static_cast<std::int64_t>(most_blocks) ? std::optional(enough) : std::nullopt;
  }

  void judge_auto(const Candidate& candidate) {
    bool fits = false;
    for (const Recompute mode : modes()) {
      const std::int64_t work = candidate.layout.pp * candidate.layout.microbatches;
      if (auto_work_ + work > most_auto_work) {
        ++result_.auto_left_out;
        return;
      }
      auto_work_ += work;
      const auto stages = zeros(candidate.layout);
      fits = std::any_of(stages.begin(), stages.end(),
                         [&](int zero) { return judge_auto(variant(candidate.layout, mode, zero)); }) ||
             fits;
    }
    if (!fits) ++result_.too_large;
  }

  bool judge_auto(const Layout& layout) {
    return judge_made(layout, "auto", [](const schedules::AutoRequest& request) { return Made{build_auto(request), {}}; });
  }

  // With as many chunks as the placement; a cut of another number of virtual stages is left.
  static Layout in_chunks(Layout layout, const Placement& placement) {
    layout.chunks = placement.chunks();
    if (std::ssize(layout.cut) != placement.virtual_stages()) layout.cut.clear();
    return layout;
  }

  std::vector<Layout> best_layouts() const {
    std::vector<Layout> layouts;
    for (const RankedLayout& ranked : result_.best) layouts.push_back(ranked.layout);
    return layouts;
  }
  double slowest_of_best() const { return result_.best.size() < count_ ? never : result_.best.back().seconds; }

  void search_cuts() {
    cuts_.emplace(request_, costs_, memory_, [this](const Layout& layout, const WholeStep& step) { judge(layout, step); });
    const auto limit = [this] { return slowest_of_best(); };
    std::vector<Layout> layouts = best_layouts();
    cuts_->refine(layouts, limit);
    for (const Candidate& candidate : candidates_)
      layouts.push_back(variant(candidate.layout, Recompute::none, zeros(candidate.layout).front()));
    cuts_->search_schedules(layouts, limit);
    if (request_.with_auto)
      for (Layout layout : best_layouts())
        if (!layout.plan && layout.chunks == 1 && !layout.cut.empty() && layout.pp * layout.microbatches <= most_auto_work)
          judge_auto(variant(std::move(layout), layout.recompute, layout.zero.stage));
    result_.cuts_tried = cuts_->tried();
  }

  // Orders that were made for a cut, or before there was one: the cuts that are best for them.
  void refine_plans() {
    std::vector<Layout> layouts;
    for (Layout& layout : best_layouts())
      if (layout.plan) layouts.push_back(std::move(layout));
    cuts_->refine(layouts, [this] { return slowest_of_best(); });
    result_.cuts_tried = cuts_->tried();
    result_.cuts_left_out = cuts_->left_out();
  }

  // The layouts that are fastest so far by the plans that the solver finds for them.
  void improve_best() {
    std::vector<Layout> layouts;
    for (const RankedLayout& ranked : result_.best) {
      Layout layout = variant(ranked.layout, ranked.layout.recompute, ranked.layout.zero.stage);
      layout = in_chunks(layout, Placement::looping(layout.pp, 1));
      if (layout.cut.empty() && !request_.cut.empty()) continue;  // the cut asked for is of another number of chunks
      layout.plan = nullptr;
      const auto is_twin = [&](const Layout& other) {
        return same_sizes(layout, other) && layout.recompute == other.recompute && layout.zero.stage == other.zero.stage &&
               layout.cut == other.cut;
      };
      const bool is_long = layout.pp * layout.microbatches > schedules::largest_search;
      if (layout.pp > 1 && !is_long && layout.offloaded_activations == 0 &&
          std::none_of(layouts.begin(), layouts.end(), is_twin))
        layouts.push_back(layout);
    }
    for (const Layout& layout : layouts)
      judge_made(layout, "solver", [&](const schedules::AutoRequest& request) {
        schedules::Solved solved = schedules::solve({.problem = request, .seconds = request_.solver_seconds});
        return Made{std::move(solved.plan), solved.gap()};
      });
  }

  struct Made {
    Plan plan;
    std::optional<double> gap;
  };
  // The plan for these costs that fits the memory: first assumes that few weight gradients wait for W, then that all do.
  template <class Make>
  bool judge_made(const Layout& layout, const char* schedule, Make make) {
    schedules::AutoRequest request;
    request.stages = layout.pp;
    request.microbatches = static_cast<int>(layout.microbatches);
    request.costs = [&](const Placement& placement) { return costs_.of(in_chunks(layout, placement), placement); };
    request.max_chunks = can_halve(layout) ? 2 : 1;
    for (const bool all_put_off : {false, true}) {
      request.slots = memory_.slots(layout, all_put_off);
      if (request.slots.empty()) return false;
      Made made = make(request);
      if (made.plan.stages.empty()) return false;  // no order keeps these slots
      const auto plan = std::make_shared<const Plan>(std::move(made.plan));
      Layout placed = in_chunks(layout, plan->placement);
      placed.schedule = schedule;
      placed.plan = plan;
      if (judge(placed, whole_step(request_, placed, *plan), made.gap)) return true;
    }
    return false;
  }

  void add_transfers(const Layout& layout, const Placement& placement, schedules::Costs& costs) {
    const auto saved = memory_.saved_bytes(layout, placement);
    for (std::size_t stage = 0; stage < saved.size(); ++stage)
      for (std::size_t chunk = 0; chunk < saved[stage].size(); ++chunk) {
        auto& cost = costs.chunks[stage][chunk];
        cost.offload = cost.reload = saved[stage][chunk] / request_.speed.offload_rate;
      }
  }

  // Whether it fits; then it may be among the best.
  bool judge(const Layout& layout, const WholeStep& step, std::optional<double> gap = {}) {
    auto memory = memory_.of(layout, step.plan, step.needs);
    if (!memory) return false;
    auto costs = costs_.of(layout, step.plan.placement);
    if (layout.offloaded_activations > 0) add_transfers(layout, step.plan.placement, costs);
    const auto summary = summarize(simulated_step(step, costs));
    auto& best = result_.best;
    const auto is_as_good = [&](const RankedLayout& other) {
      return same_sizes(layout, other.layout) && other.seconds <= summary.makespan * (1 + 1e-9);
    };
    if (layout.plan && std::any_of(best.begin(), best.end(), is_as_good)) return true;
    const auto twin =
        std::find_if(best.begin(), best.end(), [&](const RankedLayout& one) { return same_but_memory(layout, one.layout); });
    if (twin != best.end()) {
      if (twin->seconds <= summary.makespan) return true;
      best.erase(twin);
    }
    const auto place = std::upper_bound(best.begin(), best.end(), summary.makespan,
                                        [](double seconds, const RankedLayout& other) { return seconds < other.seconds; });
    RankedLayout ranked{layout, summary.makespan, summary.bubble_fraction, std::move(*memory), gap};
    if (request_.search_cuts && !layout.cut.empty()) compare_with_cost(step, ranked);
    best.insert(place, std::move(ranked));
    if (best.size() > count_) best.pop_back();
    return true;
  }

  void compare_with_cost(const WholeStep& step, RankedLayout& ranked) {
    const Placement& placement = step.plan.placement;
    Layout by_cost = ranked.layout;
    by_cost.cut.clear();
    if (memory_.of(by_cost, step.plan, step.needs))
      ranked.seconds_by_cost = summarize(simulated_step(step, costs_.of(by_cost, placement))).makespan;
    ranked.cut_gap = std::max(0.0, 1 - bound_of_cuts(costs_, ranked.layout, placement) / ranked.seconds);
  }

  const LayoutRequest& request_;
  std::size_t count_;
  LayoutCosts costs_;
  LayoutMemory memory_;
  std::optional<CutLayouts> cuts_;  // where they are searched
  std::vector<Candidate> candidates_;
  SearchResult result_;
  std::int64_t auto_work_ = 0;
};

}  // namespace

SearchResult search_layouts(const LayoutRequest& request, int count) { return Search(request, count).run(); }

}  // namespace pipetrain
