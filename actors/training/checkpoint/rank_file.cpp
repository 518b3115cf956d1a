#include "actors/training/checkpoint/rank_file.hpp"

#include <utility>

#include "core/wire_fields.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/tensor_piece.hpp"

namespace pipetrain {
namespace {

TensorPiece piece_of(const Parameter& parameter, const HeldState& held) {
  TensorPiece piece;
  piece.state = held.state;
  piece.tensor = parameter.name;
  piece.transposed = parameter.transposed;
  if (parameter.split_axis >= 0) {
    const int axis = parameter.transposed ? 1 - parameter.split_axis : parameter.split_axis;
    const std::int64_t length = parameter.local[axis];
    piece.axis = length == parameter.full[parameter.split_axis] ? -1 : parameter.split_axis;
    if (piece.axis >= 0) std::tie(piece.begin, piece.end) = std::pair(parameter.begin, parameter.begin + length);
  }
  if (held.elements.size() != static_cast<std::size_t>(parameter.local.elements())) {
    piece.elements = {static_cast<std::int64_t>(held.elements.begin), static_cast<std::int64_t>(held.elements.end)};
  }
  return piece;
}

NamedShape stored_as(const Parameter& parameter, const HeldState& held) {
  const TensorPiece piece = piece_of(parameter, held);
  const Shape shape = piece.elements ? Shape{piece.elements->last - piece.elements->first} : parameter.local;
  return {to_string(piece), shape};
}

}  // namespace

std::shared_ptr<const StoredPieces> stored_pieces(int rank, const ParameterLayout& layout, const std::vector<HeldState>& pieces,
                                                  std::shared_ptr<const void> memory) {
  auto stored = std::make_shared<StoredPieces>();
  stored->where = "the states of rank " + std::to_string(rank);
  for (const HeldState& held : pieces) {
    const Parameter& parameter = held.own ? *held.own : layout.parameters[held.parameter];
    FileTensor tensor = file_tensor(stored_as(parameter, held), SavedType::fp32);
    stored->pieces.push_back({std::move(tensor.name), std::move(tensor.shape), reinterpret_cast<const char*>(held.values)});
  }
  stored->memory = std::move(memory);
  stored->in_memory = true;
  return stored;
}

RankFileReport write_rank_file(const std::filesystem::path& folder, int rank, const ParameterLayout& layout,
                               const std::vector<HeldState>& pieces) {
  return write_rank_file(folder, rank, *stored_pieces(rank, layout, pieces, nullptr));
}

RankFileReport write_rank_file(const std::filesystem::path& folder, int rank, const StoredPieces& pieces) {
  std::vector<FileTensor> tensors;
  for (const StoredPieces::Piece& piece : pieces.pieces) {
    std::uint64_t bytes = sizeof(float);
    for (const std::int64_t length : piece.shape) bytes *= static_cast<std::uint64_t>(length);
    tensors.push_back({piece.name, "F32", piece.shape, bytes});
  }
  RankFileReport report{rank_file_name(rank), {}};
  SafetensorsWriter writer(folder / report.name, std::move(tensors), SavedType::fp32);
  for (const StoredPieces::Piece& piece : pieces.pieces) writer.write(reinterpret_cast<const float*>(piece.values));
  report.checksums = writer.finish();
  return report;
}

std::string text_of(const std::vector<RankFileReport>& reports) {
  const Bytes bytes = to_bytes(reports);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<RankFileReport> read_reports(const std::string& text) {
  auto reports = read_message<std::vector<RankFileReport>>(std::as_bytes(std::span(text)));
  for (const RankFileReport& report : reports)
    if (!is_rank_file(report.name)) WireReader::refuse("a file that no rank writes");
  return reports;
}

}  // namespace pipetrain
