// The search of cuts, compared with all cuts, on random costs.
#include "tuning/cut_search.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"
#include "tuning/layout_search.hpp"

using namespace pipetrain;
using schedules::Placement;

namespace {

// A model of blocks with random costs under a schedule.
struct DrawnModel {
  schedules::Plan plan;
  std::vector<BlockSeconds> blocks;
  std::vector<schedules::StageNeeds> needs;

  DrawnModel(const std::string& schedule, int stages, int chunks, std::uint32_t seed, int count = 9) {
    plan = with_end_of_step(schedules::build_schedule(schedule, {stages, chunks, 6}), {});
    needs = validate(plan, schedules::Order::planned);
    std::mt19937 random(seed);
    const auto draw = [&] { return 0.5 + static_cast<double>(random() % 1000) / 1000; };
    for (int i = 0; i < count; ++i) blocks.push_back({draw(), draw(), draw()});
    for (double BlockSeconds::*part : {&BlockSeconds::forward, &BlockSeconds::input_grad, &BlockSeconds::weight_grad})
      blocks.back().*part += 2;  // the head
  }

  double step_seconds(const Cut& cut) const {
    const Placement& placement = plan.placement;
    schedules::Costs costs = schedules::Costs::uniform(placement, 1, 1, 1);
    std::size_t at = 0;
    for (int v = 0; v < placement.virtual_stages(); ++v) {
      const auto where = placement.at(v);
      auto& cost = costs.chunks[static_cast<std::size_t>(where.stage)][static_cast<std::size_t>(where.chunk)];
      cost.forward = cost.input_grad = cost.weight_grad = 0;
      for (std::int64_t i = 0; i < cut[static_cast<std::size_t>(v)]; ++i, ++at) {
        cost.forward += blocks[at].forward;
        cost.input_grad += blocks[at].input_grad;
        cost.weight_grad += blocks[at].weight_grad;
      }
    }
    return summarize(schedules::simulate(plan, costs, needs)).makespan;
  }

  CutProblem problem(std::function<double(const Cut&)> over = [](const Cut&) { return 0.0; }) const {
    return {plan.placement, plan.microbatches, blocks, [this](const Cut& cut) { return step_seconds(cut); }, std::move(over)};
  }
};

void each_cut(int parts, std::int64_t blocks, Cut& cut, const std::function<void(const Cut&)>& visit) {
  if (parts == 1) {
    cut.push_back(blocks);
    visit(cut);
    cut.pop_back();
    return;
  }
  for (std::int64_t first = 1; first + parts - 1 <= blocks; ++first) {
    cut.push_back(first);
    each_cut(parts - 1, blocks - first, cut, visit);
    cut.pop_back();
  }
}

struct Best {
  double seconds = 1e300;
  Cut cut;
};
Best best_of_all(const DrawnModel& model) {
  Best best;
  Cut cut;
  each_cut(model.plan.placement.virtual_stages(), std::ssize(model.blocks), cut, [&](const Cut& one) {
    if (const double seconds = model.step_seconds(one); seconds < best.seconds) best = {seconds, one};
  });
  return best;
}

Cut front_heavy(const DrawnModel& model) {
  Cut cut(static_cast<std::size_t>(model.plan.placement.virtual_stages()), 1);
  cut.front() += std::ssize(model.blocks) - std::ssize(cut);
  return cut;
}

}  // namespace

TEST_CASE("a searched cut is near the best of all, never worse than its start, and never below the bound") {
  int best = 0, searched = 0;
  for (const auto& [schedule, stages, chunks] :
       {std::tuple{"1f1b", 3, 1}, {"gpipe", 4, 1}, {"zb-h1", 3, 1}, {"zb-h2", 4, 1}, {"interleaved", 2, 2}, {"zb-v", 2, 2}}) {
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
      const DrawnModel model(schedule, stages, chunks, seed);
      INFO(schedule << " seed " << seed);
      const Cut start = front_heavy(model);
      CutBudget budget({});
      const FoundCut found = search_cut(model.problem(), start, budget);
      REQUIRE(found.fits);
      CHECK(found.seconds == model.step_seconds(found.cut));
      CHECK(found.seconds <= model.step_seconds(start));
      CHECK(std::count_if(found.cut.begin(), found.cut.end(), [](auto blocks) { return blocks < 1; }) == 0);
      const Best all = best_of_all(model);
      CHECK(found.seconds <= 1.03 * all.seconds);
      CHECK(cut_bound(model.problem()) <= all.seconds * (1 + 1e-12));
      best += found.seconds <= all.seconds * (1 + 1e-9);
      ++searched;
      CutBudget again({});
      CHECK(search_cut(model.problem(), all.cut, again).seconds <= all.seconds);
    }
  }
  CHECK(best >= searched * 3 / 4);
}

TEST_CASE("the bound of one chunk a stage is tight where one stage has all the work") {
  DrawnModel model("1f1b", 2, 1, 1, 2);
  model.blocks[0] = {1, 1, 1};
  model.blocks[1] = {1e6, 1e6, 1e6};
  CHECK(cut_bound(model.problem()) == Approx(model.step_seconds({1, 1})).epsilon(1e-5));
}

TEST_CASE("a cut that fits is found from one that does not, where there is one") {
  const DrawnModel model("1f1b", 4, 1, 3);
  // Memory depends on blocks and stage: the last has a large head.
  const auto over = [](double memory) {
    return [memory](const Cut& cut) {
      double most = 0;
      for (std::size_t v = 0; v < cut.size(); ++v)
        most = std::max(most, static_cast<double>(cut[v] * static_cast<std::int64_t>(4 - v)) + (v == 3 ? 4 : 0) - memory);
      return most;
    };
  };
  for (const double memory : {8.0, 9.0, 12.0}) {
    CutBudget budget({});
    const FoundCut found = search_cut(model.problem(over(memory)), front_heavy(model), budget);
    INFO(memory);
    REQUIRE(found.fits);
    CHECK(over(memory)(found.cut) <= 0);
  }
  CutBudget budget({});
  CHECK_FALSE(search_cut(model.problem(over(3)), front_heavy(model), budget).fits);
}

TEST_CASE("a search of cuts ends at its limit, with the same cut every time") {
  const DrawnModel model("zb-v", 3, 2, 5, 20);
  std::map<std::int64_t, double> seconds;
  for (const std::int64_t limit : {1, 4, 10, 1000}) {
    CutBudget budget({.cuts = limit}), again({.cuts = limit});
    const FoundCut found = search_cut(model.problem(), front_heavy(model), budget);
    CHECK(budget.taken() <= limit);
    CHECK(budget.is_spent() == (limit < 1000));
    REQUIRE(found.fits);
    CHECK(search_cut(model.problem(), front_heavy(model), again).cut == found.cut);
    seconds[limit] = found.seconds;
  }
  CHECK(seconds[1] == model.step_seconds(front_heavy(model)));
  CHECK(seconds[4] <= seconds[1]);
  CHECK(seconds[10] <= seconds[4]);
  CHECK(seconds[1000] < seconds[1]);
  CutBudget none({.seconds = 0});
  CHECK_FALSE(search_cut(model.problem(), front_heavy(model), none).fits);
  CHECK(none.is_spent());
}

namespace {

// A request for GPUs, one a stage.
LayoutRequest cut_request(const std::string& model, int stages) {
  LayoutRequest request;
  request.config = preset_config(model);
  request.devices = stages;
  request.pp = stages;
  request.most_tp = 1;
  request.sequence = 4096;
  request.global_batch = 8;
  request.precision = Precision::bf16();
  request.device = DeviceKind::cuda;
  request.speed = {6e14, 80.0 * (1 << 30), 3e12, 3e11, 15e-6, 40e-6};
  return request;
}

}  // namespace

TEST_CASE("tune's joint search shortens Llama-3-8B on 8 stages, whose head is heavy, and finds what fits") {
  LayoutRequest request = cut_request("llama3-8b", 8);
  request.global_batch = 32;
  const auto search = [&](double gib, std::int64_t cuts) {
    request.speed.memory_bytes = gib * (1 << 30);
    request.search_cuts.reset();
    if (cuts > 0) request.search_cuts = CutLimits{.cuts = cuts};
    return search_layouts(request, 6);
  };
  for (const double gib : {80.0, 34.0}) {
    const SearchResult by_cost = search(gib, 0), joint = search(gib, 6000);
    REQUIRE_FALSE(by_cost.best.empty());
    CHECK(by_cost.cuts_tried == 0);
    CHECK(joint.cuts_tried <= 6000);
    CHECK(joint.best.front().seconds < 0.95 * by_cost.best.front().seconds);
    for (std::size_t i = 0; i < by_cost.best.size(); ++i) CHECK(joint.best[i].seconds <= by_cost.best[i].seconds);
    for (const RankedLayout& one : joint.best) {
      CHECK(one.layout.pp == 8);
      for (const auto bytes : one.memory) CHECK(static_cast<double>(bytes) <= request.speed.memory_bytes);
      if (one.layout.cut.empty()) continue;
      CHECK(std::ssize(one.layout.cut) == one.layout.pp * one.layout.chunks);
      CHECK(one.cut_gap.value() >= 0);
      CHECK(one.cut_gap.value() < 0.5);
      if (one.seconds_by_cost) CHECK(one.seconds < *one.seconds_by_cost);
    }
  }
  // A given cut applies to every layout.
  request.search_cuts.reset();
  request.cut = {9, 9, 9, 9, 8, 8, 8, 4};
  for (const RankedLayout& one : search(80, 0).best) {
    CHECK(one.layout.cut == request.cut);
    CHECK(one.layout.chunks == 1);
  }
}

TEST_CASE("orders are made for searched cuts, and cuts for made orders") {
  LayoutRequest request = cut_request("llama3.2-1b", 4);
  request.with_auto = true;
  const double by_cost = search_layouts(request, 8).best.front().seconds;
  request.search_cuts = CutLimits{.cuts = 20000};
  const SearchResult joint = search_layouts(request, 8);
  CHECK(joint.best.front().seconds < by_cost);
  for (const RankedLayout& one : joint.best) {
    if (!one.layout.plan) continue;
    CHECK(one.layout.plan->placement.chunks() == one.layout.chunks);
    if (!one.layout.cut.empty()) CHECK(std::ssize(one.layout.cut) == one.layout.pp * one.layout.chunks);
  }
}

TEST_CASE("the search of cuts braids where a run can, and neither on GPUs nor where replicas gather weights") {
  LayoutRequest request = cut_request("llama3.2-1b", 4);
  request.devices = 8;
  request.most_tp = 2;
  request.recompute = Recompute::none;
  request.speed.link_rate = 3e10;
  request.search_cuts = CutLimits{.cuts = 200000};
  const auto braided = [&](DeviceKind device, std::optional<int> zero) {
    request.device = device;
    request.zero = zero;
    const SearchResult found = search_layouts(request, 200);
    return std::count_if(found.best.begin(), found.best.end(),
                         [](const RankedLayout& one) { return one.layout.schedule == "braided-v"; });
  };
  CHECK(braided(DeviceKind::cpu, 1) > 0);
  CHECK(braided(DeviceKind::cpu, 3) == 0);
  CHECK(braided(DeviceKind::cuda, 1) == 0);
}

TEST_CASE("the solver's layouts keep a cut that was asked for") {
  LayoutRequest request = cut_request("llama3.2-1b", 4);
  request.cut = {4, 4, 4, 4, 5, 4, 4, 3};  // of two chunks a stage, where the solver has one
  request.with_auto = true;
  request.solver_seconds = 0.2;
  const SearchResult found = search_layouts(request, 20);
  REQUIRE_FALSE(found.best.empty());
  for (const RankedLayout& one : found.best) CHECK(one.layout.cut == request.cut);
}
