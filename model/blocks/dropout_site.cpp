#include "model/blocks/dropout_site.hpp"

#include <algorithm>
#include <cmath>

#include "core/checksum.hpp"

namespace pipetrain {

std::string dropout_name(std::int64_t layer, const char* part) { return "layers." + std::to_string(layer) + "." + part; }

DropoutSite::DropoutSite(const std::string& name, double rate)
    : name_(checksum(name.data(), name.size())),
      dropped_(static_cast<std::uint32_t>(
          std::min<long>(std::lround(rate * Dropout::draws), static_cast<long>(Dropout::draws) - 1))) {}

// The key itself is drawn: from the seed, at a counter made of step and name.
Dropout DropoutSite::draw(const BlockContext& context, std::int64_t first_plane) const {
  if (!active(context)) return {};
  const auto step = static_cast<std::uint64_t>(context.draws->step);
  PhiloxWords<1> words{{{low_word(step)}, {high_word(step)}, {low_word(name_)}, {high_word(name_)}}};
  philox({low_word(context.draws->seed), high_word(context.draws->seed)}, words);
  return {.key = {words[0][0], words[1][0]},
          .dropped = dropped_,
          .first_sample = static_cast<std::uint32_t>(context.draws->first_sample),
          .first_plane = static_cast<std::uint32_t>(first_plane)};
}

void DropoutSite::drop(const BlockContext& context, const Tensor& x, const Tensor& out,
                       const std::optional<Tensor>& residual) const {
  drop_part(context, {.x = x, .out = out, .residual = residual, .first_row = context.tp.shard_begin(context.tokens())});
}

void DropoutSite::drop_part(const BlockContext& context, const Part& dropped) const {
  const std::int64_t sequence = context.shape.sequence, first = dropped.first_row, first_column = dropped.first_column;
  const Tensor &x = dropped.x, &out = dropped.out;
  const std::optional<Tensor>& residual = dropped.residual;
  const Dropout dropout = draw(context);
  const SequencePart part = context.part();
  if (part.is_whole())
    return context.ops.dropout({.x = x,
                                .residual = residual,
                                .out = out,
                                .first_token = first,
                                .sequence = sequence,
                                .dropout = dropout,
                                .first_column = first_column});
  // The loop takes one contiguous range of the sequence's tokens at a time; the last may end with the sequence.
  for (std::int64_t begin = 0, end = 0; begin < x.rows(); begin = end) {
    const std::int64_t sample = (first + begin) / sequence, token = (first + begin) % sequence;
    end = std::min(begin + part.run(token, sequence), x.rows());
    const std::int64_t position = part.position(token, sequence);
    Dropout of_sample = dropout;
    of_sample.first_sample += static_cast<std::uint32_t>(sample);
    context.ops.dropout({.x = x.row_range(begin, end),
                         .residual = residual ? std::optional(residual->row_range(begin, end)) : std::nullopt,
                         .out = out.row_range(begin, end),
                         .first_token = position,
                         .sequence = position + end - begin,
                         .dropout = of_sample,
                         .first_column = first_column});
  }
}

}  // namespace pipetrain
