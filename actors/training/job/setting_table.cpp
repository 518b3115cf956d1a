#include <fmt/format.h>

#include "actors/training/job/setting_rows.hpp"

namespace pipetrain {

using namespace setting_members;

namespace {

using Run = RunSettings;

SettingRows saving_rows() {
  using Saving = SavingSettings;
  const auto gigabytes = [](const Run& run) { return fmt::format("{}GB", static_cast<double>(run.saving.shard_bytes) / 1e9); };
  return {
      {"save", "DIR", "write checkpoints of this one run and, at the end, DIR/model (a Hugging Face folder)",
       special(AnyText{}, unset)},
      {"save-interval", "N", "a checkpoint every N steps, written while training continues",
       integer<&Run::saving, &Saving::interval>(), used_alone, "only at the end"},
      {"save-keep", "K", "keep the newest K checkpoints", integer<&Run::saving, &Saving::keep>(), used_alone, "all"},
      {"save-keep-every", "N", "with `save-keep`: keep those of every N-th step too",
       integer<&Run::saving, &Saving::keep_every>()},
      {"save-dtype", "", "number type of DIR/model's weights; checkpoints keep the optimizer's fp32",
       choice<&Run::saving, &Saving::type>({"fp32", "bf16", "fp16"})},
      {"save-shard-size", "SIZE", "largest size of one file of DIR/model, such as 500MB; several files have an index",
       special(AnyText{}, gigabytes)},
      {"load", "DIR", "continue from this checkpoint, in any layout",
       special(AnyText{}, [](const Run& run) { return run.saving.load ? "on" : ""; }), compared},
      {"resume", "", "continue from the newest complete checkpoint in `save`, or start fresh",
       on_off<&Run::saving, &Saving::resume>(), compared},
  };
}

SettingRows failure_rows() {
  return {
      {"stall-timeout", "SECONDS",
       "a step fails if no action completes for this long, or the others wait for one process for this long; 0: never",
       integer<&Run::stall>(0, 1'000'000)},
      {"elastic", "",
       "when processes of the run are lost: all end, or those that are left take over their ranks and repeat the step, with the same bits",
       choice<&Run::elastic>({"off", "takeover"}), compared},
      {"spares", "N",
       "with elastic takeover: the last N processes have no ranks, and take over those of lost processes before others do",
       integer<&Run::spares>(0, 4095), compared},
  };
}

}  // namespace

const std::vector<SettingRow>& setting_table() {
  static const SettingRows table = [] {
    SettingRows all;
    const auto add = [&all](const char* group, SettingRows rows) {
      for (SettingRow& row : rows) row.group = group;
      all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    };
    add("Model and data", model_rows());
    add("Preferences", preference_rows());
    add("Evaluation", evaluation_rows());
    add("Layout", layout_rows());
    add("Layout", state_rows());
    add("Layout", schedule_rows());
    add("Batch and length", batch_rows());
    add("Optimizer", optimizer_rows());
    add("Optimizer", optimizer_factor_rows());
    add("Optimizer", expert_rows());
    add("Adapters", adapter_rows());
    add("Numbers and devices", numerics_rows());
    add("Numbers and devices", loss_scale_rows());
    add("Numbers and devices", base_rows());
    add("Numbers and devices", recompute_rows());
    add("Numbers and devices", device_rows());
    add("Checkpoints", saving_rows());
    add("General", failure_rows());
    return all;
  }();
  return table;
}

}  // namespace pipetrain
