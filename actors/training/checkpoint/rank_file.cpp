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

NamedShape stored(const Parameter& parameter, const HeldState& held) {
  const TensorPiece piece = piece_of(parameter, held);
  const Shape shape = piece.elements ? Shape{piece.elements->last - piece.elements->first} : parameter.local;
  return {to_string(piece), shape};
}

}  // namespace

RankFileReport write_rank_file(const std::filesystem::path& folder, int rank, const ParameterLayout& layout,
                               const std::vector<HeldState>& pieces) {
  std::vector<NamedShape> tensors;
  for (const HeldState& held : pieces)
    tensors.push_back(stored(held.own ? *held.own : layout.parameters[held.parameter], held));
  RankFileReport report{rank_file_name(rank), {}};
  SafetensorsWriter writer(folder / report.name, tensors);
  for (const HeldState& held : pieces) writer.write(held.values);
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
