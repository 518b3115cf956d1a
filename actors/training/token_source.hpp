// Tokens and targets of one replica, from the dataset into the ends of the pipeline.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/feeder.hpp"
#include "core/device.hpp"
#include "data/dataset.hpp"
#include "data/sampler.hpp"

namespace pipetrain {

class TokenSource : public InputSource {
 public:
  // The devices of the ranks of the first virtual stage, which get tokens, and of the last, which get targets.
  TokenSource(int replica, std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
              const BatchShape& batch, const std::vector<Device*>& first, const std::vector<Device*>& last);

  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override;

 private:
  // The inputs or targets of this microbatch, sample after sample.
  void read(schedules::InputKind kind, const StepInfo& step, int microbatch, std::int32_t* out) const;

  int replica_;
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t tokens_;  // of a microbatch
  // Where the copies start from: by microbatch, inputs then targets. In the next step the same place is free again.
  Buffer staging_;
  std::vector<std::unique_ptr<Stream>> first_, last_;  // one per lane
};

}  // namespace pipetrain
