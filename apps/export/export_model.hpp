// `pipetrain export` writes a Hugging Face folder from a checkpoint, or from a model and its adapters.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

struct ExportOptions {
  std::filesystem::path load, out;
  // The folder of a multimodal model's other parts, or the model to merge adapters into; empty: the one that the checkpoint
  // records.
  std::filesystem::path model;
  bool merge = false;  // adapters into the model
  ModelFolderOptions folder;
  std::vector<std::string> notes;
};

// Throws Error(input).
ExportOptions parse_export_options(const std::vector<std::string>& arguments, const Environment& environment);
std::string export_help();
// Verifies the checkpoint, of any format, and writes the folder, whole or not at all. Returns the exit status. Throws Error.
int run_export(const ExportOptions& options);

}  // namespace pipetrain
