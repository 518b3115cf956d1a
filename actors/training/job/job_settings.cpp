#include "actors/training/job/job_settings.hpp"

#include <fmt/format.h>

#include "actors/training/job/setting_row.hpp"
#include "actors/training/job/train_job.hpp"
#include "data/samples/fingerprint.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

NamedValues job_settings(const RunSettings& settings) {
  NamedValues values;
  for (const SettingRow& row : setting_table())
    if ((row.uses & compared) != 0) values.emplace_back(row.name, row.member.text(settings));
  values.emplace_back("trained-parts", to_string(settings.model.trained));
  return values;
}

NamedValues lasting_contents(const TrainJob& job) {
  NamedValues values;
  values.push_back(model_content(job.config));
  if (job.base) values.emplace_back("weights below the adapters", fmt::format("{:016x}", *job.base));
  values.emplace_back("adapters", job.config.adapter.exists() ? peft_config_text(job.config, "") : "none");
  values.emplace_back("model of reference", job.initial.reference ? "given" : "none");
  values.emplace_back("data",
                      fmt::format("{:016x}, sequences of {}", data_fingerprint(*job.dataset), job.dataset->sequence_length()));
  values.emplace_back("evaluation data", job.evaluation ? fmt::format("{:016x}", data_fingerprint(*job.evaluation)) : "none");
  values.emplace_back("total steps", fmt::format("{}", job.learning_rate.total_steps));
  return values;
}

NamedValues job_contents(const TrainJob& job) {
  NamedValues values = lasting_contents(job);
  values.emplace_back("step to continue from", fmt::format("{}", job.steps_done));
  values.emplace_back("applied steps", fmt::format("{}", job.initial.applied_steps));
  std::string states;
  for (const auto& [name, source] : job.initial.states) states += name + " ";
  values.emplace_back("optimizer states", states);
  return values;
}

}  // namespace pipetrain
