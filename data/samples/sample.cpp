#include "data/samples/sample.hpp"

namespace pipetrain {

void label_with_next_ids(Sample& sample) {
  sample.labels.assign(sample.ids.begin() + 1, sample.ids.end());
  sample.ids.pop_back();
}

}  // namespace pipetrain
