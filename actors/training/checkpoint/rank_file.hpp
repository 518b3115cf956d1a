// The file of a checkpoint that one rank writes: all that it holds on behalf of the run, under the names of tensor_piece.hpp.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "actors/training/state/state_snapshot.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/safetensors_checksums.hpp"

namespace pipetrain {

struct RankFileReport {
  std::string name;  // of the file
  SafetensorsChecksums checksums;
};

// FOLDER/rank-00003.safetensors, on disk when this returns. Throws WriteError.
RankFileReport write_rank_file(const std::filesystem::path& folder, int rank, const ParameterLayout& layout,
                               const std::vector<HeldState>& pieces);

// Reports as one text, and back: ranks of other processes tell of their files so. Throws Error(peer_lost) for what is none.
std::string to_bytes(const std::vector<RankFileReport>& reports);
std::vector<RankFileReport> read_reports(const std::string& bytes);

}  // namespace pipetrain
