#include "actors/training/job/setting_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/config/mode_names.hpp"

namespace pipetrain {

using namespace setting_members;

namespace {

using Run = RunSettings;

Choices recompute_names() {
  Choices names;
  for (const Recompute mode : recompute_modes) names.emplace_back(name_of(mode));
  return names;
}

}  // namespace

SettingRows numerics_rows() {
  return {
      {"precision", "", "number type of computation; fp8, on Hopper GPUs: bf16 with the blocks' matrix products in 8 bits",
       special(Choices{"fp32", "bf16", "fp16", "fp8"}, [](const Run& run) { return precision_name(run.numerics.precision); }),
       compared, "fp32 on CPU, bf16 on GPU"},
      {"fp8-recipe", "",
       "with `precision` fp8: one scale a tensor, gradients in e5m2; or one for each 128 numbers, of weights for each 128 x 128, all in e4m3",
       special(Choices{"tensorwise", "blockwise"}, [](const Run& run) { return fp8_recipe_name(run.numerics.precision); }),
       compared},
      {"num-layers-at-start-in-bf16", "N", "with `precision` fp8: the first N layers multiply in bf16",
       integer<&Run::numerics, &Numerics::bf16_layers, &Bf16Layers::at_start>(0, most_kept_layers), compared},
      {"num-layers-at-end-in-bf16", "N", "with `precision` fp8: the last N layers do",
       integer<&Run::numerics, &Numerics::bf16_layers, &Bf16Layers::at_end>(0, most_kept_layers), compared},
  };
}

SettingRows loss_scale_rows() {
  return {
      {"loss-scale", "dynamic|X",
       "factor of the loss before the backward; dynamic (or 0): a step whose gradients overflow is skipped, which warm-up and decay of the learning rate do not count, and the scale halves",
       special(scale_range,
               [](const Run& run) { return run.loss_scale.dynamic ? "dynamic" : text_of(run.loss_scale.initial); }),
       compared, "dynamic in fp16, else 1"},
      {"loss-scale-initial", "X", "initial value of a dynamic scale",
       number<&Run::loss_scale, &LossScaleSettings::initial>(scale_range), compared, fmt::format("{}", usual_dynamic_scale)},
      {"loss-scale-window", "N", "steps without overflow after which it doubles",
       integer<&Run::loss_scale, &LossScaleSettings::window>(), compared},
      {"loss-scale-hysteresis", "N", "overflows since it last doubled after which it halves",
       integer<&Run::loss_scale, &LossScaleSettings::hysteresis>(), compared},
      {"loss-scale-min", "X", "its smallest value; an overflow there ends the run",
       number<&Run::loss_scale, &LossScaleSettings::minimum>(scale_range), compared},
  };
}

SettingRows base_rows() {
  return {
      {"base-precision", "",
       "type of the frozen matrices of attention, MLPs and experts, from which products make the type of `precision` block by block: fp8 is e4m3 with a scale for each 128 x 128 numbers; nf4 has 4 bits and a scale for each 64, itself in 8 bits, as bitsandbytes has them",
       choice<&Run::model, &ModelSettings::base_precision>({"bf16", "fp8", "nf4"}), compared,
       "nf4 where the folder has it, else the type of computation"},
  };
}

SettingRows recompute_rows() {
  return {
      {"recompute", "", "activations that the backward computes again to save memory",
       choice<&Run::numerics, &Numerics::recompute>(recompute_names()), compared | profiled, "", SettingPhrase(", recompute ")},
      {"recompute-num-layers", "N",
       "only the first N layers of each stage (with chunks, of each chunk); the others keep more: with full they recompute as selective does, with selective nothing",
       integer<&Run::numerics, &Numerics::recompute_layers>(1, most_kept_layers), compared | profiled, "all",
       SettingPhrase(" of ", "layer")},
      {"loss-chunks", "N",
       "the head and the loss take a microbatch's tokens in N chunks, one after the other, so that the logits are never in memory as a whole; it computes them twice",
       integer<&Run::numerics, &Numerics::loss_chunks>(1, 1'000'000), compared | profiled, "",
       SettingPhrase(", loss in ", "chunk")},
      {"deterministic", "on|off", "the same bits in every run and for every pp and schedule",
       on_off<&Run::numerics, &Numerics::deterministic>(), compared | profiled},
  };
}

}  // namespace pipetrain
