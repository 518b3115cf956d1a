#include "apps/options/numerics_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "model/config/mode_names.hpp"
#include "ops/half_products.hpp"

namespace pipetrain {
namespace {

constexpr double usual_dynamic_scale = 65536;
constexpr std::int64_t most_layers = 1'000'000, most_loss_chunks = 1'000'000;
constexpr OptionValues::Range scale_range{.minimum = 0, .above = true, .has_maximum = true, .maximum = 1e30};

}  // namespace

Precision read_precision(const OptionValues& values, const Precision& otherwise) {
  constexpr Precision precisions[] = {Precision::fp32(), Precision::bf16(), Precision::fp16(), Precision::fp8()};
  const auto choice = values.choice("precision", {"fp32", "bf16", "fp16", "fp8"});
  return choice ? precisions[*choice] : otherwise;
}

std::optional<std::string> precision_note(const Precision& precision, bool gpu) {
  if (gpu || !precision.rounds_weights() || half_products(precision.compute).native) return std::nullopt;
  return fmt::format("{} on this CPU: products are widened to fp32, which is slower than --precision fp32",
                     precision_name(precision));
}

Precision read_fp8_recipe(const OptionValues& values, const Precision& precision) {
  const auto choice = values.choice("fp8-recipe", {"tensorwise", "blockwise"});
  if (choice && !precision.fp8_products)
    values.fail("fp8-recipe",
                fmt::format("is of precision fp8, and this run's is {}; leave it out", precision_name(precision)));
  return choice == std::size_t{1} ? Precision::fp8_of_blocks() : precision;
}

std::optional<Recompute> read_recompute(const OptionValues& values) {
  std::vector<std::string> names;
  for (const Recompute mode : recompute_modes) names.emplace_back(name_of(mode));
  const auto choice = values.choice("recompute", names);
  return choice ? std::optional(recompute_modes[*choice]) : std::nullopt;
}

std::optional<std::int64_t> read_recompute_layers(const OptionValues& values, std::optional<Recompute> recompute) {
  const auto layers = values.integer("recompute-num-layers", 1, most_layers);
  if (layers && recompute.value_or(Recompute::none) == Recompute::none)
    values.fail("recompute-num-layers",
                "says how many layers of each stage recompute, and nothing is recomputed; add --recompute full, or selective");
  return layers;
}

Numerics read_numerics(const OptionValues& values, bool gpu) {
  Numerics numerics;
  numerics.precision = read_fp8_recipe(values, read_precision(values, gpu ? Precision::bf16() : Precision::fp32()));
  const auto layers = [&](const char* name) { return values.integer(name, 0, most_layers).value_or(0); };
  numerics.bf16_layers = {layers("num-layers-at-start-in-bf16"), layers("num-layers-at-end-in-bf16")};
  numerics.recompute = read_recompute(values).value_or(numerics.recompute);
  numerics.recompute_layers = read_recompute_layers(values, numerics.recompute);
  numerics.loss_chunks = static_cast<int>(values.integer("loss-chunks", 1, most_loss_chunks).value_or(1));
  numerics.deterministic = values.on_off("deterministic").value_or(true);
  return numerics;
}

LossScaleSettings read_loss_scale(const OptionValues& values, const Precision& precision) {
  LossScaleSettings scale;
  const auto given = values.text("loss-scale");
  scale.dynamic = given ? *given == "dynamic" || *given == "0" : precision == Precision::fp16();
  if (!scale.dynamic) {
    for (const char* name : {"loss-scale-initial", "loss-scale-window", "loss-scale-hysteresis", "loss-scale-min"})
      if (values.given(name))
        values.fail(name, "is of a dynamic loss scale, and this run has none; add --loss-scale dynamic, or leave it out");
    if (given) scale.initial = *values.number("loss-scale", scale_range);
    return scale;
  }
  constexpr auto any_count = std::numeric_limits<std::int64_t>::max();
  scale.initial = values.number("loss-scale-initial", scale_range).value_or(usual_dynamic_scale);
  scale.window = values.integer("loss-scale-window", 1, any_count).value_or(scale.window);
  scale.hysteresis = values.integer("loss-scale-hysteresis", 1, any_count).value_or(scale.hysteresis);
  scale.minimum = values.number("loss-scale-min", scale_range).value_or(std::min(scale.minimum, scale.initial));
  if (scale.minimum > scale.initial)
    values.fail("loss-scale-min", fmt::format("is above where the scale begins, {}; lower it", scale.initial));
  return scale;
}

}  // namespace pipetrain
