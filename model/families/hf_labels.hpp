// Reads the classes of sequence classification from a Hugging Face config.json.
#pragma once

#include "model/config/config.hpp"
#include "model/families/keys/hf_config_reader.hpp"

namespace pipetrain {

// Returns the names of the classes: those of id2label, else "LABEL_0", ..., num_labels of them or two by default. Throws
// Error(input) that names the key, also for the problem types regression and multi-label classification, which are refused.
std::vector<std::string> read_labels(const HfConfigReader& config);
// Adds id2label, label2id and num_labels.
void write_labels(const std::vector<std::string>& labels, Json& text);

}  // namespace pipetrain
