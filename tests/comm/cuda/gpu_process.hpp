// Test cases that need several processes with GPUs. A process is this program again, which runs one hidden test case: a fork
// would inherit a CUDA that does not work in it.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/device.hpp"

namespace pipetrain::test {

// The driver reads this at its first call: a kernel that is loaded at its first launch may wait for running ones, among them
// those of a rank that shares the GPU and waits for this one.
[[maybe_unused]] inline const int loaded_group_kernels = setenv("CUDA_MODULE_LOADING", "EAGER", 0);

struct GpuRun {
  std::string test_case;  // a hidden one: its name, without commas and brackets
  TransportKind kind = TransportKind::ipc;
  int processes = 2;
  int gpus = 1;           // that they use
  bool one_each = false;  // each process sees its own GPU only, as some launchers arrange it
  std::chrono::seconds limit{45};
};

// Returns how each process ended: its exit status, or minus the signal that ended it; -99 if it was killed at the time limit.
std::vector<int> run_gpu_processes(const GpuRun& run);

// Returns true if there are this many GPUs and this kind of transport is built; otherwise the test case skips.
bool have(TransportKind kind, int gpus);

// The settings that a hidden test case gets.
class GpuProcess {
 public:
  // Returns null if the test case was not started by run_gpu_processes; it then skips.
  static std::unique_ptr<GpuProcess> here();

  ControlPlane& control() { return *control_; }
  TransportKind kind() const { return kind_; }
  int gpus() const { return gpus_; }
  int process() const { return control_->process(); }
  // Number, in this process, of the GPU of its n-th rank: processes share GPUs only where there are too few.
  int gpu(int n) const;

 private:
  TransportKind kind_{};
  int gpus_ = 1;
  bool one_each_ = false;
  std::unique_ptr<ControlPlane> control_;
};

}  // namespace pipetrain::test
