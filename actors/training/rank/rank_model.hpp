// A rank's part of the model and its means to compute: operations, a workspace, and the groups of its stage's ranks.
#pragma once

#include <memory>

#include "actors/ranks/rank_streams.hpp"
#include "actors/training/rank/braid.hpp"
#include "actors/training/rank/quiet_group.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "core/buffer.hpp"
#include "model/context/ring_exchange.hpp"
#include "model/stage_model.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class RankModel {
 public:
  // Both arguments must outlive this; adds its own streams. Throws Error(unavailable) for a precision that is not built.
  RankModel(const RankSetup& setup, RankStreams& streams);

  StageModel& operator*() const { return *model_; }
  StageModel* operator->() const { return model_.get(); }
  Ops& ops() { return *ops_; }
  TensorParallel tensor_parallel() const;
  Braid* braid() { return braid_.get(); }  // null: actions of braids do not alternate

  // Binds weights and gradient memory, and allocates the workspace, and a second one for the forwards of braids. Called
  // before the first action. Throws Error(out_of_memory).
  void bind(ParameterStore& weights, GradientPlaces grads);
  // Runs B, I or W; the listener is called with its gradients.
  void backward(const schedules::Action& action, const BackwardArgs& args, ActivationSlot& slot, GradientListener listener);
  // While quiet, operations run without the other ranks of the groups.
  void set_quiet(bool quiet);
  // Waits until no collective of the groups is running.
  void wait_until_idle() noexcept;

 private:
  std::unique_ptr<Ops> make_ops() const;  // on the computing stream, with memory of their own
  Buffer make_workspace(const char* what) const;

  const RankSetup& setup_;
  Stream& compute_;
  std::unique_ptr<QuietGroup> tensor_group_;                 // null: one rank
  std::shared_ptr<QuietGroup> context_group_;                // null: the rank shares its sequences with no other
  std::unique_ptr<QuietGroup> expert_group_;                 // null: the rank holds all experts
  std::unique_ptr<Braid> braid_;                             // null: see braid()
  std::unique_ptr<BraidGroup> tensor_braid_, expert_braid_;  // wrap the groups; null where these or braid_ are
  Buffer workspace_, second_workspace_;
  std::unique_ptr<Ops> ops_, second_ops_;  // second: for the forwards of braids
  std::unique_ptr<RingExchange> ring_;     // null where context_group_ is null
  std::unique_ptr<StageModel> model_;
};

}  // namespace pipetrain
