// Piecewise transfers between GPUs of one host that one process drives: copy engines carry each piece on a stream beside the
// computing one, and events order them. The ranks' issuing threads meet on the host, once or twice a call, to hand each other
// addresses and events; their GPUs never wait for a host.
#pragma once

#include <exception>
#include <memory>

#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// What the ranks share.
class PieceMeeting;

std::shared_ptr<PieceMeeting> make_piece_meeting(int ranks);
// Ends every rank's waiting and later calls with this cause: their streams fail. Thread-safe.
void abort(PieceMeeting& meeting, const std::exception_ptr& cause);

// The handle of one rank; its device can reach the memory of the others'. Destroy it when no rank's work is under way.
std::unique_ptr<PiecewiseTransfer> make_cuda_pieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device);

}  // namespace pipetrain
