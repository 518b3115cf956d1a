// Copies tokens and targets from the dataset into the ends of a pipeline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/input/input_wait.hpp"
#include "actors/training/input/step_samples.hpp"
#include "core/device.hpp"
#include "model/context/sequence_part.hpp"

namespace pipetrain {

class TokenSource : public InputSource {
 public:
  // A rank, the part of each sequence that it gets, and the replica whose samples they are.
  struct Receiver {
    Device* device = nullptr;
    ContextPart part = {};
    int replica = 0;
  };
  // first: the ranks of the first virtual stage, which get tokens; last: those of the last, which get targets.
  // Microbatches are counted in slices of their sequences, see schedules::Plan; where ranks share sequences (cp > 1),
  // all slices have the same length. further: the last ranks get three rows: targets, next tokens and further targets.
  TokenSource(std::shared_ptr<const StepSamples> samples, const std::vector<Receiver>& first, const std::vector<Receiver>& last,
              int slices = 1, bool further = false);

  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override;
  // Reads the next step's first microbatch, so that the step does not begin with waiting for it.
  void look_ahead(const StepInfo& filled) override;

  ReadTimes& read_times() { return read_times_; }

 private:
  // The inputs of a microbatch, then its targets, and with a further prediction the next tokens and their targets: `tokens` of
  // each.
  struct Staged {
    const std::int32_t* data = nullptr;
    std::int64_t tokens = 0;
  };
  struct LaneStream {
    std::unique_ptr<Stream> stream;
    ContextPart part;
    std::size_t source;  // the index of its replica in replicas_
  };

  // Reads a microbatch from the dataset unless it is here. source: the index of the replica in replicas_.
  Staged read(std::int64_t step, std::size_t source, int microbatch);
  std::size_t place_of(std::int64_t step, std::size_t source, int microbatch) const;
  std::int64_t tokens_of(std::int64_t step);  // of a microbatch
  std::vector<LaneStream> make_streams(const std::vector<Receiver>& receivers, const std::string& name) const;

  std::shared_ptr<const StepSamples> samples_;
  std::vector<int> replicas_;  // of the receivers, each once
  int slices_;                 // of each microbatch
  std::int64_t rows_;          // of numbers for each token: see Staged
  std::int64_t most_tokens_;   // of a microbatch
  // The source of the copies, by place: see Staged. A microbatch of a replica has two places, for odd and even steps,
  // because it may be read while the step before still copies its own.
  Buffer staging_;
  std::vector<std::int64_t> steps_;                       // by place: the step whose samples are there; 0 for none
  std::int64_t measured_step_ = 0, measured_tokens_ = 0;  // the last result of tokens_of()
  std::vector<LaneStream> first_, last_;                  // one per lane
  ReadTimes read_times_;
};

}  // namespace pipetrain
