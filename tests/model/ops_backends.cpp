// The backends that the ops tests run on: add one here and every test runs on it.
#include "comm/inprocess_group.hpp"
#include "ops_fixture.hpp"

namespace pipetrain::testing {
namespace {

class CpuBackend : public OpsBackend {
 public:
  std::string name() const override { return "cpu"; }
  std::vector<DType> dtypes() const override { return {DType::f32}; }
  double tolerance(DType) const override { return 1e-5; }
  int max_ranks() const override { return 4; }
  std::unique_ptr<Device> make_device(int rank, int threads) const override { return make_cpu_device(rank, threads); }
  std::vector<std::unique_ptr<Group>> make_groups(const std::vector<Device*>& devices) const override {
    return make_inprocess_groups(static_cast<int>(devices.size()));
  }
  std::unique_ptr<Ops> make_ops(Stream& stream) const override { return make_cpu_ops(stream); }
};

}  // namespace

const std::vector<const OpsBackend*>& ops_backends() {
  static const CpuBackend cpu;
  static const std::vector<const OpsBackend*> all{&cpu};
  return all;
}

}  // namespace pipetrain::testing
