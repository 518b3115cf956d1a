#include "ops/cuda/dispatch/expert_ops.hpp"

#include "core/error.hpp"
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/hopper/grouped_fp8.hpp"
#include "ops/cuda/hopper/grouped_products.hpp"

namespace pipetrain::cuda {

ExpertOps::ExpertOps(OpsStream& ops, ParallelMatmul& matmul, const HopperGpu& gpu)
    : ops_(ops),
      matmul_(matmul),
      gpu_(gpu),
      tickets_(ops.stream().device().allocate(grouped_tickets * sizeof(int), "tickets of the GPU operations")) {
  ops.stream().zero({tickets_.data(), {grouped_tickets}, DType::i32});
}

void ExpertOps::route(const RouteArgs& args) {
  void* const memory = ops_.scratch(route_scratch(args));
  ops_.enqueue("route", [&](cudaStream_t stream) { cuda::route(stream, args, memory); });
}

void ExpertOps::route_backward(const RouteBackwardArgs& args) {
  void* const memory = ops_.scratch(route_backward_scratch(args));
  ops_.enqueue("route_backward", [&](cudaStream_t stream) { cuda::route_backward(stream, args, memory); });
}

void ExpertOps::count_experts(const CountExpertsArgs& args) {
  ops_.enqueue("count_experts", [&](cudaStream_t stream) { cuda::count_experts(stream, args); });
}

void ExpertOps::gather_rows(const GatherRowsArgs& args) {
  ops_.enqueue("gather_rows", [&](cudaStream_t stream) { cuda::gather_rows(stream, args); });
}

void ExpertOps::sum_rows(const SumRowsArgs& args) {
  const auto enqueue = [&](const RowSums& sums) {
    ops_.enqueue("sum_rows", [&](cudaStream_t stream) { cuda::sum_rows(stream, sums); });
  };
  if (args.tp.size() == 1) return enqueue({args.rows, args.places, args.addend, args.residual, args.out});
  const auto make = [&](std::int64_t begin, std::int64_t end, const Tensor& part) {
    const auto addend = args.addend ? std::optional(args.addend->row_range(begin, end)) : std::nullopt;
    enqueue({args.rows, args.places.row_range(begin, end), addend, {}, part});
  };
  matmul_.sum_over_ranks(args.tp, {args.places.rows(), args.rows.cols(), make, args.residual, args.out});
}

void ExpertOps::weigh_rows(const WeighRowsArgs& args) {
  ops_.enqueue("weigh_rows", [&](cudaStream_t stream) { cuda::weigh_rows(stream, args); });
}

void ExpertOps::weighed_swiglu_backward(const WeighedSwigluBackwardArgs& args) {
  ops_.enqueue("weighed_swiglu_backward", [&](cudaStream_t stream) { cuda::weighed_swiglu_backward(stream, args); });
  if (args.tp.size() > 1) args.tp.group->all_reduce(ops_.stream(), args.dweights, Reduction::sum);
}

void ExpertOps::grouped_matmul(const GroupedMatmulArgs& args) {
  const bool takes_hopper = takes_hopper_grouped(args, gpu_);
  ops_.enqueue("grouped_matmul", [&](cudaStream_t stream) {
    if (takes_hopper) return hopper_grouped_matmul(stream, args, gpu_, static_cast<int*>(tickets_.data()));
    cuda::grouped_matmul(stream, args);
  });
  if (args.bias && !(takes_hopper && adds_bias_in_hopper(args)))
    ops_.enqueue("add_expert_bias", [&](cudaStream_t stream) { cuda::add_expert_bias(stream, args.bias_args()); });
}

void ExpertOps::grouped_fp8_matmul(const GroupedFp8MatmulArgs& args) {
  if (!takes_hopper_grouped(args, gpu_))
    throw Error(ErrorKind::unavailable, to_string(ops_.stream().device().id()) + ": products of experts in 8 bits of " +
                                            to_string(args.in.values.shape) + " and " + to_string(args.w.values.shape) +
                                            " are not built for this GPU; use precision bf16");
  ops_.enqueue("grouped_fp8_matmul",
               [&](cudaStream_t stream) { hopper_grouped_fp8_matmul(stream, args, gpu_, static_cast<int*>(tickets_.data())); });
  if (args.bias && !adds_bias_in_hopper(args))
    ops_.enqueue("add_expert_bias", [&](cudaStream_t stream) { cuda::add_expert_bias(stream, args.bias_args()); });
}

void ExpertOps::grouped_weight_grad(const GroupedWeightGradArgs& args) {
  ops_.enqueue("grouped_weight_grad", [&](cudaStream_t stream) {
    if (takes_hopper_grouped(args, gpu_))
      return hopper_grouped_weight_grad(stream, args, gpu_, static_cast<int*>(tickets_.data()));
    cuda::grouped_weight_grad(stream, args);
  });
}

void ExpertOps::send_tokens(const SendTokensArgs& args) {
  void* const memory = ops_.scratch(send_tokens_scratch(args));
  ops_.enqueue("send_tokens", [&](cudaStream_t stream) { cuda::send_tokens(stream, args, memory); });
}

void ExpertOps::sort_received(const SortReceivedArgs& args) {
  void* const memory = ops_.scratch(sort_received_scratch(args));
  ops_.enqueue("sort_received", [&](cudaStream_t stream) { cuda::sort_received(stream, args, memory); });
}

void ExpertOps::exchange_rows(const ExchangeRowsArgs& args) { args.group->all_to_all(ops_.stream(), args.exchange); }

}  // namespace pipetrain::cuda
