#include "actors/training/token_source.hpp"

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
      staging_(first.front()->allocate_host(static_cast<std::size_t>(2 * batch.microbatches * tokens_) * sizeof(std::int32_t),
                                            "tokens on their way")),
      first_(make_streams(first, "tokens")),
      last_(make_streams(last, "targets")) {}

void TokenSource::fill(InputKind kind, const StepInfo& step, int microbatch, Slot& slot) {
  const bool inputs = kind == InputKind::activation;
  std::int32_t* tokens = static_cast<std::int32_t*>(staging_.data()) + (2 * microbatch + (inputs ? 0 : 1)) * tokens_;
  read(kind, step, microbatch, tokens);
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

void TokenSource::read(InputKind kind, const StepInfo& step, int microbatch, std::int32_t* out) const {
  const auto length = dataset_->sequence_length();
  std::vector<std::int32_t> sample(static_cast<std::size_t>(length) + 1);
  for (const auto index : sampler_->microbatch(step.step - 1, replica_, microbatch)) {
    dataset_->read(index, sample);
    const auto begin = sample.begin() + (kind == InputKind::target ? 1 : 0);
    out = std::copy_n(begin, length, out);
  }
}

}  // namespace pipetrain
