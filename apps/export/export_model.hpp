// `pipetrain export` writes a Hugging Face folder from a checkpoint.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

struct ExportOptions {
  std::filesystem::path load, out;
  std::filesystem::path model;  // the folder of a multimodal model's other parts; empty: the one that the checkpoint records
  ModelFolderOptions folder;
  std::vector<std::string> notes;
};

// Throws Error(input).
ExportOptions parse_export_options(const std::vector<std::string>& arguments, const Environment& environment);
std::string export_help();
// Verifies the checkpoint, of any format, and writes the folder, whole or not at all. Returns the exit status. Throws Error.
int run_export(const ExportOptions& options);

}  // namespace pipetrain
