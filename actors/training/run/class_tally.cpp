#include "actors/training/run/class_tally.hpp"

namespace pipetrain {

void ClassTally::add(std::int64_t truth, std::int64_t said) {
  ++counts_.at(static_cast<std::size_t>(truth)).true_;
  ++counts_.at(static_cast<std::size_t>(said)).said;
  if (truth == said) ++counts_[static_cast<std::size_t>(truth)].right;
}

double ClassTally::accuracy() const {
  std::int64_t right = 0, all = 0;
  for (const Counts& counts : counts_) {
    right += counts.right;
    all += counts.true_;
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

// said + true_ = 2 TP + FP + FN.
double ClassTally::Counts::f1() const {
  return said + true_ == 0 ? 0 : 2 * static_cast<double>(right) / static_cast<double>(said + true_);
}

double ClassTally::f1() const {
  if (counts_.size() == 2) return counts_[1].f1();
  double sum = 0;
  int occurring = 0;
  for (const Counts& counts : counts_) {
    sum += counts.f1();
    occurring += counts.said + counts.true_ > 0 ? 1 : 0;
  }
  return occurring > 0 ? sum / occurring : 0;
}

}  // namespace pipetrain
