// Runs whose settings say what attention sees, in place of the model.
#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/training/job/attention_settings.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;

namespace {

TrainJob sparse_job(const AttentionSettings& attention, const Layout& layout) {
  ModelConfig config = several_blocks_config();
  config.layers = 4;
  config.intermediate = 300;
  config.max_positions = 128;
  set_attention(attention, config);
  return random_job(config, 96, 4, layout);
}

std::string refused_attention(const AttentionSettings& attention) {
  try {
    ModelConfig config = several_blocks_config();
    set_attention(attention, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a window that the run asks for is the window that a model may have itself") {
  TrainJob own = golden_job("mistral_window_tiny", {2, 1, 1, 1}), asked = own;
  REQUIRE(own.config.window > 0);
  set_attention({.window = own.config.window}, asked.config);
  asked.config.window = 0;
  asked.config.layer_types.clear();
  CHECK((run(asked, 3) == run(own, 3)));
}

TEST_CASE("patterns of attention give the same bits in every layout, and other losses than full attention") {
  const double full = run(sparse_job({}, {1, 1, 1, 1}), 1).loss.front();
  for (const AttentionSettings& attention :
       {AttentionSettings{8, 2, ""}, AttentionSettings{0, 0, "fixed"}, AttentionSettings{0, 0, "longformer"},
        AttentionSettings{8, 3, "full,window,fixed"}}) {
    INFO(attention.window << " " << attention.patterns);
    const RunRecord expected = run(sparse_job(attention, {1, 1, 1, 1}), 2);
    CHECK(expected.loss.front() != full);
    CHECK(expected.loss.front() == Approx(full).epsilon(0.05));
    Layout recompute{2, 1, 1, 1, "zb-h1"};
    recompute.recompute = Recompute::full;
    for (const Layout& layout : {Layout{4, 1, 1, 1}, recompute}) CHECK((run(sparse_job(attention, layout), 2) == expected));
    Layout shared{1, 1, 1, 1};
    shared.cp = 2;
    Layout sliced{2, 1, 1, 1};
    sliced.slices = 3;
    for (const Layout& layout : {shared, sliced}) {
      INFO(to_string(layout));
      const RunRecord found = run(sparse_job(attention, layout), 2);
      for (std::size_t step = 0; step < 2; ++step) CHECK(found.loss[step] == Approx(expected.loss[step]).epsilon(1e-5));
    }
  }
}

TEST_CASE("a window that hides nothing gives the bits of full attention") {
  CHECK((run(sparse_job({.window = 96, .sinks = 4}, {1, 1, 1, 1}), 2).loss == run(sparse_job({}, {1, 1, 1, 1}), 2).loss));
}

TEST_CASE("settings of attention that make no pattern are refused by name") {
  CHECK_THAT(refused_attention({0, 4, ""}), Contains("sinks 4: without a window"));
  CHECK_THAT(refused_attention({0, 0, "window"}), Contains("attention-pattern window: the window needs its length"));
  CHECK_THAT(refused_attention({0, 0, "full,other"}), Contains("must be names among full, window, fixed and longformer"));
  CHECK_THAT(refused_attention({8, 0, "full,fixed"}), Contains("window 8: no layer of attention-pattern is a window"));
}
