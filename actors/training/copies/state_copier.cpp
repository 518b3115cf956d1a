#include "actors/training/copies/state_copier.hpp"

#include <exception>
#include <utility>

namespace pipetrain {

std::size_t count_elements(const std::vector<HeldState>& parts) {
  std::size_t elements = 0;
  for (const HeldState& part : parts) elements += part.elements.size();
  return elements;
}

StateCopier::StateCopier(Device& device, std::vector<HeldState> source)
    : source_(std::move(source)), stream_(device.make_stream("snapshot")), copied_(device.make_event()) {}

StateCopier::~StateCopier() { finish_before_freeing(*stream_); }

void StateCopier::copy(float* target) {
  for (const HeldState& part : source_) {
    if (part.read) {
      part.read(target);
    } else {
      stream_->copy(target, part.values, part.elements.size() * sizeof(float));
    }
    target += part.elements.size();
  }
  stream_->record(*copied_);
  copying_ = true;
}

void StateCopier::when_copied(std::function<void()> done) {
  stream_->host_callback([stream = stream_.get(), done = std::move(done)] {
    if (!stream->failure()) done();
  });
}

void StateCopier::protect(Stream& stream) {
  if (copying_) stream.wait(*copied_);
  copying_ = false;
}

void StateCopier::wait() {
  copied_->synchronize();
  if (const auto cause = stream_->failure()) std::rethrow_exception(cause);
}

}  // namespace pipetrain
