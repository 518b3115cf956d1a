#include "comm/compressed/compressed_sum.hpp"

#include <algorithm>
#include <vector>

namespace pipetrain {
namespace {

constexpr std::int64_t piece_blocks = 4096;  // that a member owns of one piece; about a megabyte in int8

std::int64_t most_rows(const RowSplit& rows) {
  std::int64_t most = 0;
  for (int rank = 0; rank < rows.ranks(); ++rank) most = std::max(most, rows.count(rank));
  return most;
}

// Returns the blocks of a piece by owner: it has, of each, the blocks from `first` on.
RowSplit piece_of(const RowSplit& owners, std::int64_t first) {
  std::vector<std::int64_t> cuts = {0};
  for (int rank = 0; rank < owners.ranks(); ++rank)
    cuts.push_back(cuts.back() + std::clamp<std::int64_t>(owners.count(rank) - first, 0, piece_blocks));
  return RowSplit(std::move(cuts));
}

// Returns `count` of the owner's blocks, from its block `first` on.
BlockRun run_of(const CompressedPart& part, BlockCode code, int owner, std::int64_t first, std::int64_t count) {
  const std::int64_t size = block_format(code).elements, begin = (part.owners.begin(owner) + first) * size;
  BlockRun run{.values = part.values + begin,
               .elements = std::clamp<std::int64_t>(part.elements - begin, 0, count * size),
               .error = part.error + begin,
               .averages = part.averages == nullptr ? nullptr : part.averages + begin,
               .fresh = part.fresh,
               .kept = part.kept};
  if (part.scales.squares != nullptr) run.scales = part.scales.from(begin);
  return run;
}

}  // namespace

// There are a buffer of a piece to send and one to receive; the sums use the first again.
std::size_t CompressedSum::bytes(BlockCode code, int members) {
  return 2 * static_cast<std::size_t>(members * piece_blocks * block_format(code).words) * sizeof(std::uint32_t);
}

CompressedSum::CompressedSum(Device& device, std::shared_ptr<Group> group, BlockCode code, const std::string& name)
    : group_(std::move(group)),
      code_(code),
      coder_(make_block_coder(device, code)),
      memory_(device.allocate(bytes(code, group_->size()), name + ": compressed gradients")) {}

void CompressedSum::sum(Stream& stream, const CompressedPart& part) {
  const BlockFormat format = block_format(code_);
  auto* const sent = static_cast<std::uint32_t*>(memory_.data());
  auto* const received = sent + group_->size() * piece_blocks * format.words;
  const int self = group_->rank();
  const auto blocks = [&](std::uint32_t* at, std::int64_t rows) { return Tensor{at, {rows, format.words}}; };
  for (std::int64_t first = 0; first < most_rows(part.owners); first += piece_blocks) {
    const RowSplit rows = piece_of(part.owners, first);
    const auto run = [&](int owner) { return run_of(part, code_, owner, first, rows.count(owner)); };
    const auto words = [&](int owner) { return sent + rows.begin(owner) * format.words; };
    for (int owner = 0; owner < rows.ranks(); ++owner) coder_->encode(stream, run(owner), words(owner));
    const std::int64_t own = rows.count(self);
    group_->exchange(stream, blocks(sent, rows.total()), blocks(received, group_->size() * own), rows);
    BlockRun sums = run(self);
    if (part.sum_error == nullptr) {
      coder_->decode(stream, sums, received, group_->size());
      continue;
    }
    sums = {.values = sums.values, .elements = sums.elements, .error = part.sum_error + first * format.elements};
    coder_->decode(stream, sums, received, group_->size());
    coder_->encode(stream, sums, words(self));
    group_->all_gather(stream, blocks(words(self), own), blocks(sent, rows.total()), rows);
    for (int owner = 0; owner < rows.ranks(); ++owner) coder_->decode(stream, run(owner), words(owner), 1);
  }
}

}  // namespace pipetrain
