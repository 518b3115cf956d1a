// A checkpoint's file of one rank: everything that the rank stores for the run, under the names of tensor_piece.hpp.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/state/state_snapshot.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors_checksums.hpp"

namespace pipetrain {

struct RankFileReport {
  std::string name;  // of the file
  SafetensorsChecksums checksums;

  static void wire_fields(auto& wire, auto& report) {
    wire(report.name, report.checksums.bytes, report.checksums.header, report.checksums.tensors);
  }
};

// Returns pieces in host memory as the rank's file would have them. `memory` owns their values.
std::shared_ptr<const StoredPieces> stored_pieces(int rank, const ParameterLayout& layout, const std::vector<HeldState>& pieces,
                                                  std::shared_ptr<const void> memory);

// Writes FOLDER/rank-00003.safetensors, which is on disk when this returns. Throws WriteError.
RankFileReport write_rank_file(const std::filesystem::path& folder, int rank, const ParameterLayout& layout,
                               const std::vector<HeldState>& pieces);
RankFileReport write_rank_file(const std::filesystem::path& folder, int rank, const StoredPieces& pieces);

// Encodes reports as one text, in which ranks of other processes send them, and decodes them. Throws Error(peer_lost)
// for others.
std::string text_of(const std::vector<RankFileReport>& reports);
std::vector<RankFileReport> read_reports(const std::string& text);

}  // namespace pipetrain
