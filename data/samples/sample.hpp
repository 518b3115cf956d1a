// One sample as a model is trained on it.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

// The label of a place that is no part of the loss; every negative one means the same.
inline constexpr std::int32_t not_counted = -100;

struct Sample {
  std::vector<std::int32_t> ids;     // what the model reads
  std::vector<std::int32_t> labels;  // as many: what it is to say having read so far, the id that follows or a class
  // Where documents begin in ids, ascending, the first at 0. Only of data that isolates documents; empty elsewhere.
  std::vector<std::int32_t> documents;
};

// What is known of a sample before it is read.
struct SampleSize {
  std::int64_t ids = 0;
  std::int64_t counted = 0;  // labels that are part of the loss
  bool operator==(const SampleSize&) const = default;
};

// `ids` hold a stretch of text with one id more than the sample reads: the labels are the ids that follow, and the last one is
// only a label.
void label_with_next_ids(Sample& sample);

}  // namespace pipetrain
