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
              const std::vector<Device*>& first, const std::vector<Device*>& last);

  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override;

 private:
  // The inputs or targets of this microbatch, sample after sample.
  std::vector<std::int32_t> tokens_of(schedules::InputKind kind, const StepInfo& step, int microbatch) const;

  int replica_;
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Sampler> sampler_;
  std::vector<std::unique_ptr<Stream>> first_, last_;  // one per lane
};

}  // namespace pipetrain
