// The job of a Generator: a model whose weights have been opened, over pp stages of tp ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/ranks/device_settings.hpp"
#include "model/config/config.hpp"
#include "model/config/precision.hpp"

namespace pipetrain {

class WeightSource;
struct RunProcesses;

struct GenerationSettings {
  int pp = 1, tp = 1;
  DeviceSettings devices;
  Precision precision = {};
  std::chrono::milliseconds stall{600000};  // see PipelineOptions
};

// An adapter of a model, which prompts may use beside others.
struct GenerationAdapter {
  std::string name;                             // for errors; may be empty
  ModelConfig config;                           // the model with this adapter
  std::shared_ptr<const WeightSource> weights;  // of its trained tensors
};

struct GenerationJob : GenerationSettings {
  ModelConfig config;  // without adapters
  std::shared_ptr<const WeightSource> weights;
  std::vector<GenerationAdapter> adapters = {};
  int sequences = 1;                        // at the same time: each has a key-value cache on every rank
  std::int64_t positions = 1;               // the most of one sequence
  std::shared_ptr<RunProcesses> processes;  // see run_processes.hpp; null: this process runs all ranks
};

}  // namespace pipetrain
