// What the parts of a layout are taken to cost.
#include "tuning/layout_costs.hpp"

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
