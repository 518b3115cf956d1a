#include "core/error.hpp"
#include "ops/cpu/head_norms.hpp"
#include "ops/cpu/scratch.hpp"

namespace pipetrain {
namespace {

// Allocates the workspace that the CPU's operations allocate, and does nothing else.
class MeasuringOps final : public Ops {
 public:
  Stream& stream() override { throw Error(ErrorKind::internal, "measuring ops have no stream"); }
  void set_workspace(Arena& workspace) override { workspace_ = &workspace; }

  void run(const Operation& operation) override {
    const ArenaScope scope(*workspace_);
    std::visit([this](const auto* args) { measure(*args); }, operation);
  }

 private:
  template <class Args>
  void measure(const Args& args) {
    cpu::scratch_of(*workspace_, args);
  }
  void measure(const OfSegments<HeadNormsArgs>& of) { cpu::head_norms(*this, *workspace_, of.shape, of.args); }
  void measure(const OfSegments<HeadNormsBackwardArgs>& of) { cpu::head_norms_backward(*this, *workspace_, of.shape, of.args); }

  Arena* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<Ops> make_measuring_ops() { return std::make_unique<MeasuringOps>(); }

}  // namespace pipetrain
