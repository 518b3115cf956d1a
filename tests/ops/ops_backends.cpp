// The backends that the ops tests run on: add one here and every test runs on it.
#include <algorithm>

#include "comm/cuda/cuda_group.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "ops_fixture.hpp"

namespace pipetrain::testing {
namespace {

class CpuBackend : public OpsBackend {
 public:
  std::string name() const override { return "cpu"; }
  std::vector<DType> dtypes() const override { return {DType::f32, DType::bf16, DType::f16}; }
  double tolerance(DType dtype) const override { return dtype == DType::f32 ? 1e-5 : dtype == DType::bf16 ? 1e-2 : 2e-3; }
  int max_ranks() const override { return 4; }
  std::unique_ptr<Device> make_device(int rank, int threads) const override { return make_cpu_device(rank, threads); }
  std::vector<std::unique_ptr<Group>> make_groups(const std::vector<Device*>& devices) const override {
    return make_inprocess_groups(static_cast<int>(devices.size()));
  }
  std::unique_ptr<Ops> make_ops(Stream& stream) const override { return make_cpu_ops(stream); }
};

class CudaBackend : public OpsBackend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<DType> dtypes() const override { return {DType::f32, DType::bf16, DType::f16}; }
  double tolerance(DType dtype) const override { return dtype == DType::f32 ? 1e-5 : dtype == DType::bf16 ? 1e-2 : 2e-3; }
  // One rank for each GPU: freeing memory waits for all work of a GPU, even for a kernel that waits for another rank.
  int max_ranks() const override { return std::min(cuda_device_count(), 4); }
  std::unique_ptr<Device> make_device(int rank, int) const override { return make_cuda_device(rank); }
  std::vector<std::unique_ptr<Group>> make_groups(const std::vector<Device*>& devices) const override {
    return make_cuda_groups(devices);
  }
  std::unique_ptr<Ops> make_ops(Stream& stream) const override { return make_cuda_ops(stream); }
  std::size_t extra_workspace() const override { return 1; }  // the GPU's operations have scratch of their own
};

}  // namespace

const std::vector<const OpsBackend*>& ops_backends() {
  static const CpuBackend cpu;
  static const CudaBackend cuda;
  static const std::vector<const OpsBackend*> all =
      cuda_device_count() > 0 ? std::vector<const OpsBackend*>{&cpu, &cuda} : std::vector<const OpsBackend*>{&cpu};
  return all;
}

}  // namespace pipetrain::testing
