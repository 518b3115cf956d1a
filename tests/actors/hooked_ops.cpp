#include "actors/hooked_ops.hpp"

#include <utility>

namespace pipetrain::test {
namespace {

class HookedOps final : public Ops {
 public:
  HookedOps(std::unique_ptr<Ops> ops, std::function<void()> hook) : ops_(std::move(ops)), hook_(std::move(hook)) {}

  Stream& stream() override { return ops_->stream(); }
  void set_workspace(Arena& workspace) override { ops_->set_workspace(workspace); }

  void run(const Operation& operation) override {
    hook_();
    ops_->run(operation);
  }

 private:
  std::unique_ptr<Ops> ops_;
  std::function<void()> hook_;
};

}  // namespace

std::unique_ptr<Ops> make_hooked_ops(std::unique_ptr<Ops> ops, std::function<void()> hook) {
  return std::make_unique<HookedOps>(std::move(ops), std::move(hook));
}

}  // namespace pipetrain::test
