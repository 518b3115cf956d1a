// The stream on which all operations of one rank are enqueued, and the scratch that each operation has while it runs.
#pragma once

#include <cstddef>

#include "core/buffer.hpp"
#include "core/cuda/cuda_stream.hpp"

namespace pipetrain::cuda {

// Not thread-safe. The scratch is in use until the stream is idle: the owner must wait for that before it
// destroys this object.
class OpsStream {
 public:
  explicit OpsStream(CudaStream& stream) : stream_(stream) {}

  CudaStream& stream() { return stream_; }

  // Calls launch(cudaStream_t) unless the stream has failed before; the error of a failure names `what`.
  template <class Launch>
  void enqueue(const char* what, Launch launch) {
    if (!stream_.begin()) return;
    launch(stream_.native());
    stream_.end(what);
  }

  // Returns memory for one operation; the next operation may reuse it, because one stream runs them in order.
  // It grows when a larger shape is first seen, which waits for the stream: run every shape once before timing.
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
