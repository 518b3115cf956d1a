// Reads the classes of sequence classification from a Hugging Face config.json.
#pragma once

#include "model/config/config.hpp"
#include "model/families/hf_config_reader.hpp"

namespace pipetrain {

// The classes' names: of id2label, else "LABEL_0", ... as many as num_labels says, else two. Throws Error(input) naming the
// key, also for what is not built: regression and several classes at once.
std::vector<std::string> read_labels(const HfConfigReader& config);
// Adds id2label, label2id and num_labels.
void write_labels(const std::vector<std::string>& labels, Json& text);

}  // namespace pipetrain
