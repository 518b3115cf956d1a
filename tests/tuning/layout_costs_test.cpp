// The estimated costs of the parts of a layout.
#include "tuning/layout_costs.hpp"

#include <algorithm>

#include "catch.hpp"

using namespace pipetrain;
using schedules::Placement;

namespace {

LayoutRequest tied_request() {
  LayoutRequest request;
  request.config = preset_config("llama3.2-1b");
  request.sequence = 128;
  request.speed = {.flops = 1e14, .memory_bytes = 1e11, .memory_rate = 1e12, .link_rate = 1e9, .latency = 1e-5};
  return request;
}

// OLMoE: 64 experts of 1,024, of which a token chooses 8.
LayoutRequest expert_request() {
  LayoutRequest request = tied_request();
  request.config = preset_config("olmoe-1b-7b");
  return request;
}

}  // namespace

TEST_CASE("tune: a tied sum moves over a link between two stages, and in memory on one stage") {
  const LayoutRequest request = tied_request();
  REQUIRE(request.config.tied_embeddings);
  const double bytes = 4.0 * static_cast<double>(request.config.hidden * request.config.vocabulary);
  LayoutCosts costs(request);
  const auto one = costs.of({.pp = 1}, Placement::looping(1, 1));
  CHECK(one.chunks[0][0].sum_tied == Approx(3 * bytes / 1e12));
  const auto v_shape = costs.of({.pp = 2, .chunks = 2}, Placement::v_shape(2));
  CHECK(v_shape.chunks[0][0].sum_tied == Approx(3 * bytes / 1e12));
  CHECK(v_shape.chunks[1][0].sum_tied == 0);
  const auto two = costs.of({.pp = 2, .tp = 2}, Placement::looping(2, 1));
  for (const auto& stage : two.chunks) CHECK(stage[0].sum_tied == Approx(1e-5 + bytes / 2 / 1e9));
}

TEST_CASE("tune: frozen blocks have no gradients to make, sum and count, and no optimizer states") {
  LayoutRequest all = tied_request(), frozen = tied_request();
  all.config.tied_embeddings = frozen.config.tied_embeddings = false;
  frozen.config.trained = {.blocks = false, .embeddings = false, .head = true};
  Layout layout{.pp = 2, .dp = 2};
  layout.cut = {16, 16};
  const Placement placement = Placement::looping(2, 1);
  LayoutCosts before(all), after(frozen);
  const schedules::Costs had = before.of(layout, placement), has = after.of(layout, placement);
  CHECK(has.optimizer[0] == 0);
  CHECK(has.norm[0] == 0);
  CHECK(has.chunks[0][0].forward == had.chunks[0][0].forward);
  CHECK(has.chunks[0][0].input_grad == had.chunks[0][0].input_grad);
  CHECK(has.chunks[0][0].weight_grad < had.chunks[0][0].weight_grad);
  CHECK(has.optimizer[1] > 0);
  CHECK(has.chunks[1][0].reduce_grads < had.chunks[1][0].reduce_grads);
  CHECK(after.most_state_bytes(layout, placement) < before.most_state_bytes(layout, placement));
  CHECK(after.bound(layout, placement) < before.bound(layout, placement));
}

TEST_CASE("tune: gradients in few bits take less of a slow link, and time to code them") {
  LayoutRequest request = tied_request();
  request.config.tied_embeddings = false;
  request.hosts = 2, request.devices = 2;
  request.speed.host_link_rate = 1e7, request.speed.memory_rate = 1e18;
  const Layout layout{.dp = 2};
  const auto seconds = [&](BlockCode code) {
    request.compression.gradients = code;
    return LayoutCosts(request).of(layout, Placement::looping(1, 1)).chunks[0][0].reduce_grads;
  };
  const double full = seconds(BlockCode::none);
  CHECK(full / seconds(BlockCode::int8) == Approx(256.0 / 65).epsilon(1e-3));
  CHECK(full / seconds(BlockCode::sign) == Approx(1024.0 / 33).epsilon(1e-3));
  const double coded = seconds(BlockCode::int8);
  request.speed.memory_rate = 1e9;
  CHECK(seconds(BlockCode::int8) > coded);
  CHECK(seconds(BlockCode::none) == full);
}

TEST_CASE("tune: weights that replicas gather in 8 bits take a quarter of a slow link in fp32, and half in bf16") {
  LayoutRequest request = tied_request();
  request.config.tied_embeddings = false;
  request.hosts = 2, request.devices = 2;
  request.speed.host_link_rate = 1e6, request.speed.memory_rate = 1e18, request.speed.flops = 1e18;
  const auto forward = [&](const Precision& precision, BlockCode code) {
    request.precision = precision;
    request.compression.weights = code;
    return LayoutCosts(request).of({.dp = 2, .zero = {.stage = 3}}, Placement::looping(1, 1)).chunks[0][0].forward;
  };
  for (const auto& [precision, share] : {std::pair{Precision::fp32(), 4.0}, std::pair{Precision::bf16(), 2.0}})
    CHECK(forward(precision, BlockCode::none) / forward(precision, BlockCode::int8) == Approx(share * 64 / 65).epsilon(1e-3));
}

TEST_CASE("tune: in fp8 the blocks' products have their own rate, what they read is rounded, and the head is as in bf16") {
  LayoutRequest bf16 = tied_request(), fp8 = tied_request();
  bf16.config.tied_embeddings = fp8.config.tied_embeddings = false;
  bf16.precision = Precision::bf16(), fp8.precision = Precision::fp8();
  fp8.speed.fp8_flops = 2 * fp8.speed.flops;
  // Stages of one attention or MLP block; the first and the last also have the ends.
  const int stages = static_cast<int>(2 * bf16.config.layers);
  const Layout layout{.pp = stages};
  LayoutCosts wide(bf16), narrow(fp8);
  const auto seconds = [&](LayoutCosts& costs, std::size_t part) { return costs.parts(layout)[part].times; };
  const double tokens = 128, hidden = 2048, inner = 8192, rate = 1e12;
  const auto mlp = seconds(wide, 1), mlp8 = seconds(narrow, 1);
  CHECK(mlp8.weight_grad == Approx(mlp.weight_grad / 2));
  CHECK(mlp8.forward == Approx(mlp.forward / 2 + 4 * tokens * (hidden + inner) / rate));
  CHECK(mlp8.input_grad == Approx(mlp.input_grad / 2 + 4 * tokens * (hidden + 2 * inner) / rate));
  const double head = 2 * tokens * hidden * 128256 / 1e14;  // of the last stage, with an MLP
  CHECK(seconds(wide, static_cast<std::size_t>(stages) - 1).weight_grad == Approx(mlp.weight_grad + head));
  CHECK(seconds(narrow, static_cast<std::size_t>(stages) - 1).weight_grad == Approx(mlp.weight_grad / 2 + head));
  // Weights that replicas divide are rounded for each use.
  Layout divided{.pp = stages, .dp = 2};
  const double without = narrow.parts(divided)[1].times.forward;
  divided.zero.stage = 3;
  fp8.speed.link_rate = 1e15, fp8.speed.latency = 0;
  LayoutCosts gathering(fp8);
  CHECK(gathering.parts(divided)[1].times.forward == Approx(without + 4 * (3 * hidden * inner + hidden) / rate));
}

TEST_CASE(
    "tune: in fp8 experts multiply at the rate of 8 bits, round their rows, and make the gradients of weights in 16 bits") {
  LayoutRequest bf16 = expert_request(), fp8 = expert_request();
  bf16.precision = Precision::bf16(), fp8.precision = Precision::fp8();
  fp8.speed.fp8_flops = 2 * fp8.speed.flops;
  const Block routed{BlockKind::experts, 0};
  const double rows = 8 * 128, hidden = 2048, inner = 1024, rate = 1e12, fast = 1e30;
  const auto times = [&](LayoutRequest request, double memory_rate) {
    request.speed.memory_rate = memory_rate;
    return LayoutCosts(request).block_times(routed, {});
  };
  const auto wide = times(bf16, fast), narrow = times(fp8, fast);
  CHECK(narrow.weight_grad == Approx(wide.weight_grad));
  CHECK(narrow.forward == Approx(wide.forward / 2));
  CHECK(narrow.input_grad == Approx(wide.input_grad / 2));
  bf16.speed.flops = fp8.speed.flops = fp8.speed.fp8_flops = fast;
  const auto passes = times(bf16, rate), rounds = times(fp8, rate);
  CHECK(rounds.weight_grad == Approx(passes.weight_grad));
  CHECK(rounds.forward == Approx(passes.forward + rows * 3 * (hidden + inner) / rate));
  CHECK(rounds.input_grad == Approx(passes.input_grad + rows * (5 * hidden + 6 * inner) / rate));
}

TEST_CASE("tune: experts take the time of their weights, gradients and rows in memory, whatever their products take") {
  LayoutRequest request = expert_request();
  request.precision = Precision::bf16();
  const double rows = 8 * 128, hidden = 2048, inner = 1024, rate = request.speed.memory_rate;
  const Block routed{BlockKind::experts, 0};
  const auto seconds = [&](double flops, Layout layout) {
    request.speed.flops = flops;
    return LayoutCosts(request).block_times(routed, layout);
  };
  const auto memory = seconds(1e30, {});
  const double weights = 64 * 3 * hidden * inner;
  CHECK(memory.forward == Approx((2 * weights + 2 * rows * 3 * (hidden + inner)) / rate));
  CHECK(memory.input_grad == Approx((2 * weights + 2 * rows * (3 * hidden + 5 * inner)) / rate));
  CHECK(memory.weight_grad == Approx(8 * weights / (0.87 * rate)));
  // Ranks that divide the experts divide their weights, and have as many rows.
  Layout divided{.dp = 2};
  divided.ep = 2;
  CHECK(seconds(1e30, divided).weight_grad == Approx(memory.weight_grad / 2));
  // Products and memory overlap in part.
  const auto both = seconds(1e14, {});
  const double products = 2 * rows * 3 * hidden * inner / 1e14;
  CHECK(both.weight_grad > std::max(memory.weight_grad, products));
  CHECK(both.weight_grad < memory.weight_grad + products);
}

TEST_CASE("tune: products of tensor-parallel GPUs hide their transfers in pieces, and those of CPUs do not") {
  LayoutRequest request = tied_request();
  request.speed.latency = 0;
  const Block mlp{BlockKind::mlp, 0};
  const auto forward = [&](DeviceKind device, int tp, double rate) {
    request.device = device, request.speed.link_rate = rate;
    return LayoutCosts(request).block_times(mlp, {.tp = tp}).forward;
  };
  constexpr double fast = 1e30;
  const double product = forward(DeviceKind::cpu, 4, fast), bytes = 4.0 * 128 * 2048, rate = 1e12;
  const double travels = 2 * 0.75 * bytes / rate;
  REQUIRE(travels < 0.75 * product);
  CHECK(forward(DeviceKind::cpu, 4, rate) == Approx(product + travels));
  CHECK(forward(DeviceKind::cuda, 4, rate) == Approx(product));
  // The first of four pieces waits for no transfer, and what takes longer than the others' products is seen.
  const double slow = rate * travels / product;
  CHECK(forward(DeviceKind::cuda, 4, slow) == Approx(product + 0.25 * product));
}

TEST_CASE("tune: a ring's transfers cost what attention does not hide, and the gradients' way home") {
  LayoutRequest request = tied_request();
  request.config.tied_embeddings = false;
  request.sequence = 1024;
  request.speed.latency = 0;
  const Block attention{BlockKind::attention, 0};
  const auto times = [&](int cp, double rate) {
    request.speed.link_rate = rate;
    return LayoutCosts(request).block_times(attention, {.cp = cp});
  };
  constexpr double fast = 1e30;
  const auto alone = times(1, fast), pair = times(2, fast);
  CHECK(pair.forward < 0.6 * alone.forward);
  CHECK(pair.input_grad < 0.6 * alone.input_grad);
  // fp32, 512 tokens: so slow that almost nothing is overlapped; keys and values go round once in each direction, their
  // gradients twice.
  constexpr double slow = 1e3;
  const double bytes = 2.0 * 512 * static_cast<double>(request.config.kv_heads * request.config.head_dim) * 4;
  CHECK(times(2, slow).forward == Approx(bytes / slow).epsilon(1e-3));
  CHECK(times(2, slow).input_grad == Approx(3 * bytes / slow).epsilon(1e-3));
  CHECK(times(2, slow).weight_grad == pair.weight_grad);
  CHECK(times(4, slow).forward == Approx(3 * (bytes / 2) / slow).epsilon(1e-3));
  CHECK(times(4, slow).input_grad == Approx((3 + 4) * (bytes / 2) / slow).epsilon(1e-3));
}

TEST_CASE("tune: links between hosts are those of the edges, sums and verdicts that leave one") {
  LayoutRequest request = tied_request();
  request.devices = 8;
  request.hosts = 2;
  request.speed.host_link_rate = 1e8;
  request.speed.host_latency = 1e-3;
  LayoutCosts costs(request);
  const auto latencies = [](const schedules::Costs& of) {
    std::vector<double> found;
    for (const auto& link : of.links) found.push_back(link.latency);
    return found;
  };
  // Four stages of two ranks: two stages on each host; the tied weights' two copies are on different ones.
  const auto stages = costs.of({.pp = 4, .tp = 2}, Placement::looping(4, 1));
  CHECK(latencies(stages) == std::vector<double>{1e-5, 1e-3, 1e-5});
  CHECK(stages.chunks[0][0].sum_tied >
        10 * costs.of({.pp = 2, .tp = 2, .dp = 2}, Placement::looping(2, 1)).chunks[0][0].sum_tied / 2);
  CHECK(stages.verdict == Approx(2e-3));
  // Chunks that go round also use the edge from the last stage to the first.
  CHECK(latencies(costs.of({.pp = 2, .tp = 4, .chunks = 2}, Placement::looping(2, 2))) == std::vector<double>(3, 1e-3));
  // One replica on each host: its edges stay there, its sums do not.
  const auto replicas = costs.of({.pp = 2, .tp = 2, .dp = 2}, Placement::looping(2, 1));
  CHECK(latencies(replicas) == std::vector<double>{1e-5});
  const double near = [&] {
    LayoutRequest one = request;
    one.hosts = 1;
    return LayoutCosts(one).of({.pp = 2, .tp = 2, .dp = 2}, Placement::looping(2, 1)).chunks[0][0].reduce_grads;
  }();
  CHECK(replicas.chunks[0][0].reduce_grads > 9 * near);
}
