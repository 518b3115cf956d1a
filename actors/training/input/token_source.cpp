#include "actors/training/input/token_source.hpp"

#include <algorithm>

namespace pipetrain {

using schedules::InputKind;

namespace {

// A range of positions of a sequence.
struct Stretch {
  std::int64_t begin, count;
};

std::int64_t length_of(const std::vector<Stretch>& stretches) {
  std::int64_t length = 0;
  for (const Stretch& stretch : stretches) length += stretch.count;
  return length;
}

struct Samples {
  const std::int32_t* tokens;  // [count, sequence]
  std::int64_t sequence, count;
};

std::vector<Stretch> stretches_of(const SequencePart& part, std::int64_t tokens) {
  std::vector<Stretch> stretches;
  for (std::int64_t token = 0; token < tokens; token += part.run(token, tokens))
    stretches.push_back({part.position(token, tokens), part.run(token, tokens)});
  return stretches;
}

std::vector<int> replicas_of(const std::vector<TokenSource::Receiver>& first, const std::vector<TokenSource::Receiver>& last) {
  std::vector<int> replicas;
  for (const auto* receivers : {&first, &last})
    for (const TokenSource::Receiver& receiver : *receivers) replicas.push_back(receiver.replica);
  std::sort(replicas.begin(), replicas.end());
  replicas.erase(std::unique(replicas.begin(), replicas.end()), replicas.end());
  return replicas;
}

// Fills the rows of a further prediction, which follow those of inputs and targets. The token after a sequence's last one is
// the last one's target; if that target does not count, the token is 0, whose prediction does not count either.
void fill_further(std::int32_t* rows, std::int64_t tokens, std::int64_t sequence) {
  const std::int32_t *const ids = rows, *const targets = rows + tokens;
  std::int32_t *const next_ids = rows + 2 * tokens, *const next_targets = rows + 3 * tokens;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const bool is_last = (token + 1) % sequence == 0, counts = targets[token] != not_counted;
    next_ids[token] = counts ? targets[token] : is_last ? 0 : ids[token + 1];
    next_targets[token] = is_last ? not_counted : targets[token + 1];
  }
}

// target: the ranges of each sample, sample after sample.
void copy_stretches(Stream& stream, const Samples& samples, const std::vector<Stretch>& stretches, const Tensor& target) {
  if (length_of(stretches) == samples.sequence) return stream.copy(target.data, samples.tokens, target.bytes());
  auto* to = target.as<std::int32_t>();
  for (std::int64_t sample = 0; sample < samples.count; ++sample) {
    for (const Stretch& stretch : stretches) {
      const std::int32_t* const from = samples.tokens + sample * samples.sequence + stretch.begin;
      stream.copy(to, from, static_cast<std::size_t>(stretch.count) * sizeof(std::int32_t));
      to += stretch.count;
    }
  }
}

}  // namespace

std::vector<TokenSource::LaneStream> TokenSource::make_streams(const std::vector<Receiver>& receivers,
                                                               const std::string& name) const {
  std::vector<LaneStream> streams;
  for (const Receiver& receiver : receivers) {
    const auto source = std::lower_bound(replicas_.begin(), replicas_.end(), receiver.replica) - replicas_.begin();
    streams.push_back({receiver.device->make_stream(name), receiver.part, static_cast<std::size_t>(source)});
  }
  return streams;
}

TokenSource::TokenSource(std::shared_ptr<const StepSamples> samples, const std::vector<Receiver>& first,
                         const std::vector<Receiver>& last, int slices, bool further)
    : samples_(std::move(samples)),
      replicas_(replicas_of(first, last)),
      slices_(slices),
      rows_(further ? 4 : 2),
      most_tokens_(samples_->batch().microbatch * samples_->dataset().sequence_length()),
      steps_(static_cast<std::size_t>(2 * samples_->batch().microbatches) * replicas_.size(), 0),
      first_(make_streams(first, "tokens")),
      last_(make_streams(last, "targets")) {
  Device& host = *(first.empty() ? last : first).front().device;
  staging_ = host.allocate_host(steps_.size() * static_cast<std::size_t>(rows_ * most_tokens_) * sizeof(std::int32_t),
                                "tokens in flight");
}

void TokenSource::fill(InputKind kind, const StepInfo& step, int microbatch, Slot& slot) {
  const bool inputs = kind == InputKind::activation;
  auto& streams = inputs ? first_ : last_;
  const std::int64_t samples = samples_->batch().microbatch, sequence = tokens_of(step.step) / samples;
  for (std::size_t lane = 0; lane < slot.lanes.size(); ++lane) {
    const Staged staged = read(step.step, streams[lane].source, microbatch / slices_);
    Stream& stream = *streams[lane].stream;
    Tensor& tensor = slot.lanes[lane].tensor;
    const ContextPart& part = streams[lane].part;
    const SequenceSlices passing{part, sequence / part.size, slices_};
    const int slice = microbatch % slices_;
    const std::vector<Stretch> stretches = stretches_of(passing.part(slice), passing.count(slice));
    const std::int64_t rows = inputs ? 1 : rows_ - 1, own_tokens = samples * length_of(stretches);
    tensor.shape = {rows * own_tokens};
    wait_until_free(stream, slot, lane);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int32_t* const tokens = staged.data + (inputs ? 0 : row + 1) * staged.tokens;
      const Tensor target = tensor.row_range(row * own_tokens, (row + 1) * own_tokens);
      copy_stretches(stream, {tokens, sequence, samples}, stretches, target);
    }
    mark_ready(stream, slot, lane);
    // The callback keeps the events until the stream has used them.
    stream.host_callback([ready = slot.lanes[lane].ready, free = slot.lanes[lane].free] {});
  }
}

void TokenSource::look_ahead(const StepInfo& filled) {
  try {
    for (std::size_t source = 0; source < replicas_.size(); ++source) read(filled.step + 1, source, 0);
  } catch (...) {  // that step may never come; if it does, it fails by itself
  }
}

TokenSource::Staged TokenSource::read(std::int64_t step, std::size_t source, int microbatch) {
  const std::size_t place = place_of(step, source, microbatch);
  auto* const data = static_cast<std::int32_t*>(staging_.data()) + rows_ * static_cast<std::int64_t>(place) * most_tokens_;
  const std::int64_t tokens = tokens_of(step);
  if (steps_[place] == step) return {data, tokens};
  steps_[place] = 0;
  const auto begin = ReadTimes::Clock::now();
  const auto count = static_cast<std::size_t>(tokens);
  const std::int64_t sequence = tokens / samples_->batch().microbatch;
  samples_->read({step, replicas_[source], microbatch}, sequence, {data, count}, {data + tokens, count});
  if (rows_ > 2) fill_further(data, tokens, sequence);
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

std::size_t TokenSource::place_of(std::int64_t step, std::size_t source, int microbatch) const {
  const auto microbatches = static_cast<std::size_t>(samples_->batch().microbatches);
  return (static_cast<std::size_t>(step % 2) * replicas_.size() + source) * microbatches + static_cast<std::size_t>(microbatch);
}

}  // namespace pipetrain
