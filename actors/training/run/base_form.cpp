#include "actors/training/run/base_form.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "model/config/tensor_spec.hpp"

namespace pipetrain {
namespace {

bool quantises_anything(const ModelConfig& config) {
  const auto blocks = block_counts(config);
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockCount& counted) {
    const auto tensors = block_tensors(config, counted.block);
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const TensorSpec& tensor) { return tensor.group == ParameterGroup::quantised; });
  });
}

WeightForm form_of(BasePrecision precision) {
  return precision == BasePrecision::bf16  ? WeightForm::bf16
         : precision == BasePrecision::fp8 ? WeightForm::fp8
                                           : WeightForm::nf4;
}

}  // namespace

void set_base_form(const ModelSettings& model, DType compute, ModelConfig& config) {
  const WeightForm stored = model.load_weights ? config.base_form : WeightForm::plain;
  const auto wanted = model.base_precision ? std::optional(form_of(*model.base_precision)) : std::nullopt;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::input, {"base-precision", name_of(wanted.value_or(stored))}, why);
  };
  if (wanted && stored != WeightForm::plain && !is_nf4(*wanted))
    refuse(fmt::format("the matrices of {} are quantised to nf4 already; leave it out", model.name));
  config.base_form = stored != WeightForm::plain ? stored : wanted.value_or(WeightForm::plain);
  if (config.base_form == WeightForm::plain) return;
  if (!quantises_anything(config)) {
    if (wanted)
      refuse("no matrix of attention and MLP is frozen, and trained ones are not quantised; leave it out, or train adapters");
    throw Error(
        ErrorKind::input, {"model", model.name},
        "its matrices are quantised to nf4 and cannot be trained; train adapters on them, or give the unquantised weights");
  }
  if (config.base_form == WeightForm::bf16 && compute == DType::bf16) config.base_form = WeightForm::plain;  // the same bits
}

}  // namespace pipetrain
