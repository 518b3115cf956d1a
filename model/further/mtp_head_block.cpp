#include "model/further/mtp_head_block.hpp"

#include <utility>

namespace pipetrain {
namespace {

struct MtpHeadSaved final : BlockCompute::Saved {
  std::unique_ptr<BlockCompute::Saved> own, further;

  void relocate(const Relocation& moved) override {
    own->relocate(moved);
    further->relocate(moved);
  }
};

}  // namespace

MtpHeadBlock::MtpHeadBlock(std::unique_ptr<BlockCompute> own, std::unique_ptr<BlockCompute> further, double weight)
    : own_(std::move(own)), further_(std::move(further)), weight_(static_cast<float>(weight)) {}

std::unique_ptr<BlockCompute::Saved> MtpHeadBlock::make_saved() const {
  auto saved = std::make_unique<MtpHeadSaved>();
  saved->own = own_->make_saved();
  saved->further = further_->make_saved();
  return saved;
}

void MtpHeadBlock::bind(const BoundTensors& tensors) {
  own_->bind(tensors);
  further_->bind(tensors);
}

// The heads know no slices: only losses of whole sequences do, which have no further prediction.
void MtpHeadBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<MtpHeadSaved&>(saved_base);
  const std::int64_t tokens = context.tokens();
  BlockContext alone = context;
  alone.slice = nullptr;
  ForwardArgs own = args;
  own.input = args.final_hidden;
  own.targets = args.targets.row_range(0, tokens);
  own.loss_sum = args.loss_sum.row_range(0, 1);
  own_->forward(alone, own, memory, *saved.own);
  ForwardArgs further = args;
  further.targets = args.targets.row_range(2 * tokens, 3 * tokens);
  further.loss_sum = args.loss_sum.row_range(1, 2);
  if (args.loss_scale) further.loss_scale = weight_ * *args.loss_scale;
  further_->forward(alone, further, memory, *saved.further);
}

// Both add to the gradient of the one matrix.
void MtpHeadBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                            Saved& saved_base) const {
  auto& saved = static_cast<MtpHeadSaved&>(saved_base);
  BlockContext alone = context;
  alone.slice = nullptr;
  BackwardArgs further = args;
  further.loss_scale = weight_ * args.loss_scale;
  WeightGradients first = gradients.of_part(true, false), last = gradients.of_part(false, true);
  further_->backward(alone, further, first, *saved.further);
  BackwardArgs own = args;
  own.input_grad = args.final_hidden_grad;
  own_->backward(alone, own, last, *saved.own);
}

}  // namespace pipetrain
