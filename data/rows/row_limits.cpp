#include "data/rows/row_limits.hpp"

#include <fmt/format.h>

namespace pipetrain {

std::string RowLimits::wrong_length(std::int64_t tokens, std::string_view what) const {
  const std::int64_t ids = ids_of(tokens), extra = tokens - ids;
  if (ids < 1)
    return classifies() ? "this row is empty; a sample of a class needs at least 1 token"
                        : "a sample needs at least 2 tokens, one to read and one to predict";
  if (sequence_length > 0 && ids > sequence_length)
    return fmt::format(
        "this row has {} {}; with sequence length {} a row takes up to {}{}; shorten it, or take longer sequences", tokens,
        what, sequence_length, sequence_length + extra, extra > 0 ? " (seq-len + 1)" : "");
  if (max_positions > 0 && ids > max_positions)
    return fmt::format("a sequence of {} is longer than the {} positions of the model; give shorter sequences", ids,
                       max_positions);
  return "";
}

std::string RowLimits::wrong_class(const std::optional<std::int64_t>& label) const {
  if (!classifies())
    return label ? R"(rows with "label" are for classification; give the number of labels, or leave "label" out)" : "";
  if (!label)
    return fmt::format(
        "this row has no \"label\", the number of its class from 0 to {}; give one to classify, or leave out the "
        "number of labels to learn tokens",
        classes - 1);
  if (*label >= 0 && *label < classes) return "";
  return fmt::format("\"label\" is {}; the labels of {} classes go from 0 to {}", *label, classes, classes - 1);
}

}  // namespace pipetrain
