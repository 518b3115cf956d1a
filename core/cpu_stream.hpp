// The CPU's stream: a thread that runs enqueued closures in order and shares the tiles of one operation with the
// device's other compute threads. Only ops and collectives for the CPU enqueue here and include this header.
#pragma once

#include <cstdint>
#include <functional>

#include "core/stream.hpp"

namespace pipetrain {

class CpuStream : public Stream {
 public:
  // Runs after all previous work; an exception becomes the stream's sticky failure. Skipped after a failure.
  virtual void enqueue(std::function<void()> work) = 0;
  // Call it only inside work that runs on this stream. Calls tile(i) for i in [0, tiles), spread over the device's
  // compute threads, and returns when all have finished. Tiles must be independent, because any thread may run any
  // tile. The first exception of a tile is thrown here.
  virtual void parallel_for(std::int64_t tiles, const std::function<void(std::int64_t)>& tile) = 0;
};

// The stream must belong to a CPU device.
CpuStream& cpu_stream(Stream& stream);

// Calls back once the event's latest record has completed: at once on this thread, or later on the recording stream's;
// also when that stream failed. The callback must be short, must not block and must not throw; it never runs if the
// event is destroyed first. The event must be of a CPU device. Thread-safe.
void when_complete(const Event& event, std::function<void()> callback);

}  // namespace pipetrain
