// The tools of every test of an Ops implementation, whatever the device: ranks with their device, stream, ops and
// group; tensors between guard bytes; and the list of backends that this build and machine have.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"
#include "ops/ops.hpp"
#include "ops_reference.hpp"

namespace pipetrain::testing {

class OpsBackend {
 public:
  virtual ~OpsBackend() = default;
  virtual std::string name() const = 0;
  // The types of activations and weights.
  virtual std::vector<DType> dtypes() const = 0;
  // The relative Frobenius error allowed for results of this dtype.
  virtual double tolerance(DType dtype) const = 0;
  virtual int max_ranks() const = 0;
  // threads: a CPU device's compute threads; others ignore it.
  virtual std::unique_ptr<Device> make_device(int rank, int threads) const = 0;
  virtual std::vector<std::unique_ptr<Group>> make_groups(const std::vector<Device*>& devices) const = 0;
  virtual std::unique_ptr<Ops> make_ops(Stream& stream) const = 0;
  // Bytes of workspace beyond what the measuring ops report. 0 also means that exactly the measured workspace must be used.
  virtual std::size_t extra_workspace() const { return 0; }
};

// The backends that can run here; the CPU is always the first.
const std::vector<const OpsBackend*>& ops_backends();

// One rank: makes tensors on its device, and holds the objects that enqueue there.
class TestRank {
 public:
  TestRank(const OpsBackend& backend, int rank, int threads);

  int rank() const { return rank_; }
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  // Inside Team::run, the ops to call.
  Ops& ops() { return *current_ops_; }
  TensorParallel tp(bool sequence_parallel) const { return {group_.get(), sequence_parallel}; }

  // Makes a tensor with these values. The type must hold them exactly.
  Tensor put(const Values& values, DType dtype);
  // Makes a tensor with all bits set: NaN in every floating type, so that an unwritten element shows.
  Tensor poisoned(const Shape& shape, DType dtype);
  Values get(const Tensor& tensor);
  std::vector<unsigned char> bytes(const Tensor& tensor);
  // Returns true if nothing was written outside of the tensors made here.
  bool guards_intact();

 private:
  friend class TestTeam;
  Tensor make(const Shape& shape, DType dtype);

  int rank_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Group> group_;  // null with one rank
  std::unique_ptr<Ops> ops_, measuring_;
  Ops* current_ops_ = nullptr;
  std::vector<Buffer> memory_;
  Buffer workspace_;
};

// The ranks of a tensor-parallel group.
class TestTeam {
 public:
  TestTeam(const OpsBackend& backend, int ranks, int threads = 2);

  int size() const { return static_cast<int>(ranks_.size()); }
  TestRank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  // Calls `enqueue` for every rank, each on a thread of its own, and waits for all streams; throws the first exception.
  // It is called first with ops that only measure, then with the real ones and exactly the workspace measured, so it
  // must only call ops, on tensors made before. Throws std::runtime_error if the workspace used differs from the
  // measured one, or if a guard was overwritten.
  void run(const std::function<void(TestRank&)>& enqueue);

 private:
  const OpsBackend& backend_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
};

}  // namespace pipetrain::testing
