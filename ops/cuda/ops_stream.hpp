// What all operations of one rank share: the stream they are enqueued on, and scratch that each has to itself while it runs.
#pragma once

#include <cstddef>

#include "core/buffer.hpp"
#include "core/cuda/cuda_stream.hpp"

namespace pipetrain::cuda {

// Not thread-safe. The scratch is in use until the stream has come to rest: its owner waits for that before it destroys this.
class OpsStream {
 public:
  explicit OpsStream(CudaStream& stream) : stream_(stream) {}

  CudaStream& stream() { return stream_; }

  // Calls launch(cudaStream_t) unless the stream has failed before; what it says of a failure names `what`.
  template <class Launch>
  void enqueue(const char* what, Launch launch) {
    if (!stream_.begin()) return;
    launch(stream_.native());
    stream_.end(what);
  }

  // Memory for one operation; the next one may use it again, because one stream runs them in order. Grows when a shape is first
  // seen, which waits for the stream: warm every shape up before it counts.
  void* scratch(std::size_t bytes) {
    if (bytes > scratch_.bytes()) {
      stream_.synchronize();
      scratch_ = Buffer();
      scratch_ = stream_.device().allocate(bytes, "the scratch of the GPU operations");
    }
    return scratch_.data();
  }

 private:
  CudaStream& stream_;
  Buffer scratch_;
};

}  // namespace pipetrain::cuda
