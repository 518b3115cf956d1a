// The options of the optimizer, beside its learning rate.
#pragma once

#include <string>

#include "apps/options/option_values.hpp"
#include "model/optimizer/optimizer_settings.hpp"

namespace pipetrain {

// --optimizer, with the settings that it has where the user gives none. Throws Error(input) that names the option, as below.
OptimizerSettings named_optimizer(const OptionValues& values);
// With --beta1, --beta2, --adam-eps and --weight-decay.
OptimizerSettings read_optimizer(const OptionValues& values);

// For the tables of options: "adamw|lion", and the default of a setting, "0.95; lion 0.99".
std::string optimizer_choices();
std::string optimizer_default(float OptimizerSettings::*setting);

}  // namespace pipetrain
