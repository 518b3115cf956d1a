#include "actors/training/offload/offloaded_activations.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain {

bool OffloadedActivations::needed(const schedules::StageNeeds& needs) {
  return std::any_of(needs.chunks.begin(), needs.chunks.end(), [](const auto& chunk) { return chunk.peak_offloaded > 0; });
}

std::size_t OffloadedActivations::place_bytes(const StageModel& model, std::size_t chunk) {
  constexpr std::size_t granularity = OffloadStorage::granularity;
  return (model.activation_bytes(static_cast<int>(chunk)).saved + granularity - 1) / granularity * granularity;
}

StorageBytes OffloadedActivations::bytes(const StageModel& model, const schedules::StageNeeds& needs) {
  StorageBytes bytes;
  for (std::size_t chunk = 0; chunk < needs.chunks.size(); ++chunk) {
    const std::size_t own = place_bytes(model, chunk);
    bytes.all += static_cast<std::size_t>(needs.chunks[chunk].peak_offloaded) * own;
    if (needs.chunks[chunk].peak_offloaded > 0) bytes.transfer = std::max(bytes.transfer, own);
  }
  return bytes;
}

OffloadedActivations::OffloadedActivations(const Setup& setup, const StageModel& model, const schedules::StageNeeds& needs)
    : free_(needs.chunks.size()) {
  const StorageBytes all = bytes(model, needs);
  const std::string what = setup.name + ": offloaded activations";
  memory_ = setup.folder.empty() ? make_host_storage(setup.device, all.all, what)
                                 : make_disk_storage(setup.device, setup.folder, all);
  out_ = setup.device.make_stream(setup.name + " activations out");
  in_ = setup.device.make_stream(setup.name + " activations in");
  std::size_t at = 0;
  for (std::size_t chunk = 0; chunk < needs.chunks.size(); ++chunk) {
    for (int i = 0; i < needs.chunks[chunk].peak_offloaded; ++i, at += place_bytes(model, chunk))
      places_.push_back({chunk, at, 0, setup.device.make_event(), setup.device.make_event()});
  }
  for (Outside& place : places_) free_[place.chunk].push_back(&place);
}

OffloadedActivations::Outside& OffloadedActivations::begin_out(std::size_t chunk) {
  auto& free = free_[chunk];
  if (free.empty()) throw Error(ErrorKind::internal, "more microbatches outside of the device than the plan needs");
  Outside& to = *free.front();
  free.pop_front();
  out_->wait(*to.fetched);
  return to;
}

void OffloadedActivations::move_out(Outside& to, const void* memory, std::size_t bytes) {
  to.bytes = bytes;
  memory_->store(*out_, to.begin, memory, bytes);
  out_->record(*to.stored);
}

void OffloadedActivations::begin_in(Outside& from) { in_->wait(*from.stored); }

void OffloadedActivations::move_in(Outside& from, void* memory) {
  memory_->fetch(*in_, from.begin, memory, from.bytes);
  in_->record(*from.fetched);
  free_[from.chunk].push_back(&from);
}

}  // namespace pipetrain
