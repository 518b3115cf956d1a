#include "actors/training/token_source.hpp"
#include "data/sampler.hpp"

#include <algorithm>

namespace pipetrain {

using schedules::InputKind;

namespace {

std::vector<std::unique_ptr<Stream>> make_streams(const std::vector<Device*>& devices, const std::string& name) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (Device* device : devices) streams.push_back(device->make_stream(name));
  return streams;
}

}  // namespace

TokenSource::TokenSource(int replica, std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
                         const BatchShape& batch, const std::vector<Device*>& first, const std::vector<Device*>& last)
    : replica_(replica),
      dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      tokens_(batch.microbatch * dataset_->sequence_length()),
      microbatches_(static_cast<int>(batch.microbatches)),
      staging_((first.empty() ? last : first)
                   .front()
                   ->allocate_host(static_cast<std::size_t>(2 * (batch.microbatches + 1) * tokens_) * sizeof(std::int32_t),
                                   "tokens on their way")),
      steps_(static_cast<std::size_t>(batch.microbatches + 1), 0),
      first_(make_streams(first, "tokens")),
      last_(make_streams(last, "targets")) {}

void TokenSource::fill(InputKind kind, const StepInfo& step, int microbatch, Slot& slot) {
  const bool inputs = kind == InputKind::activation;
  const std::int32_t* tokens = read(step.step, microbatch) + (inputs ? 0 : tokens_);
  auto& streams = inputs ? first_ : last_;
  for (std::size_t lane = 0; lane < slot.lanes.size(); ++lane) {
    Stream& stream = *streams[lane];
    wait_until_free(stream, slot, lane);
    stream.copy(slot.lanes[lane].tensor.data, tokens, static_cast<std::size_t>(tokens_) * sizeof(std::int32_t));
    mark_ready(stream, slot, lane);
    // Until here the stream needs the events.
    stream.host_callback([ready = slot.lanes[lane].ready, free = slot.lanes[lane].free] {});
  }
}

void TokenSource::look_ahead(const StepInfo& filled) {
  try {
    read(filled.step + 1, 0);
  } catch (...) {  // that step may never come; if it does, it meets the failure itself
  }
}

const std::int32_t* TokenSource::read(std::int64_t step, int microbatch) {
  const std::size_t place = place_of(step, microbatch);
  std::int32_t* const tokens = static_cast<std::int32_t*>(staging_.data()) + 2 * static_cast<std::int64_t>(place) * tokens_;
  if (steps_[place] == step) return tokens;
  steps_[place] = 0;
  const auto length = dataset_->sequence_length();
  std::vector<std::int32_t> sample(static_cast<std::size_t>(length) + 1);
  std::int32_t *inputs = tokens, *targets = tokens + tokens_;
  for (const auto index : sampler_->microbatch(step - 1, replica_, microbatch)) {
    dataset_->read(index, sample);
    inputs = std::copy_n(sample.begin(), length, inputs);
    targets = std::copy_n(sample.begin() + 1, length, targets);
  }
  steps_[place] = step;
  return tokens;
}

std::size_t TokenSource::place_of(std::int64_t step, int microbatch) const {
  return static_cast<std::size_t>(microbatch == 0 && step % 2 == 0 ? microbatches_ : microbatch);
}

}  // namespace pipetrain
