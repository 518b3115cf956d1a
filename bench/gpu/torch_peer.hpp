// The peer: a PyTorch script that runs the same model, layout and batch, started by torchrun.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/our_run.hpp"
#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

// The command that starts the peer, and its number of steps.
struct PeerCommand {
  std::string torchrun;  // its words: "python3 -m torch.distributed.run"
  std::string script;
  int warmup = 0, steps = 0;
  int port = 0;  // the port at which its processes meet
};
std::vector<std::string> peer_arguments(const Row& row, const PeerVariant& variant, const PeerCommand& command);

// Reads the figures of its line "RESULT {...}"; memory_without_state by peer_state_bytes(). Throws Error(input) without
// that line.
RunFigures read_peer(const std::string& output, const Row& row, const PeerVariant& variant);

// Returns the bytes of parameters, gradients and optimizer state on each of the peer's ranks, in its order: pp, dp, tp
// with tp fastest. Layers are split evenly; a tied table counts once where one stage has both. Without data parallelism
// everything is bf16: 8 bytes a parameter. With it (fully_shard, not resharded after the forward) every rank has 1/dp of the
// fp32 parameters and moments, and, at its peak, a whole bf16 copy of the parameters and the whole fp32 gradients that are
// summed before they are reduced: 12 / dp + 6. (Its part of the reduced gradients is allocated while the last backward
// frees activations and the unreduced gradients.)
std::vector<double> peer_state_bytes(const Row& row, const PeerVariant& variant);

}  // namespace pipetrain::bench
