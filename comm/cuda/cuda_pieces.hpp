// Piecewise transfers between GPUs of one host, of one process or of several: copy engines carry each piece on a stream beside
// the computing one, and events order them. The ranks' issuing threads meet on the host, once or twice a call, to hand each
// other places and events; their GPUs never wait for a host. CUDA builds only.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "comm/cuda/far_memory.hpp"
#include "comm/cuda/shared_host_memory.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Where ranks post to each other.
class PieceMeeting;

// Of ranks of one process, on these devices: one for all.
std::shared_ptr<PieceMeeting> make_piece_meeting(const std::vector<Device*>& devices);
// Of ranks in several processes: one for each rank of this process. posts: by rank, far_piece_bytes() of zeros each, that the
// rank's process has made and the others have opened.
std::shared_ptr<PieceMeeting> make_far_piece_meeting(int rank, const std::vector<std::shared_ptr<SharedHostMemory>>& posts,
                                                     std::shared_ptr<FarMemory> far);
std::size_t far_piece_bytes(int ranks);
// Ends its ranks' waiting and later calls with this cause: their streams fail. Thread-safe.
void abort(PieceMeeting& meeting, const std::exception_ptr& cause);

class CudaPieces : public PiecewiseTransfer {
 public:
  // Group::shift, whose bytes the stream itself carries.
  virtual void shift(Stream& stream, const Tensor& source, const Tensor& target) = 0;
};

// The handle of one rank; its device can reach the memory of the others'. Destroy it when no rank's work is under way.
std::unique_ptr<CudaPieces> make_cuda_pieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device);

}  // namespace pipetrain
