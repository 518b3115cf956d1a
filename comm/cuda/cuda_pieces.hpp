// Piecewise transfers between GPUs of one host, in one process or several: copy engines carry each piece on a stream
// beside the computing one, ordered by events. The ranks' issuing threads meet on the host, once or twice a call, to
// exchange addresses and events; GPUs never wait for a host. CUDA builds only.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "comm/cuda/far_memory.hpp"
#include "comm/cuda/shared_host_memory.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// The data that ranks post for each other.
class PieceMeeting;

// Makes one object for all ranks of one process, on these devices.
std::shared_ptr<PieceMeeting> make_piece_meeting(const std::vector<Device*>& devices);
// Makes an object for one rank of this process, if ranks are in several processes. posts: by rank, far_piece_bytes() bytes of
// zeros each, which the rank's process has made and the others have opened.
std::shared_ptr<PieceMeeting> make_far_piece_meeting(int rank, const std::vector<std::shared_ptr<SharedHostMemory>>& posts,
                                                     std::shared_ptr<FarMemory> far);
std::size_t far_piece_bytes(int ranks);
// Ends its ranks' waits and later calls with this cause: their streams fail. Thread-safe.
void abort(PieceMeeting& meeting, const std::exception_ptr& cause);

class CudaPieces : public PiecewiseTransfer {
 public:
  // Group::shift; the stream itself carries the bytes.
  virtual void shift(Stream& stream, const Tensor& source, const Tensor& target) = 0;
  // Calls `enqueue`, whose work on the stream begins when every rank's stream has come to this call; work enqueued later
  // begins when every rank's work has ended. The calling threads of the ranks wait for each other.
  virtual void together(Stream& stream, const std::function<void()>& enqueue) = 0;
};

// Returns the handle of one rank; its device must reach the others' memory. Destroy it when no work of the rank is running.
std::unique_ptr<CudaPieces> make_cuda_pieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device);

}  // namespace pipetrain
