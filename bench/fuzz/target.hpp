// The targets of the fuzzer: every parser of untrusted files and of messages from other processes, behind one interface.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/fuzz/mutate.hpp"

namespace pipetrain::fuzz {

struct Target {
  std::string name;
  std::vector<std::string> seeds;       // valid inputs
  std::vector<std::string> dictionary;  // words and values of the format
  // Parses all of the input. Returns, or throws Error(input) or PlanFileError with one line.
  std::function<void(std::string_view input)> run;
  // Turns a mutated seed into an input: adds parts that every mutation would break, such as a length in front. Empty:
  // no change.
  std::function<std::string(Random& random, std::string mutated)> finish;
};

// All targets. Parsers that read files by name get them from `folder`, which should be in memory and must outlive the targets.
std::vector<Target> all_targets(const std::filesystem::path& folder);

// Replaces a file's content in place, which is faster than a new file.
void put_file(const std::filesystem::path& path, std::string_view content);

// The targets by the room of their parsers.
std::vector<Target> model_targets(const std::filesystem::path& folder);       // safetensors, index, llmc-model, config
std::vector<Target> data_targets(const std::filesystem::path& folder);        // jsonl, row, packed
std::vector<Target> parquet_targets(const std::filesystem::path& folder);     // parquet; none without Apache Arrow
std::vector<Target> template_targets();                                       // template
std::vector<Target> tokenizer_targets();                                      // tokenizer, merges, charsmap
std::vector<Target> token_file_targets(const std::filesystem::path& folder);  // tokens, megatron, llmc, datatrove
std::vector<Target> plan_targets();                                           // plan, csv
// profile, measured, metrics, state, record, toml, json, args
std::vector<Target> record_targets(const std::filesystem::path& folder);
std::vector<Target> checkpoint_targets(const std::filesystem::path& folder);  // rank
std::vector<Target> control_targets();                                        // control
std::vector<Target> engine_targets();                                         // engine
std::vector<Target> ucx_targets();  // ucx-data, ucx-credit, ucx-group, ucx-edges, ucx-mirrors; none without UCX

}  // namespace pipetrain::fuzz
