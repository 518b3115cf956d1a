// Runs whose steps may begin before the verdict on the previous one, and the results that are compared between them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/training/run/step_bubbles.hpp"
#include "actors/training/run/trainer.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/weights.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {

struct Steps {
  std::vector<std::tuple<double, double, bool>> reports;  // loss, norm (0 if it overflowed), skipped
  std::map<std::string, std::vector<float>> weights;
  int previewed = 0, redone = 0;

  bool same_bits(const Steps& other) const { return reports == other.reports && weights == other.weights; }
};

inline Steps steps_of(TrainJob job, bool post_validation, int count) {
  const ModelConfig config = job.config;
  job.post_validation = post_validation;
  job.stall = std::chrono::seconds(20);
  Trainer trainer(std::move(job));
  Steps steps;
  for (int i = 0; i < count; ++i) {
    const StepReport report = trainer.step(i + 1 < count);
    const double norm = std::isfinite(report.grad_norm) ? report.grad_norm : 0;
    steps.reports.emplace_back(report.loss, norm, report.skipped);
    steps.previewed += previewed(report.trace) ? 1 : 0;
    steps.redone += report.redone ? 1 : 0;
  }
  const TempFolder folder;
  trainer.save_model(folder.path() / "model");
  steps.weights = load_all(*hf_weights(config, folder.path() / "model"), config);
  return steps;
}

// Returns a value between the norms of the steps, so that some are clipped.
inline double some_clip(const TrainJob& job, int count) {
  std::vector<double> norms;
  for (const auto& [loss, norm, skipped] : steps_of(job, false, count).reports) norms.push_back(norm);
  std::sort(norms.begin(), norms.end());
  return norms[norms.size() / 2];
}

}  // namespace pipetrain::test
