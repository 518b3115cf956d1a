// The search, compared with itself without bounds, and the effect of speeds, memory and recomputation on its results.
#include "tuning/layout_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "catch.hpp"
#include "core/error.hpp"
#include "schedules/plan/validate.hpp"

using namespace pipetrain;

namespace {

LayoutRequest layout_request(const std::string& model, int devices) {
  LayoutRequest request;
  request.config = preset_config(model);
  request.devices = devices;
  request.sequence = std::min<std::int64_t>(request.config.max_positions, 2048);
  request.global_batch = 4 * devices;
  request.speed = {4e14, 80.0 * (1 << 30), 3e12, 3e11, 15e-6, 40e-6};
  return request;
}

}  // namespace

TEST_CASE("tune's bound spares no layout that is among the best") {
  for (const auto& [model, devices] : {std::pair{"tiny", 8}, std::pair{"llama-7b", 8}, std::pair{"llama-13b", 16}}) {
    const LayoutRequest request = layout_request(model, devices);
    const auto all = search_layouts(request, 1'000'000).best, ten = search_layouts(request, 10).best;
    REQUIRE(all.size() > 20);
    REQUIRE(ten.size() == 10);
    for (std::size_t i = 0; i < ten.size(); ++i) CHECK(ten[i].seconds == all[i].seconds);
    for (const auto& [layout, seconds, bubble, memory, gap, by_cost, cut_gap] : all) {
      CHECK_FALSE(gap);
      CHECK(layout.pp * layout.tp * layout.dp == devices);
      CHECK(layout.dp * layout.microbatch * layout.microbatches == request.global_batch);
      CHECK(std::ssize(memory) == layout.pp);
      for (const auto bytes : memory) CHECK(static_cast<double>(bytes) <= request.speed.memory_bytes);
    }
  }
}

TEST_CASE("tune: faster devices make faster steps, slow links make tensor parallelism dear, little memory drops layouts") {
  LayoutRequest request = layout_request("llama-7b", 8);
  const auto usual = search_layouts(request, 1).best.front();
  request.speed.flops *= 2;
  CHECK(search_layouts(request, 1).best.front().seconds < usual.seconds);
  request = layout_request("llama-7b", 8);
  request.speed.link_rate /= 100;
  for (const auto& ranked : search_layouts(request, 3).best) CHECK(ranked.layout.tp == 1);
  request = layout_request("llama-7b", 8);
  const auto roomy = search_layouts(request, 1'000'000);
  request.speed.memory_bytes /= 3;
  const auto narrow = search_layouts(request, 1'000'000);
  CHECK(narrow.best.size() < roomy.best.size());
  CHECK(narrow.too_large > roomy.too_large);
  request.speed.memory_bytes = 1 << 20;
  CHECK(search_layouts(request, 1).best.empty());
}

TEST_CASE("tune gives braids where ranks exchange much, on CPUs only, and never with weights that replicas divide") {
  LayoutRequest request = layout_request("llama-7b", 8);
  request.global_batch = 64;
  request.speed.link_rate /= 4;
  using Sizes = std::tuple<int, int, int, std::int64_t, Recompute>;
  std::map<Sizes, std::map<std::string, double>> seconds;  // by schedule, the fastest
  bool on_one_stage = false;
  for (const RankedLayout& ranked : search_layouts(request, 1'000'000).best) {
    const Layout& layout = ranked.layout;
    if (layout.schedule == "braided-v") CHECK((layout.tp > 1 && layout.zero.stage < 3));
    on_one_stage |= layout.schedule == "braided-v" && layout.pp == 1;
    if (layout.microbatches < 4 * layout.pp) continue;
    auto& of = seconds[{layout.pp, layout.tp, layout.dp, layout.microbatch, layout.recompute}];
    const auto [found, fresh] = of.emplace(layout.schedule, ranked.seconds);
    if (!fresh) found->second = std::min(found->second, ranked.seconds);
  }
  int compared = 0;
  for (const auto& [sizes, of] : seconds) {
    if (!of.contains("braided-v") || !of.contains("dualpipe-v")) continue;
    CHECK(of.at("braided-v") < of.at("dualpipe-v"));
    ++compared;
  }
  CHECK(compared > 0);
  CHECK(on_one_stage);
  request.device = DeviceKind::cuda;
  for (const RankedLayout& ranked : search_layouts(request, 1'000'000).best) CHECK(ranked.layout.schedule != "braided-v");
}

TEST_CASE("tune: slow links between hosts keep tensor groups inside, and sums of gradients where the batch lets them") {
  LayoutRequest request = layout_request("llama-7b", 16);
  const double one_host = search_layouts(request, 1).best.front().seconds;
  request.hosts = 4;
  request.speed.host_link_rate = 1e9;
  request.speed.host_latency = 100e-6;
  const auto found = search_layouts(request, 1'000'000).best;
  CHECK(found.front().seconds > one_host);
  for (const auto& ranked : found) CHECK(4 % ranked.layout.tp == 0);
  // Gradients are larger than activations: stages, not replicas, are spread over the hosts.
  CHECK(found.front().layout.pp >= 4);
}

TEST_CASE("tune recomputes only where less of it does not fit, and then reaches layouts that nothing else does") {
  LayoutRequest request = layout_request("llama-7b", 4);
  request.precision = Precision::bf16();
  request.device = DeviceKind::cuda;
  request.speed.memory_bytes = 46.0 * (1 << 30);
  const auto searched = search_layouts(request, 1'000'000).best;
  const auto with = [&](Recompute mode) {
    LayoutRequest one = request;
    one.recompute = mode;
    return search_layouts(one, 1'000'000).best;
  };
  const auto none = with(Recompute::none), selective = with(Recompute::selective), full = with(Recompute::full);
  CHECK(none.size() < selective.size());
  CHECK(selective.size() < full.size());
  CHECK(searched.size() == full.size());
  std::map<std::string, std::pair<double, Recompute>> chosen;
  const auto key = [](const Layout& layout) {
    return fmt::format("{} {} {} {} {} {}", layout.pp, layout.tp, layout.dp, layout.chunks, layout.microbatch, layout.schedule);
  };
  for (const auto& ranked : searched) chosen[key(ranked.layout)] = {ranked.seconds, ranked.layout.recompute};
  for (const auto* mode : {&none, &selective, &full})
    for (const auto& ranked : *mode) CHECK(chosen.at(key(ranked.layout)).first <= ranked.seconds * (1 + 1e-9));
  for (const auto& ranked : none) CHECK(chosen.at(key(ranked.layout)).second == Recompute::none);

  // Layouts that fit only with full recomputation recompute as few layers of each stage as fit.
  int partly = 0;
  for (const auto& ranked : searched) {
    if (!ranked.layout.recompute_layers) continue;
    ++partly;
    CHECK(ranked.layout.recompute == Recompute::full);
    if (partly > 3) continue;
    const auto found_with = [&](std::int64_t layers) {
      LayoutRequest one = request;
      one.recompute = Recompute::full;
      one.recompute_layers = layers;
      one.zero = ranked.layout.zero.stage;
      const auto all = search_layouts(one, 1'000'000).best;
      return std::any_of(all.begin(), all.end(), [&](const auto& other) { return key(other.layout) == key(ranked.layout); });
    };
    CHECK(found_with(*ranked.layout.recompute_layers));
    if (*ranked.layout.recompute_layers > 1) CHECK_FALSE(found_with(*ranked.layout.recompute_layers - 1));
  }
  CHECK(partly > 0);
}

TEST_CASE(
    "tune divides the state of replicas, and their weights only where nothing else fits or it saves more than it gathers") {
  LayoutRequest request = layout_request("llama-7b", 8);
  request.precision = Precision::bf16();
  request.device = DeviceKind::cuda;
  const auto find = [&](double gib) {
    request.speed.memory_bytes = gib * (1 << 30);
    return search_layouts(request, 1'000'000).best;
  };
  const auto only_replicas = [](const std::vector<RankedLayout>& all) {
    std::vector<RankedLayout> found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found), [](const auto& one) { return one.layout.dp == 8; });
    return found;
  };
  const auto roomy = find(200);
  for (const auto& one : roomy) CHECK(one.layout.zero.stage == (one.layout.dp > 1 ? 1 : 0));
  const auto tight = only_replicas(find(45));  // gradients alone are 25 GiB
  REQUIRE_FALSE(tight.empty());
  for (const auto& one : tight) CHECK(one.layout.zero.stage >= 2);

  request.zero = 0;
  for (const auto& one : find(200)) CHECK(one.layout.zero.stage == 0);
  CHECK(only_replicas(find(45)).empty());

  request.zero = 3;  // over slow links weights arrive later than blocks compute
  const double fast = only_replicas(find(200)).front().seconds;
  request.speed.link_rate = 1e10;
  const double slow_three = only_replicas(find(200)).front().seconds;
  request.zero = 1;
  CHECK(slow_three > 1.1 * only_replicas(find(200)).front().seconds);
  CHECK(fast < slow_three);
}

TEST_CASE("tune: devices that share sequences keep a part of each, divide the state with replicas, and wait for slow links") {
  LayoutRequest request = layout_request("llama3.2-1b", 8);
  request.precision = Precision::bf16();
  request.device = DeviceKind::cuda;
  request.sequence = 65'536;
  request.global_batch = 8;
  const auto find = [&](int cp) {
    request.cp = cp;
    return search_layouts(request, 1'000'000).best;
  };
  const auto of_one_stage = [](const std::vector<RankedLayout>& all, int tp) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const RankedLayout& one) {
      return one.layout.pp == 1 && one.layout.tp == tp && one.layout.microbatch == 1;
    });
    REQUIRE(found != all.end());
    return *found;
  };
  request.recompute = Recompute::full;
  request.zero = 1;
  request.speed.memory_bytes = 1e12;
  const auto alone = find(1), shared = find(4);
  for (const RankedLayout& one : shared) {
    CHECK(one.layout.pp * one.layout.cp * one.layout.tp * one.layout.dp == 8);
    CHECK(one.layout.cp == 4);
    CHECK(one.layout.zero.stage == 1);
  }
  // The state of eight devices is divided either way; memory in proportion to tokens falls to a fourth, except for ring
  // attention's own.
  const RankedLayout whole = of_one_stage(alone, 1), part = of_one_stage(shared, 1);
  CHECK(part.layout.dp == 2);
  CHECK(static_cast<double>(part.memory.front()) < 0.5 * static_cast<double>(whole.memory.front()));
  // Attention of long sequences overlaps with the exchange; the four devices do the work of one each.
  CHECK(part.seconds > whole.seconds * 0.99);
  CHECK(part.seconds < whole.seconds * 1.1);
  request.speed.link_rate = 1e9;
  const double slow = of_one_stage(find(4), 1).seconds;
  CHECK(slow > 1.2 * part.seconds);
  // Rings of four stay on a host of four; those of eight do not.
  request.speed.link_rate = 3e11;
  request.speed.host_link_rate = 1e9;
  request.speed.host_latency = 1e-3;
  request.hosts = 2;
  const double inside = of_one_stage(find(4), 1).seconds, across = of_one_stage(find(8), 1).seconds;
  CHECK(across > inside);
}

TEST_CASE("tune divides experts where replicas would not hold all of them, and waits for slow links") {
  LayoutRequest request = layout_request("olmoe-1b-7b", 8);
  request.config.layers = 4;
  request.most_tp = 1;
  request.pp = 1;
  request.zero = 0;
  const auto fastest = [&](int ep) {
    std::optional<RankedLayout> found;
    for (const RankedLayout& ranked : search_layouts(request, 1'000'000).best)
      if (ranked.layout.ep == ep && ranked.layout.microbatch == 1 && !found) found = ranked;
    return found;
  };
  const auto whole = fastest(1), quarter = fastest(4);
  REQUIRE((whole && quarter));
  CHECK(quarter->layout.dp == 8);
  CHECK(quarter->memory.front() < whole->memory.front());
  request.speed.link_rate /= 1000;
  CHECK(fastest(4)->seconds > quarter->seconds);
  request.speed.memory_bytes = static_cast<double>(whole->memory.front()) * 0.9;
  CHECK(search_layouts(request, 1).best.front().layout.ep > 1);
  request = layout_request("llama-7b", 8);
  for (const RankedLayout& ranked : search_layouts(request, 1'000'000).best) CHECK(ranked.layout.ep == 1);
}

TEST_CASE("tune divides the experts of a model, and braids where its ranks exchange much") {
  LayoutRequest request = layout_request("olmoe-1b-7b", 8);
  request.config.layers = 4;
  request.global_batch = 64;
  request.speed.link_rate /= 4;
  bool divides = false;
  std::map<int, std::map<std::string, double>> seconds;  // by ep and schedule, the fastest at tp 2 on one stage
  for (const RankedLayout& ranked : search_layouts(request, 1'000'000).best) {
    const Layout& layout = ranked.layout;
    divides |= layout.ep > 1;
    if (layout.tp != 2 || layout.pp != 2 || layout.microbatches < 4 * layout.pp) continue;
    const auto [found, fresh] = seconds[layout.ep].emplace(layout.schedule, ranked.seconds);
    if (!fresh) found->second = std::min(found->second, ranked.seconds);
  }
  CHECK(divides);
  int compared = 0;
  for (const auto& [ep, of] : seconds) {
    if (!of.contains("braided-v") || !of.contains("dualpipe-v")) continue;
    INFO("ep " << ep);
    CHECK(of.at("braided-v") < of.at("dualpipe-v"));
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("on GPUs tune braids where the ranks that divide experts are on several hosts, and only there") {
  LayoutRequest request = layout_request("olmoe-1b-7b", 4);
  request.device = DeviceKind::cuda;
  request.config.layers = 4;
  request.global_batch = 64;
  request.most_tp = 1;
  const auto fastest = [&](int hosts) {
    request.hosts = hosts;
    request.speed.host_link_rate = request.speed.link_rate / 10;
    std::map<std::tuple<int, int>, std::map<std::string, double>> seconds;  // by pp and ep, and schedule: the fastest
    for (const RankedLayout& ranked : search_layouts(request, 1'000'000).best) {
      const Layout& layout = ranked.layout;
      if (layout.pp == 1 || layout.microbatches < 4 * layout.pp) continue;
      const auto [found, fresh] = seconds[{layout.pp, layout.ep}].emplace(layout.schedule, ranked.seconds);
      if (!fresh) found->second = std::min(found->second, ranked.seconds);
    }
    return seconds;
  };
  const auto on_one_host = fastest(1), over_hosts = fastest(4);
  REQUIRE(on_one_host.contains({2, 2}));
  for (const auto& [sizes, of] : on_one_host) CHECK_FALSE(of.contains("braided-v"));
  REQUIRE(over_hosts.contains({2, 2}));
  const auto& of = over_hosts.at({2, 2});
  CHECK(of.at("braided-v") < of.at("dualpipe-v"));
}

TEST_CASE("tune's plans of auto are faster than every other schedule of the same sizes, and cost little time") {
  LayoutRequest request = layout_request("llama-7b", 8);
  request.with_auto = true;
  const auto all = search_layouts(request, 1'000'000).best;
  std::map<std::tuple<int, int, int, std::int64_t>, double> best;
  for (const auto& [layout, seconds, bubble, memory, gap, by_cost, cut_gap] : all) {
    if (layout.plan) continue;
    const auto place = best.try_emplace({layout.pp, layout.tp, layout.dp, layout.microbatch}, seconds).first;
    place->second = std::min(place->second, seconds);
  }
  int of_auto = 0;
  for (const auto& [layout, seconds, bubble, memory, gap, by_cost, cut_gap] : all) {
    if (!layout.plan) continue;
    ++of_auto;
    const auto other = best.find({layout.pp, layout.tp, layout.dp, layout.microbatch});  // none if no other fits the memory
    if (other != best.end()) CHECK(seconds < other->second);
    CHECK(layout.plan->placement.chunks() == layout.chunks);
    for (const auto bytes : memory) CHECK(static_cast<double>(bytes) <= request.speed.memory_bytes);
  }
  CHECK(of_auto > 0);
  request.with_auto = false;
  for (const auto& ranked : search_layouts(request, 1'000'000).best) CHECK(ranked.layout.schedule != "auto");
}

TEST_CASE(
    "tune's plans of the solver are faster than all others of the same sizes, and tell how far from the best they may be") {
  LayoutRequest request = layout_request("tiny", 4);
  request.global_batch = 32;
  request.speed.flops = 5e10;
  request.speed.latency = 50e-6;
  request.with_auto = true;
  const auto before = search_layouts(request, 20).best;
  request.solver_seconds = 0.1;
  const auto after = search_layouts(request, 20).best;
  REQUIRE(after.size() == before.size());
  int of_solver = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i].seconds <= before[i].seconds * (1 + 1e-12));
    const Layout& layout = after[i].layout;
    CHECK(after[i].gap.has_value() == (layout.schedule == "solver"));
    if (!after[i].gap) continue;
    ++of_solver;
    CHECK(*after[i].gap >= 0);
    CHECK(*after[i].gap < 1);
    CHECK_NOTHROW(schedules::validate(*layout.plan));
    for (const RankedLayout& other : after)
      if (other.layout.pp == layout.pp && other.layout.tp == layout.tp && other.layout.microbatch == layout.microbatch)
        CHECK(after[i].seconds <= other.seconds);
    for (const auto bytes : after[i].memory) CHECK(static_cast<double>(bytes) <= request.speed.memory_bytes);
  }
  CHECK(of_solver > 0);
}

TEST_CASE("tune counts bf16 on GPUs as runs on them did") {
  // bench/results/gpu.md: what the runs themselves estimated, within 1 % of what they took, less the workspace of
  // gradients that have had the place of kept values since: an MLP's gate and up, and the residual stream's.
  const double in_place_1b = 512 + 64, in_place_8b = 224 + 32;
  const auto mebibytes = [](const std::string& model, std::int64_t layers, std::int64_t global_batch, std::int64_t microbatch) {
    LayoutRequest request = layout_request(model, 1);
    if (layers > 0) request.config.layers = layers;
    request.sequence = 4096;
    request.global_batch = global_batch;
    request.speed.memory_bytes = 140.0 * (1 << 30);
    request.precision = Precision::bf16();
    request.device = DeviceKind::cuda;
    for (const auto& [layout, seconds, bubble, memory, gap, by_cost, cut_gap] : search_layouts(request, 100).best)
      if (layout.microbatch == microbatch) return static_cast<double>(memory[0]) / (1 << 20);
    return 0.0;
  };
  CHECK(mebibytes("llama3.2-1b", 0, 16, 4) == Approx(46611 - in_place_1b).margin(0.5));
  CHECK(mebibytes("llama3-8b", 8, 8, 1) == Approx(54036 - in_place_8b).margin(0.5));
}

TEST_CASE("tune: bf16 halves what travels and activations, not gradients and the optimizer's state") {
  LayoutRequest request = layout_request("llama-7b", 8);
  request.speed.link_rate /= 20;
  const auto full = search_layouts(request, 1).best.front();
  request.precision = Precision::bf16();
  const auto half = search_layouts(request, 1).best.front();
  CHECK(half.seconds < full.seconds);
  request = layout_request("tiny", 1);
  request.sequence = 1;  // almost no activations: 16 bytes a parameter, and 2 for the rounded weights
  const auto state = [&] { return static_cast<double>(search_layouts(request, 1).best.front().memory[0]); };
  const double fp32 = state();
  request.precision = Precision::bf16();
  CHECK(state() / fp32 == Approx(18.0 / 16).epsilon(0.03));
}

TEST_CASE("tune: an optimizer of one state takes less memory, and less time where states are offloaded") {
  LayoutRequest request = layout_request("tiny", 1);
  request.sequence = 1;  // almost no activations: 16 bytes a parameter with AdamW, 12 with Lion
  const auto best = [&] { return search_layouts(request, 1).best.front(); };
  const RankedLayout adamw = best();
  request.offload.optimizer = true;
  const RankedLayout adamw_outside = best();
  request.optimizer.name = "lion";
  CHECK(best().seconds < adamw_outside.seconds);
  request.offload.optimizer = false;
  const RankedLayout lion = best();
  CHECK(lion.seconds < adamw.seconds);
  CHECK(static_cast<double>(lion.memory[0]) / static_cast<double>(adamw.memory[0]) == Approx(12.0 / 16).epsilon(0.03));
}

TEST_CASE("a setting that no layout supports is an error that carries the setting") {
  LayoutRequest request = layout_request("tiny", 7);
  request.global_batch = 3;
  request.config.layers = 1;
  try {
    search_layouts(request, 1);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    REQUIRE(error.setting() != nullptr);
    CHECK(error.setting()->name == "devices");
    CHECK(error.setting()->value == "7");
  }
}

TEST_CASE("tune: steps that begin before the verdict pause less, and the bound spares no layout of theirs") {
  LayoutRequest request = layout_request("tiny", 4);
  request.speed.flops = 5e12;  // forwards that count
  request.zero = 0;
  const auto alone = search_layouts(request, 1'000'000).best;
  request.post_validation = true;
  const auto following = search_layouts(request, 1'000'000).best, five = search_layouts(request, 5).best;
  REQUIRE(following.size() > 20);
  REQUIRE(five.size() == 5);
  for (std::size_t i = 0; i < five.size(); ++i) CHECK(five[i].seconds == following[i].seconds);
  int sooner = 0;
  for (const RankedLayout& one : following) {
    const auto same = std::find_if(alone.begin(), alone.end(), [&](const RankedLayout& other) {
      const Layout &a = one.layout, &b = other.layout;
      return a.pp == b.pp && a.tp == b.tp && a.dp == b.dp && a.microbatch == b.microbatch && a.chunks == b.chunks &&
             a.schedule == b.schedule && a.recompute == b.recompute;
    });
    if (same == alone.end()) continue;
    INFO(one.layout.schedule << " pp " << one.layout.pp << " dp " << one.layout.dp);
    CHECK(one.seconds <= same->seconds * 1.01);
    CHECK(one.memory.front() >= same->memory.front());
    if (one.layout.pp > 1 && (one.layout.schedule == "zb-h2" || one.layout.schedule == "zb-v"))
      sooner += one.bubble < same->bubble ? 1 : 0;
  }
  CHECK(sooner > 3);
}
