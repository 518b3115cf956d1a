// The rows of the setting table by subject; setting_table() joins them. Internal to actors/training/job/.
#pragma once

#include "actors/training/job/setting_row.hpp"

namespace pipetrain {

using SettingRows = std::vector<SettingRow>;

SettingRows model_rows();
SettingRows preference_rows();
SettingRows evaluation_rows();
SettingRows adapter_rows();
SettingRows expert_rows();

SettingRows layout_rows();
SettingRows state_rows();  // divided and compressed by replicas, and offloaded
SettingRows schedule_rows();
SettingRows batch_rows();
SettingRows device_rows();

SettingRows optimizer_rows();
SettingRows optimizer_factor_rows();  // the factors that only some optimizers have

SettingRows numerics_rows();
SettingRows loss_scale_rows();
SettingRows base_rows();
SettingRows recompute_rows();

namespace setting_members {

// Ranges and limits that several subjects need.
constexpr std::int64_t most_devices = 65536, most_kept_layers = 1'000'000;
constexpr auto below_one = NumberRange::from_to_below(0, 1);
constexpr NumberRange scale_range{.above = true, .has_maximum = true, .maximum = 1e30};

// The text of a setting that processes do not compare.
inline std::string unset(const RunSettings&) { return ""; }

}  // namespace setting_members

}  // namespace pipetrain
