// One sample of training data.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

// The label of a position that is not part of the loss; any negative label has that meaning.
inline constexpr std::int32_t not_counted = -100;

struct Sample {
  std::vector<std::int32_t> ids;     // the model's input
  std::vector<std::int32_t> labels;  // one for each id: the expected output at that position, the next id or a class
  // The beginnings of documents in ids, ascending, the first at 0. Set only if the data isolates documents.
  std::vector<std::int32_t> documents;
};

// The facts about a sample that are known before it is read.
struct SampleSize {
  std::int64_t ids = 0;
  std::int64_t counted = 0;  // labels that are part of the loss
  // With data of preferences: the tokens of the prompt, and whether people found the completion desirable.
  std::int64_t prompt = 0;
  bool desirable = true;
  bool operator==(const SampleSize&) const = default;
};

// `ids` must hold a stretch of text with one id more than the sample reads: the labels are the next ids, and the last
// id becomes only a label.
void label_with_next_ids(Sample& sample);

}  // namespace pipetrain
