#include "apps/options/numerics_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/config/mode_names.hpp"
#include "ops/half_products.hpp"

namespace pipetrain {

Precision read_precision(const OptionValues& values, const Precision& otherwise) {
  constexpr Precision precisions[] = {Precision::fp32(), Precision::bf16(), Precision::fp16(), Precision::fp8()};
  const auto choice = values.choice("precision");
  return choice ? precisions[*choice] : otherwise;
}

std::optional<std::string> precision_note(const Precision& precision, bool gpu) {
  if (gpu || !precision.rounds_weights() || half_products(precision.compute).native) return std::nullopt;
  return fmt::format("{} on this CPU: products are widened to fp32, which is slower than --precision fp32",
                     precision_name(precision));
}

Precision read_fp8_recipe(const OptionValues& values, const Precision& precision) {
  const auto choice = values.choice("fp8-recipe");
  if (choice && !precision.fp8_products)
    values.fail("fp8-recipe",
                fmt::format("applies to precision fp8, and this run's is {}; leave it out", precision_name(precision)));
  return choice == std::size_t{1} ? Precision::fp8_of_blocks() : precision;
}

std::optional<Recompute> read_recompute(const OptionValues& values) {
  const auto choice = values.choice("recompute");
  return choice ? std::optional(recompute_modes[*choice]) : std::nullopt;
}

std::optional<std::int64_t> read_recompute_layers(const OptionValues& values, std::optional<Recompute> recompute) {
  const auto layers = values.integer("recompute-num-layers");
  if (layers && recompute.value_or(Recompute::none) == Recompute::none)
    values.fail("recompute-num-layers",
                "says how many layers of each stage recompute, and nothing is recomputed; add --recompute full, or selective");
  return layers;
}

Compression read_compression(const OptionValues& values) {
  Compression compression;
  if (const auto choice = values.choice("compress-gradients")) compression.gradients = static_cast<BlockCode>(*choice);
  if (const auto choice = values.choice("compress-weights")) compression.weights = static_cast<BlockCode>(*choice);
  compression.hosts = static_cast<int>(values.integer("compress-hosts").value_or(0));
  if (compression.hosts > 0 && compression.gradients == BlockCode::none)
    values.fail("compress-hosts", "says where gradients are compressed; give --compress-gradients too, or leave it out");
  return compression;
}

void read_numerics(const OptionValues& values, bool gpu, Numerics& numerics) {
  numerics.precision = read_fp8_recipe(values, read_precision(values, gpu ? Precision::bf16() : Precision::fp32()));
  numerics.recompute_layers = read_recompute_layers(values, numerics.recompute);
}

void read_loss_scale(const OptionValues& values, const Precision& precision, LossScaleSettings& scale) {
  const auto given = values.text("loss-scale");
  scale.dynamic = given ? *given == "dynamic" || *given == "0" : precision == Precision::fp16();
  if (!scale.dynamic) {
    for (const char* name : {"loss-scale-initial", "loss-scale-window", "loss-scale-hysteresis", "loss-scale-min"})
      if (values.given(name))
        values.fail(name, "applies to a dynamic loss scale, and this run has none; add --loss-scale dynamic, or leave it out");
    if (given) scale.initial = *values.number("loss-scale");
    return;
  }
  if (!values.given("loss-scale-initial")) scale.initial = usual_dynamic_scale;
  if (!values.given("loss-scale-min")) scale.minimum = std::min(scale.minimum, scale.initial);
  if (scale.minimum > scale.initial)
    values.fail("loss-scale-min", fmt::format("is above the initial scale, {}; lower it", scale.initial));
}

}  // namespace pipetrain
