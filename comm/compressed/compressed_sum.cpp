#include "comm/compressed/compressed_sum.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "comm/compressed/block_codes.hpp"
#include "core/cpu_stream.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t piece_blocks = 4096;  // that a member owns of one piece; about a megabyte in int8

std::int64_t most_rows(const RowSplit& rows) {
  std::int64_t most = 0;
  for (int rank = 0; rank < rows.ranks(); ++rank) most = std::max(most, rows.count(rank));
  return most;
}

// Calls work(row) for the rows [0, rows), many to a tile.
template <class Work>
void for_each_row(CpuStream& stream, std::int64_t rows, const Work& work) {
  constexpr std::int64_t tile_rows = 64;
  stream.parallel_for((rows + tile_rows - 1) / tile_rows, [&](std::int64_t tile) {
    for (std::int64_t row = tile * tile_rows; row < std::min(rows, (tile + 1) * tile_rows); ++row) work(row);
  });
}

}  // namespace

// A part of the numbers whose blocks fit into the buffers. Values are copied into the stream's work.
class CompressedSum::Piece {
 public:
  Piece(const CompressedPart& part, BlockCode code, int rank, std::int64_t first)
      : part_(part), code_(code), format_(block_format(code)), rank_(rank), first_(first), rows_(rows_of(part.owners, first)) {}

  const RowSplit& rows() const { return rows_; }

  // Encodes this member's numbers for their owners.
  void encode(CpuStream& stream, std::uint32_t* words) const {
    for_each_row(stream, rows_.total(), [&](std::int64_t row) {
      const auto values = block(row);
      if (part_.averages != nullptr)
        average_block(values, part_.averages + (values.data() - part_.values), part_.fresh, part_.kept);
      if (has_scales()) divide_block(values, part_.scales.from(values.data() - part_.values));
      encode_block(code_, values, part_.error + (values.data() - part_.values), words + row * format_.words);
    });
  }
  // received [members, own rows]: adds them in rank order to the own blocks.
  void add(CpuStream& stream, const std::uint32_t* received) const {
    const std::int64_t own = rows_.count(rank_);
    const bool is_last = part_.sum_error == nullptr;
    for_each_row(stream, own, [&](std::int64_t row) {
      const auto sums = block(rows_.begin(rank_) + row);
      for (int member = 0; member < rows_.ranks(); ++member)
        decode_block(code_, received + (member * own + row) * format_.words, sums,
                     member == 0 ? Decoding::write : Decoding::add);
      if (is_last && has_scales()) multiply_block(sums, part_.scales.from(sums.data() - part_.values));
    });
  }
  // Encodes the sums of the own blocks.
  void encode_sums(CpuStream& stream, std::uint32_t* words) const {
    const float* const own = part_.values + part_.owners.begin(rank_) * format_.elements;
    for_each_row(stream, rows_.count(rank_), [&](std::int64_t row) {
      const auto sums = block(rows_.begin(rank_) + row);
      encode_block(code_, sums, part_.sum_error + (sums.data() - own), words + row * format_.words);
    });
  }
  void decode(CpuStream& stream, const std::uint32_t* words) const {
    for_each_row(stream, rows_.total(), [&](std::int64_t row) {
      const auto sums = block(row);
      decode_block(code_, words + row * format_.words, sums, Decoding::write);
      if (has_scales()) multiply_block(sums, part_.scales.from(sums.data() - part_.values));
    });
  }

 private:
  bool has_scales() const { return part_.scales.squares != nullptr; }
  static RowSplit rows_of(const RowSplit& owners, std::int64_t first) {
    std::vector<std::int64_t> cuts = {0};
    for (int rank = 0; rank < owners.ranks(); ++rank)
      cuts.push_back(cuts.back() + std::clamp<std::int64_t>(owners.count(rank) - first, 0, piece_blocks));
    return RowSplit(std::move(cuts));
  }
  // Returns the numbers of a row of the piece: the piece has, of each owner, the blocks from `first` on.
  std::span<float> block(std::int64_t row) const {
    int owner = 0;
    while (row >= rows_.end(owner)) ++owner;
    const std::int64_t begin = (part_.owners.begin(owner) + first_ + row - rows_.begin(owner)) * format_.elements;
    const std::int64_t end = std::min(begin + format_.elements, part_.elements);
    return {part_.values + begin, static_cast<std::size_t>(end - begin)};
  }

  CompressedPart part_;
  BlockCode code_;
  BlockFormat format_;
  int rank_;
  std::int64_t first_;
  RowSplit rows_;
};

// There are a buffer of a piece to send and one to receive; the sums use the first again.
std::size_t CompressedSum::bytes(BlockCode code, int members) {
  return 2 * static_cast<std::size_t>(members * piece_blocks * block_format(code).words) * sizeof(std::uint32_t);
}

CompressedSum::CompressedSum(Device& device, std::shared_ptr<Group> group, BlockCode code, const std::string& name)
    : group_(std::move(group)),
      code_(code),
      memory_(device.allocate(bytes(code, group_->size()), name + ": compressed gradients")) {}

void CompressedSum::sum(Stream& stream, const CompressedPart& part) {
  CpuStream& cpu = cpu_stream(stream);
  const std::int64_t words = block_format(code_).words;
  auto* const sent = static_cast<std::uint32_t*>(memory_.data());
  auto* const received = sent + group_->size() * piece_blocks * words;
  const auto blocks = [&](std::uint32_t* at, std::int64_t rows) { return Tensor{at, {rows, words}}; };
  for (std::int64_t first = 0; first < most_rows(part.owners); first += piece_blocks) {
    const Piece piece(part, code_, group_->rank(), first);
    const RowSplit& rows = piece.rows();
    const std::int64_t own = rows.count(group_->rank());
    std::uint32_t* const own_sums = sent + rows.begin(group_->rank()) * words;
    cpu.enqueue([=, &cpu] { piece.encode(cpu, sent); });
    group_->exchange(stream, blocks(sent, rows.total()), blocks(received, group_->size() * own), rows);
    cpu.enqueue([=, &cpu] { piece.add(cpu, received); });
    if (part.sum_error == nullptr) continue;
    cpu.enqueue([=, &cpu] { piece.encode_sums(cpu, own_sums); });
    group_->all_gather(stream, blocks(own_sums, own), blocks(sent, rows.total()), rows);
    cpu.enqueue([=, &cpu] { piece.decode(cpu, sent); });
  }
}

}  // namespace pipetrain
