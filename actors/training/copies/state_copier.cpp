#include "actors/training/copies/state_copier.hpp"

#include <exception>
#include <utility>

namespace pipetrain {

std::size_t count_elements(const std::vector<HeldState>& parts) {
  std::size_t elements = 0;
  for (const HeldState& part : parts) elements += part.elements.size();
  return elements;
}

StateCopier::StateCopier(Device& device, std::vector<HeldState> source, CopyWay way, std::shared_ptr<const LockedChunks> locked)
    : source_(std::move(source)) {
  if (way == CopyWay::staged) {
    staged_ = std::make_unique<StagedTransfers>(device, count_elements(source_) * sizeof(float), std::move(locked));
  } else {
    stream_ = device.make_stream("snapshot");
    copied_ = device.make_event();
  }
}

StateCopier::~StateCopier() {
  if (stream_) finish_before_freeing(*stream_);
}

void StateCopier::copy(float* target, std::function<void()> done) {
  std::vector<float*> targets;
  for (const HeldState& part : source_) targets.push_back(std::exchange(target, target + part.elements.size()));
  copy(targets, std::move(done));
}

void StateCopier::copy(const std::vector<float*>& targets, std::function<void()> done) {
  std::vector<StagedTransfers::Part> parts;
  for (std::size_t i = 0; i < source_.size(); ++i) {
    const HeldState& part = source_[i];
    const std::size_t bytes = part.elements.size() * sizeof(float);
    if (part.read) {
      part.read(targets[i]);
    } else if (staged_) {
      parts.push_back({part.values, targets[i], bytes});
    } else {
      stream_->copy(targets[i], part.values, bytes);
    }
  }
  copying_ = true;
  if (staged_) return staged_->read(std::move(parts), std::move(done));
  if (done)
    stream_->host_callback([stream = stream_.get(), done = std::move(done)] {
      if (!stream->failure()) done();
    });
  stream_->record(*copied_);
}

void StateCopier::protect(Stream& stream) {
  if (copying_ && staged_) staged_->wait_until_read();
  if (copying_ && !staged_) stream.wait(*copied_);
  copying_ = false;
}

void StateCopier::wait() {
  if (staged_) return staged_->wait();
  copied_->synchronize();
  if (const auto cause = stream_->failure()) std::rethrow_exception(cause);
}

}  // namespace pipetrain
