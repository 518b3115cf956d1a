#include "tuning/layout_search.hpp"

#include <algorithm>
#include <stdexcept>

#include "actors/training/job/combinations.hpp"
#include "actors/training/job/train_job.hpp"
#include "schedules/plan/activation_offload.hpp"
#include "schedules/search/auto_schedule.hpp"
#include "schedules/search/solver.hpp"
#include "tuning/cut_layouts.hpp"
#include "tuning/fastest_layouts.hpp"
#include "tuning/layout_candidates.hpp"
#include "tuning/layout_costs.hpp"
#include "tuning/layout_memory.hpp"
#include "tuning/layout_variants.hpp"
#include "tuning/whole_step.hpp"

namespace pipetrain {

namespace {

using schedules::Placement;
using schedules::Plan;

// The most work of auto in one search: stages x microbatches over all its plans, a few tenths of a millisecond each.
constexpr std::int64_t most_auto_work = 4096;

class Search {
 public:
  Search(const LayoutRequest& request, int count)
      : request_(request),
        costs_(request),
        memory_(request, costs_),
        variants_(request, costs_),
        fastest_(request, costs_, memory_, count) {}

  SearchResult run() {
    const LayoutCandidates candidates = layout_candidates(request_, variants_, costs_);
    result_.candidates = candidates.looked_at;
    result_.too_large = candidates.too_large;
    result_.too_long = candidates.too_long;
    for (const bool of_auto : {false, true})  // auto comes last: it is of use only where it is faster than the others
      for (const LayoutCandidate& candidate : candidates.by_bound) {
        if (candidate.bound >= fastest_.limit()) break;
        if (candidate.schedule->uses_costs != of_auto) continue;
        if (request_.progress) request_.progress({candidates.looked_at, ++simulated_});
        if (of_auto) {
          judge_auto(candidate.layout);
        } else {
          judge_named(candidate);
        }
      }
    if (request_.search_cuts) search_cuts(candidates);
    if (request_.solver_seconds > 0) improve_best();
    if (cuts_) refine_plans();
    result_.best = fastest_.take();
    return std::move(result_);
  }

 private:
  // A step that offloads a fraction of the activations until their backward.
  struct Moving {
    double fraction = 0;
    WholeStep step;
  };
  // Returns the fastest first; empty where nothing is to be offloaded or that would free no memory.
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
      return fastest_.judge(layout, one.step);
    });
  }

  void judge_named(const LayoutCandidate& candidate) {
    const Layout& layout = candidate.layout;
    const Plan compute = candidate.schedule->build({layout.pp, layout.chunks, static_cast<int>(layout.microbatches)});
    const WholeStep step = whole_step(request_, layout, compute);
    const std::vector<Moving> moving = movings(layout, compute);
    bool fits = false;
    for (const Recompute mode : variants_.modes()) {
      for (const int zero : variants_.zeros(layout)) {
        Layout with = variants_.with(layout, mode, zero);
        if (fits && with.zero.divides_weights()) continue;
        if (mode == Recompute::full && !request_.recompute) with.recompute_layers = fewest_layers(with, step);
        if (!fastest_.judge(with, step)) {
          fits = judge_moving(with, moving) || fits;
          continue;
        }
        fits = true;
        if (!with.zero.divides_weights()) return;  // more recomputation takes longer, but may be faster than gathering
      }
    }
    if (!fits) ++result_.too_large;
  }

  // Returns the least layers of each chunk that must recompute for the layout to fit; no value where all of them must,
  // or it does not fit even so.
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

  void judge_auto(const Layout& layout) {
    bool fits = false;
    for (const Recompute mode : variants_.modes()) {
      const std::int64_t work = layout.pp * layout.microbatches;
      if (auto_work_ + work > most_auto_work) {
        ++result_.auto_left_out;
        return;
      }
      auto_work_ += work;
      for (const int zero : variants_.zeros(layout))
        if (judge_plan_of_auto(variants_.with(layout, mode, zero))) {
          fits = true;
          break;
        }
    }
    if (!fits) ++result_.too_large;
  }

  bool judge_plan_of_auto(const Layout& layout) {
    return judge_made(layout, "auto", [](const schedules::AutoRequest& request) { return Made{build_auto(request), {}}; });
  }

  // Gives the layout the placement's number of chunks, and drops a cut into another number of virtual stages.
  static Layout in_chunks(Layout layout, const Placement& placement) {
    layout.chunks = placement.chunks();
    if (std::ssize(layout.cut) != placement.virtual_stages()) layout.cut.clear();
    return layout;
  }

  void search_cuts(const LayoutCandidates& candidates) {
    cuts_.emplace(request_, costs_, memory_,
                  [this](const Layout& layout, const WholeStep& step) { fastest_.judge(layout, step); });
    const auto limit = [this] { return fastest_.limit(); };
    std::vector<Layout> layouts = fastest_.layouts();
    cuts_->refine(layouts, limit);
    for (const LayoutCandidate& candidate : candidates.by_bound)
      layouts.push_back(variants_.with(candidate.layout, Recompute::none, variants_.zeros(candidate.layout).front()));
    cuts_->search_schedules(layouts, limit);
    if (request_.with_auto)
      for (Layout layout : fastest_.layouts())
        if (!layout.plan && layout.chunks == 1 && !layout.cut.empty() && layout.pp * layout.microbatches <= most_auto_work)
          judge_plan_of_auto(variants_.with(std::move(layout), layout.recompute, layout.zero.stage));
    result_.cuts_tried = cuts_->tried();
  }

  // Refines the cuts for orders that were made for another cut or before there was one.
  void refine_plans() {
    std::vector<Layout> layouts = fastest_.layouts();
    std::erase_if(layouts, [](const Layout& layout) { return !layout.plan; });
    cuts_->refine(layouts, [this] { return fastest_.limit(); });
    result_.cuts_tried = cuts_->tried();
    result_.cuts_left_out = cuts_->left_out();
  }

  // Improves the layouts that are fastest so far by the plans that the solver finds for them.
  void improve_best() {
    std::vector<Layout> layouts;
    for (const Layout& best : fastest_.layouts()) {
      Layout layout = variants_.with(best, best.recompute, best.zero.stage);
      layout = in_chunks(layout, Placement::looping(layout.pp, 1));
      if (layout.cut.empty() && !request_.cut.empty()) continue;  // the requested cut is for another number of chunks
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
  // Makes the plan for these costs that fits the memory: first assumes that few weight gradients wait for W, then that all do.
  template <class Make>
  bool judge_made(const Layout& layout, const char* schedule, Make make) {
    schedules::AutoRequest request;
    request.stages = layout.pp;
    request.microbatches = static_cast<int>(layout.microbatches);
    request.costs = [&](const Placement& placement) { return costs_.of(in_chunks(layout, placement), placement); };
    request.max_chunks = can_halve(request_, layout) ? 2 : 1;
    for (const bool all_put_off : {false, true}) {
      request.slots = memory_.slots(layout, all_put_off);
      if (request.slots.empty()) return false;
      Made made = make(request);
      if (made.plan.stages.empty()) return false;  // no order keeps these slots
      const auto plan = std::make_shared<const Plan>(std::move(made.plan));
      Layout placed = in_chunks(layout, plan->placement);
      placed.schedule = schedule;
      placed.plan = plan;
      if (fastest_.judge(placed, whole_step(request_, placed, *plan), made.gap)) return true;
    }
    return false;
  }

  const LayoutRequest& request_;
  LayoutCosts costs_;
  LayoutMemory memory_;
  LayoutVariants variants_;
  FastestLayouts fastest_;
  std::optional<CutLayouts> cuts_;  // where cuts are searched
  SearchResult result_;
  std::int64_t auto_work_ = 0;
  std::int64_t simulated_ = 0;  // number of layouts
};

}  // namespace

bool Layout::braids() const {
  const schedules::ScheduleInfo* const info = schedules::find_schedule(schedule);
  return info != nullptr && info->braids;
}

Compression Layout::compression(const LayoutRequest& request) const {
  if (copies() == 1) return {};
  Compression own = request.compression;
  if (own.hosts > 0 && (copies() % own.hosts != 0 || own.gradients == BlockCode::none || zero.divides_states())) own.hosts = 0;
  return own;
}

LayoutRequest request_of(const TrainJob& job, std::int64_t sequence) {
  LayoutRequest request;
  request.config = job.config;
  request.devices = job.layout.pp * job.layout.cp * job.layout.tp * static_cast<int>(job.batch.dp);
  request.cp = job.layout.cp;
  request.sequence = sequence;
  request.global_batch = job.batch.global_batch();
  request.precision = job.numerics.precision;
  request.device = job.devices.kind;
  request.optimizer = job.optimizer;
  request.compression = job.compression;
  request.post_validation = job.post_validation;
  request.offload = job.offload;
  return request;
}

Layout layout_of(const TrainJob& job, const Plan& plan) {
  return {.pp = job.layout.pp,
          .tp = job.layout.tp,
          .dp = static_cast<int>(job.batch.dp),
          .chunks = plan.placement.chunks(),
          .microbatch = job.batch.microbatch,
          .microbatches = job.batch.microbatches,
          .schedule = job.layout.schedule,
          .recompute = job.numerics.recompute,
          .zero = job.zero,
          .recompute_layers = job.numerics.recompute_layers,
          .offloaded_activations = job.offload.activation_share(),
          .cut = job.layout.cut,
          .cp = job.layout.cp,
          .ep = job.layout.ep};
}

UsedFeatures features_of(const LayoutRequest& request) {
  TrainJob job;
  job.config = request.config;
  job.layout.cp = request.cp;
  job.devices.kind = request.device;
  job.numerics.precision = request.precision;
  const Compression& compression = request.compression;
  const int sharing = compression.weights == BlockCode::none ? 0 : compression.gradients == BlockCode::none ? 3 : 1;
  job.zero.stage = request.zero.value_or(sharing);  // see LayoutVariants::zeros()
  job.offload = request.offload;
  job.optimizer = request.optimizer;
  job.compression = request.compression;
  job.post_validation = request.post_validation;
  UsedFeatures used = features_of(job);
  if (request.hosts > 1) used.add(Feature::several_hosts, "hosts", std::to_string(request.hosts));
  if (request.search_cuts) used.add(Feature::cut_search, "cut", "search");
  if (request.solver_seconds > 0) used.add(Feature::solver_time, "solver-seconds", std::to_string(request.solver_seconds));
  return used;
}

SearchResult search_layouts(const LayoutRequest& request, int count) {
  check_combinations(features_of(request));
  return Search(request, count).run();
}

}  // namespace pipetrain
