// Tokens and targets of one replica, from the dataset into the ends of the pipeline.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/input_source.hpp"
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
  // Reads the next step's first microbatch, so that the step does not begin with waiting for it.
  void look_ahead(const StepInfo& filled) override;

 private:
  // The inputs of this microbatch, sample after sample, and then the targets: read from the dataset unless they are here.
  const std::int32_t* read(std::int64_t step, int microbatch);
  std::size_t place_of(std::int64_t step, int microbatch) const;

  int replica_;
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t tokens_;  // of a microbatch
  int microbatches_;
  // Where the copies start from: by place, inputs then targets. In the next step the same place is free again; the first
  // microbatch has two, in turns, because it is read while the step before may still be copying its own.
  Buffer staging_;
  std::vector<std::int64_t> steps_;                    // by place: whose samples are there; 0 for none
  std::vector<std::unique_ptr<Stream>> first_, last_;  // one per lane
};

}  // namespace pipetrain
