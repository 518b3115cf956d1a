// The options of number types and of the loss scale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/training/job/run_settings.hpp"
#include "apps/options/option_values.hpp"
#include "model/config/numerics.hpp"
#include "model/optimizer/loss_scale.hpp"

namespace pipetrain {

// All throw Error(input) that names the option.
// Returns the value of --precision, else `otherwise`.
Precision read_precision(const OptionValues& values, const Precision& otherwise);
// Returns a note if this host's processor has no instructions for the precision.
std::optional<std::string> precision_note(const Precision& precision, bool gpu);
// precision with --fp8-recipe.
Precision read_fp8_recipe(const OptionValues& values, const Precision& precision);
// Returns no value if --recompute is not given.
std::optional<Recompute> read_recompute(const OptionValues& values);
// --recompute-num-layers, of a run that recomputes so. Nothing where it is not given.
std::optional<std::int64_t> read_recompute_layers(const OptionValues& values, std::optional<Recompute> recompute);
// The options of numbers that travel in few bits.
Compression read_compression(const OptionValues& values);
// Completes the numerics that their rows have read: the precision, and what goes with it.
void read_numerics(const OptionValues& values, bool gpu, Numerics& numerics);
// Likewise. Dynamic in fp16 unless a scale is given; else 1 unless one is.
void read_loss_scale(const OptionValues& values, const Precision& precision, LossScaleSettings& scale);

}  // namespace pipetrain
