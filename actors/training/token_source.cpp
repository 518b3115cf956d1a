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
                         const std::vector<Device*>& first, const std::vector<Device*>& last)
    : replica_(replica),
      dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      first_(make_streams(first, "tokens")),
      last_(make_streams(last, "targets")) {}

void TokenSource::fill(InputKind kind, const StepInfo& step, int microbatch, Slot& slot) {
  const auto tokens = std::make_shared<const std::vector<std::int32_t>>(tokens_of(kind, step, microbatch));
  auto& streams = kind == InputKind::activation ? first_ : last_;
  for (std::size_t lane = 0; lane < slot.lanes.size(); ++lane) {
    Stream& stream = *streams[lane];
    wait_until_free(stream, slot, lane);
    stream.copy(slot.lanes[lane].tensor.data, tokens->data(), tokens->size() * sizeof(std::int32_t));
    mark_ready(stream, slot, lane);
    // Until here the copy needs its source, and the stream the events.
    stream.host_callback([tokens, ready = slot.lanes[lane].ready, free = slot.lanes[lane].free] {});
  }
}

std::vector<std::int32_t> TokenSource::tokens_of(InputKind kind, const StepInfo& step, int microbatch) const {
  const auto length = dataset_->sequence_length();
  std::vector<std::int32_t> sample(static_cast<std::size_t>(length) + 1), tokens;
  for (const auto index : sampler_->microbatch(step.step - 1, replica_, microbatch)) {
    dataset_->read(index, sample);
    const auto begin = sample.begin() + (kind == InputKind::target ? 1 : 0);
    tokens.insert(tokens.end(), begin, begin + length);
  }
  return tokens;
}

}  // namespace pipetrain
