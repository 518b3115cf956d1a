// The peer: a PyTorch script that runs the same model, layout and batch, started by torchrun.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/our_run.hpp"
#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

// How the peer is started, and for how many steps.
struct PeerCommand {
  std::string torchrun;  // its words: "python3 -m torch.distributed.run"
  std::string script;
  int warmup = 0, steps = 0;
  int port = 0;  // where its processes meet
};
std::vector<std::string> peer_arguments(const Row& row, const PeerVariant& variant, const PeerCommand& command);

// The figures of its line "RESULT {...}"; memory_without_state by peer_state_bytes(). Throws Error(input) without that line.
RunFigures read_peer(const std::string& output, const Row& row, const PeerVariant& variant);

// Bytes of parameters, gradients and optimizer state on each of its ranks, in its order: pp, dp, tp with tp fastest. Layers
// are split evenly, embedding and head are not tied. Without data parallelism everything is bf16: 8 bytes a parameter. With
// it (fully_shard, not resharded after the forward) every rank has 1/dp of the fp32 parameters and moments, and, when it holds
// most, all of a bf16 copy of the parameters and of the fp32 gradients that are summed up before they are reduced: 12 / dp + 6.
// (Its part of the reduced gradients comes into being as the last backward frees activations and the unreduced ones.)
std::vector<double> peer_state_bytes(const Row& row, const PeerVariant& variant);

}  // namespace pipetrain::bench
