// A rank's part of the model, with what it computes with: operations, a workspace, and the groups of the ranks of its stage.
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
  // Both arguments outlive this; adds the streams of its own. Throws Error(unavailable) for a precision that is not built.
  RankModel(const RankSetup& setup, RankStreams& streams);

  StageModel& operator*() const { return *model_; }
  StageModel* operator->() const { return model_.get(); }
  Ops& ops() { return *ops_; }
  TensorParallel tensor_parallel() const;
  BraidGroup* braid() { return braid_.get(); }  // null: no braid runs in turns

  // Binds weights and places for gradients, and allocates the workspace, and a second one for the forwards of braids. Before
  // the first action. Throws Error(out_of_memory).
  void bind(ParameterStore& weights, GradientPlaces grads);
  // B, I or W, whose gradients the listener hears of.
  void backward(const schedules::Action& action, const BackwardArgs& args, ActivationSlot& slot, GradientListener listener);
  // While quiet, operations run without the other ranks of the groups.
  void set_quiet(bool quiet);
  // Waits until the groups of operations move nothing.
  void wait_until_idle() noexcept;

 private:
  std::unique_ptr<Ops> make_ops() const;  // on the stream that computes, with memory of their own
  Buffer make_workspace(const char* what) const;

  const RankSetup& setup_;
  Stream& compute_;
  std::unique_ptr<QuietGroup> tensor_group_;   // null: one rank
  std::shared_ptr<QuietGroup> context_group_;  // null: no rank shares its sequences
  std::unique_ptr<BraidGroup> braid_;          // around tensor_group_
  Buffer workspace_, second_workspace_;
  std::unique_ptr<Ops> ops_, second_ops_;  // second: of braids' forwards
  std::unique_ptr<RingExchange> ring_;     // null where context_group_ is
  std::unique_ptr<StageModel> model_;
};

}  // namespace pipetrain
