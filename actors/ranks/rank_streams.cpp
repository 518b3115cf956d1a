#include "actors/ranks/rank_streams.hpp"

#include <utility>

namespace pipetrain {

RankStreams::RankStreams(Device& device, const std::string& name) : compute_(device.make_stream(name)) {
  if (device.id().kind != DeviceKind::cuda) return;
  callbacks_ = device.make_stream("callbacks");
  reached_ = device.make_event();
}

void RankStreams::call_back(std::function<void()> callback) {
  if (!callbacks_) return compute_->host_callback(std::move(callback));
  compute_->record(*reached_);
  callbacks_->wait(*reached_);
  callbacks_->host_callback(std::move(callback));
}

std::vector<Stream*> RankStreams::all() const {
  std::vector<Stream*> streams{compute_.get()};
  streams.insert(streams.end(), others_.begin(), others_.end());
  if (callbacks_) streams.push_back(callbacks_.get());
  return streams;
}

std::exception_ptr RankStreams::failure() const {
  for (const Stream* stream : all()) {
    if (auto cause = stream->failure()) return cause;
  }
  return nullptr;
}

void RankStreams::fail(const std::exception_ptr& cause) {
  compute_->fail(cause);
  for (Stream* stream : others_) stream->fail(cause);
}

void RankStreams::release_callbacks() {
  if (callbacks_) static_cast<void>(callbacks_->failure());
}

void RankStreams::wait_until_idle() noexcept {
  for (Stream* stream : all()) {
    try {
      stream->synchronize();
    } catch (...) {
    }
  }
}

}  // namespace pipetrain
