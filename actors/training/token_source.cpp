#include "actors/training/token_source.hpp"

#include "core/process_group.hpp"

namespace pipetrain {

using schedules::InputKind;

namespace {

std::vector<std::unique_ptr<Stream>> make_streams(const std::vector<Device*>& devices, const std::string& name) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (Device* device : devices) streams.push_back(device->make_stream(name));
  return streams;
}

}  // namespace

TokenSource::TokenSource(int replica, std::shared_ptr<const StepSamples> samples, const std::vector<Device*>& first,
                         const std::vector<Device*>& last, int slices)
    : replica_(replica),
      samples_(std::move(samples)),
      slices_(slices),
      most_tokens_(samples_->batch().microbatch * samples_->dataset().sequence_length()),
      steps_(static_cast<std::size_t>(2 * samples_->batch().microbatches), 0),
      first_(make_streams(first, "tokens")),
      last_(make_streams(last, "targets")) {
  Device& host = *(first.empty() ? last : first).front();
  staging_ = host.allocate_host(2 * steps_.size() * static_cast<std::size_t>(most_tokens_) * sizeof(std::int32_t),
                                "tokens on their way");
}

void TokenSource::fill(InputKind kind, const StepInfo& step, int microbatch, Slot& slot) {
  const bool inputs = kind == InputKind::activation;
  const Staged staged = read(step.step, microbatch / slices_);
  const std::int32_t* tokens = staged.data + (inputs ? 0 : staged.tokens);
  auto& streams = inputs ? first_ : last_;
  const std::int64_t samples = samples_->batch().microbatch, sequence = staged.tokens / samples;
  const RowSplit split(sequence, slices_);
  const std::int64_t begin = split.begin(microbatch % slices_), count = split.count(microbatch % slices_);
  for (std::size_t lane = 0; lane < slot.lanes.size(); ++lane) {
    Stream& stream = *streams[lane];
    Tensor& tensor = slot.lanes[lane].tensor;
    tensor.shape = {samples * count};
    wait_until_free(stream, slot, lane);
    if (slices_ == 1) {
      stream.copy(tensor.data, tokens, tensor.bytes());
    } else {
      for (std::int64_t sample = 0; sample < samples; ++sample)
        stream.copy(tensor.as<std::int32_t>() + sample * count, tokens + sample * sequence + begin,
                    static_cast<std::size_t>(count) * sizeof(std::int32_t));
    }
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

TokenSource::Staged TokenSource::read(std::int64_t step, int microbatch) {
  const std::size_t place = place_of(step, microbatch);
  auto* const data = static_cast<std::int32_t*>(staging_.data()) + 2 * static_cast<std::int64_t>(place) * most_tokens_;
  const std::int64_t tokens = tokens_of(step);
  if (steps_[place] == step) return {data, tokens};
  steps_[place] = 0;
  const auto begin = ReadTimes::Clock::now();
  const auto count = static_cast<std::size_t>(tokens);
  samples_->read({step, replica_, microbatch}, tokens / samples_->batch().microbatch, {data, count}, {data + tokens, count});
  steps_[place] = step;
  read_times_.add(step, begin, ReadTimes::Clock::now());
  return {data, tokens};
}

std::int64_t TokenSource::tokens_of(std::int64_t step) {
  if (measured_step_ != step) {
    measured_tokens_ = samples_->batch().microbatch * samples_->size(step).sequence;
    measured_step_ = step;
  }
  return measured_tokens_;
}

std::size_t TokenSource::place_of(std::int64_t step, int microbatch) const {
  return static_cast<std::size_t>(step % 2 * samples_->batch().microbatches + microbatch);
}

}  // namespace pipetrain
