#include "actors/training/job/setting_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

using namespace setting_members;

namespace {

using Run = RunSettings;

constexpr auto share = NumberRange::from_to(0, 1), below_zero = NumberRange::from_to_below(-100, 0);

// Returns the default of a setting of the optimizers, such as "0.95; lion 0.99": that of the first optimizer that uses it, then
// those that differ. An empty setting: all optimizers use it.
template <class Type>
std::string optimizer_default(const std::string& setting, Type OptimizerSettings::*factor) {
  std::optional<Type> usual;
  std::string text;
  for (const std::string& name : optimizer_names()) {
    if (!setting.empty() && !optimizer_uses(name, setting)) continue;
    const Type own = default_settings(name).*factor;
    if (!usual) text = text_of(own);
    if (usual && own != *usual) text += fmt::format("; {} {}", name, text_of(own));
    if (!usual) usual = own;
  }
  return text;
}

template <auto path>
SettingRow optimizer_row(const char* name, const char* value, const char* help, SettingMember member) {
  return {name, value, help, std::move(member), compared, optimizer_default(name, path)};
}

void set_optimizer(Run& run, const SettingValue& value) {
  run.optimizer = default_settings(optimizer_names()[static_cast<std::size_t>(std::get<std::int64_t>(value))]);
}

}  // namespace

SettingRows optimizer_rows() {
  using Rate = LearningRateSettings;
  using Own = OptimizerSettings;
  return {
      {"optimizer", "", "the rule that updates the weights: docs/optimizers.md",
       special(
           optimizer_names(), [](const Run& run) { return run.optimizer.name; }, set_optimizer),
       compared},
      {"lr", "RATE", "peak learning rate", number<&Run::learning_rate, &Rate::peak>(), compared},
      {"min-lr", "RATE", "learning rate at the end", number<&Run::learning_rate, &Rate::minimum>(), compared},
      {"lr-schedule", "", "course of the rate from peak to end",
       choice<&Run::learning_rate, &Rate::kind>({"constant", "linear", "cosine"}), compared},
      {"warmup-steps", "N", "steps over which the rate rises to its peak", integer<&Run::learning_rate, &Rate::warmup_steps>(0),
       compared},
      {"warmup-ratio", "X", "the same as a share of all steps, from 0 to 1",
       number<&Run::learning_rate, &Rate::warmup_ratio>(share), compared, "0"},
      {"warmup-init-lr", "RATE", "learning rate that the warm-up rises from",
       number<&Run::learning_rate, &Rate::warmup_initial>(), compared},
      {"weight-decay", "X",
       "weight decay of tensors with two or more dimensions; sgd adds it to the gradient, lamb to the update",
       number<&Run::optimizer, &Own::weight_decay>(), compared, optimizer_default("", &Own::weight_decay)},
      {"dropout", "X", "dropout wherever the model's family has it, from 0 to below 1",
       number<&Run::model, &ModelSettings::dropout>(below_one), compared, "as in the model's config.json"},
      {"clip-grad", "X", "largest global gradient norm; 0 turns clipping off", number<&Run::clip_norm>(), compared},
  };
}

SettingRows optimizer_factor_rows() {
  using Own = OptimizerSettings;
  constexpr std::int64_t most_galore = 1'000'000;
  return {
      optimizer_row<&Own::beta1>("beta1", "X", "decay of the first moment; in lion, the momentum's share of the update",
                                 number<&Run::optimizer, &Own::beta1>(below_one)),
      optimizer_row<&Own::beta2>("beta2", "X", "decay of the second moment; in lion, that of its momentum",
                                 number<&Run::optimizer, &Own::beta2>(below_one)),
      optimizer_row<&Own::beta3>("beta3", "X", "in came: decay of the squared deviations of updates",
                                 number<&Run::optimizer, &Own::beta3>(below_one)),
      optimizer_row<&Own::beta2_decay>("beta2-decay", "X", "in adafactor: beta2 of step t is 1 - t^X",
                                       number<&Run::optimizer, &Own::beta2_decay>(below_zero)),
      optimizer_row<&Own::eps>(
          "adam-eps", "X",
          "added to the root of the second moment; in adafactor the least root, in came added to squared gradients",
          number<&Run::optimizer, &Own::eps>({.above = true})),
      optimizer_row<&Own::eps2>("eps2", "X",
                                "in adafactor: the least root mean square of a weight; in came: added to squared deviations",
                                number<&Run::optimizer, &Own::eps2>({.above = true})),
      optimizer_row<&Own::clip_threshold>("clip-threshold", "X",
                                          "in adafactor and came: the largest root mean square of an update",
                                          number<&Run::optimizer, &Own::clip_threshold>({.above = true})),
      optimizer_row<&Own::momentum>("momentum", "X", "decay of the momentum of sgd, which 0 turns off, and of muon",
                                    number<&Run::optimizer, &Own::momentum>(below_one)),
      optimizer_row<&Own::nesterov>("nesterov", "on|off", "in sgd and muon: Nesterov's momentum",
                                    on_off<&Run::optimizer, &Own::nesterov>()),
      optimizer_row<&Own::galore_rank>("galore-rank", "N", "in galore: rank of the projected gradients",
                                       integer<&Run::optimizer, &Own::galore_rank>(1, most_galore)),
      optimizer_row<&Own::galore_gap>("galore-update-proj-gap", "N",
                                      "in galore: steps between two computations of the projection",
                                      integer<&Run::optimizer, &Own::galore_gap>(1)),
      optimizer_row<&Own::galore_scale>("galore-scale", "X", "in galore: factor of the update",
                                        number<&Run::optimizer, &Own::galore_scale>({.above = true})),
      {"muon-adjust-lr", "",
       "in muon, how the update of a matrix [rows, columns] is scaled: original, by sqrt(max(1, rows / columns)); match-rms-adamw, by 0.2 sqrt(max(rows, columns)), for rates that suit AdamW",
       choice<&Run::optimizer, &Own::muon_rate>({"original", "match-rms-adamw"}), compared},
  };
}

}  // namespace pipetrain
