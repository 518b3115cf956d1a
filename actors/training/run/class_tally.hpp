// Measures how well a model classifies samples.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

// Not thread-safe.
class ClassTally {
 public:
  explicit ClassTally(std::int64_t classes) : counts_(static_cast<std::size_t>(classes)) {}

  void add(std::int64_t truth, std::int64_t said);

  // Returns the share of samples that were classified correctly. At least one must have been added.
  double accuracy() const;
  // F1 = 2 TP / (2 TP + FP + FN). With two classes, that of class 1, as GLUE defines it for MRPC; with more, the mean
  // over all classes that occur as truth or as answer (macro F1). 0 where class 1 of two never occurs.
  double f1() const;

 private:
  struct Counts {
    std::int64_t right = 0, said = 0, true_ = 0;
    double f1() const;
  };
  std::vector<Counts> counts_;
};

}  // namespace pipetrain
