// A set of the stages that may be able to act. Internal to schedules/.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace pipetrain::schedules {

// Returns the last stage first. With any order allowed, this one visits far fewer stages: the last stages, which hold few
// microbatches, exchange them until they run dry, and earlier stages, which hold many, then run many actions per visit.
class StageSet {
 public:
  explicit StageSet(std::size_t stages) : words_((stages + 63) / 64) {}
  void insert(int stage) {
    const auto word = static_cast<std::size_t>(stage) / 64;
    words_[word] |= std::uint64_t{1} << (stage % 64);
    if (word > top_) top_ = word;
  }
  // -1 when empty.
  int take_last() {
    while (words_[top_] == 0) {
      if (top_ == 0) return -1;
      --top_;
    }
    const int bit = 63 - std::countl_zero(words_[top_]);
    words_[top_] &= ~(std::uint64_t{1} << bit);
    return static_cast<int>(top_ * 64) + bit;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t top_ = 0;  // no stage is above this word
};

}  // namespace pipetrain::schedules
