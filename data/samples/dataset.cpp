#include "data/samples/dataset.hpp"

#include <utility>

namespace pipetrain {

std::vector<std::int32_t> Dataset::read(std::int64_t index) const {
  Sample sample;
  read(index, sample);
  sample.ids.push_back(sample.labels.back());
  return std::move(sample.ids);
}

std::vector<std::int32_t> Dataset::documents(std::int64_t index) const {
  Sample sample;
  read(index, sample);
  return std::move(sample.documents);
}

}  // namespace pipetrain
