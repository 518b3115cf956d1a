#include "apps/train/offload_rates.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "files/direct_file.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t transfer = std::size_t{64} << 20;  // bytes, about as many as a run moves at once

template <class Work>
double rate_of(std::size_t bytes, const Work& work) {
  const auto begin = Clock::now();
  work();
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count();
}

// A device that copies both ways.
class BothWays {
 public:
  explicit BothWays(Device& device) : in_(device.make_stream("measurement in")), out_(device.make_stream("measurement out")) {
    for (Buffer& buffer : here_) buffer = device.allocate(transfer, "measurement of the link to the host");
    for (Buffer& buffer : host_) {
      buffer = device.allocate_host(transfer, "measurement of the link to the host");
      std::fill_n(static_cast<char*>(buffer.data()), transfer, char{1});
    }
  }
  void begin(int times) {
    for (int i = 0; i < times; ++i) {
      in_->copy(here_[0].data(), host_[0].data(), transfer);
      out_->copy(host_[1].data(), here_[1].data(), transfer);
    }
  }
  void end() {
    in_->synchronize();
    out_->synchronize();
  }

 private:
  Buffer here_[2], host_[2];
  std::unique_ptr<Stream> in_, out_;  // declared after the memory that they use
};

}  // namespace

double measured_host_rate(const std::vector<Device*>& devices) {
  constexpr int times = 8;
  std::vector<std::unique_ptr<BothWays>> copies;
  for (Device* const device : devices) copies.push_back(std::make_unique<BothWays>(*device));
  const auto copy = [&](int count) {
    for (const auto& one : copies) one->begin(count);
    for (const auto& one : copies) one->end();
  };
  copy(1);  // the first copies also set up what later ones use
  return rate_of(times * transfer, [&] { copy(times); });
}

double measured_disk_rate(const std::filesystem::path& folder) {
  DirectFile file(folder, transfer);
  const auto device = make_cpu_device(0, 1);
  Buffer memory = device->allocate(transfer + DirectFile::alignment, "measurement of a disk");
  void* at = memory.data();
  std::size_t room = memory.bytes();
  std::align(DirectFile::alignment, transfer, at, room);
  std::fill_n(static_cast<char*>(at), transfer, char{1});
  const double written = rate_of(transfer, [&] { file.write(0, at, transfer); });
  return std::min(written, rate_of(transfer, [&] { file.read(0, at, transfer); }));
}

}  // namespace pipetrain
