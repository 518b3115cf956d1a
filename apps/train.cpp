#include "apps/train.hpp"

#include "core/error.hpp"

namespace pipetrain {

int run_train(const TrainOptions&) { throw Error(ErrorKind::unavailable, "train: this build has no trainer yet"); }

}  // namespace pipetrain
