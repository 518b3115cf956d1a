// StorageSetup describes a ParameterStorage, and storage_memory() computes the memory that it takes.
#pragma once

#include <memory>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/sums/compressed_gradients.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "core/process_group.hpp"
#include "model/optimizer/optimizer_settings.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

struct StorageSetup {
  const ParameterLayout& layout;  // of the group
  MeshCoordinate rank = {};
  Device* device = nullptr;              // null: only estimated
  std::shared_ptr<Group> replicas = {};  // the ranks that have the same weights; null: this one alone
  // Runs all transfers between replicas. The groups of a rank share it, so that all ranks begin the transfers of all groups in
  // one order; null: one replica, or only estimated.
  std::shared_ptr<Stream> transfer = {};
  int copy = 0;  // the rank's number among the replicas
  StatePlaces::Setup places = {};
  TensorParallel tp = {};  // the ranks that hold the other slices
  int prefetch = 1;        // see Zero
  OptimizerSettings optimizer = {};
  CompressedTensors::Setup compression = {};  // of sums over the replicas
  BlockCode weights_code = BlockCode::none;   // of weights that replicas gather
  bool saves = false;                         // its rank keeps host memory for a snapshot of its states
  int kept_copies = 0;                        // copies of its states for which the host needs memory
};

// Returns the bytes that a ParameterStorage will allocate, on the device and outside of it. Pure.
MemoryUse storage_memory(const StorageSetup& setup);

}  // namespace pipetrain
