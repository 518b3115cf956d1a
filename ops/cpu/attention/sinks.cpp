// The learned logits that add to the denominators of attention's softmax.
#include <algorithm>
#include <cmath>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"

namespace pipetrain::cpu {
namespace {

// One head of one run of queries: its values of log_sum_exp, and its columns of the output.
struct SinkHead {
  std::int64_t first_row, first_column;
  std::int64_t sums;  // the first element of log_sum_exp
};
SinkHead sink_head(const Tensor& log_sum_exp, const Tensor& out, std::int64_t run, std::int64_t head) {
  const std::int64_t heads = log_sum_exp.shape[1], queries = log_sum_exp.shape[2];
  return {run * queries, head * (out.cols() / heads), (run * heads + head) * queries};
}

}  // namespace

void add_sinks(CpuStream& stream, const SinksArgs& args) {
  const std::int64_t runs = args.log_sum_exp.shape[0], heads = args.log_sum_exp.shape[1], queries = args.log_sum_exp.shape[2];
  const std::int64_t dim = args.out.cols() / heads;
  const Vector logits(args.logits);
  const float* const sinks = logits;
  stream.parallel_for(runs * heads, [&](std::int64_t tile) {
    const std::int64_t head = tile % heads;
    const SinkHead of = sink_head(args.log_sum_exp, args.out, tile / heads, head);
    float* const sums = args.log_sum_exp.as<float>() + of.sums;
    const Floats wide(dim);
    for (std::int64_t query = 0; query < queries; ++query) {
      const double keys = sums[query], sink = sinks[head], most = std::max(keys, sink);
      const double both = most + std::log(std::exp(keys - most) + std::exp(sink - most));
      const auto share = static_cast<float>(std::exp(keys - both));
      char* const at = element_at(args.out, (of.first_row + query) * args.out.cols() + of.first_column);
      widen(args.out.dtype, at, dim, wide.data());
      for (std::int64_t i = 0; i < dim; ++i) wide.data()[i] *= share;
      narrow(args.out.dtype, wide.data(), dim, at);
      sums[query] = static_cast<float>(both);
    }
  });
}

// A sink has no value, so the gradient of its logit is -p (dout . out), where p is its share of the softmax.
void sinks_backward(CpuStream& stream, const SinksBackwardArgs& args) {
  const std::int64_t runs = args.log_sum_exp.shape[0], heads = args.log_sum_exp.shape[1], queries = args.log_sum_exp.shape[2];
  const std::int64_t dim = args.out.cols() / heads;
  const Vector logits(args.logits);
  const float* const sinks = logits;
  stream.parallel_for(heads, [&](std::int64_t head) {
    const Rows douts(args.dout), outs(args.out);
    double gradient = 0;
    for (std::int64_t run = 0; run < runs; ++run) {
      const SinkHead of = sink_head(args.log_sum_exp, args.out, run, head);
      for (std::int64_t query = 0; query < queries; ++query) {
        const std::int64_t row = of.first_row + query;
        const float* const dout = douts.read(row, of.first_column, of.first_column + dim);
        const float* const out = outs.read(row, of.first_column, of.first_column + dim);
        double product = 0;
        for (std::int64_t i = 0; i < dim; ++i) product += static_cast<double>(dout[i]) * out[i];
        gradient -= std::exp(static_cast<double>(sinks[head]) - args.log_sum_exp.as<float>()[of.sums + query]) * product;
      }
    }
    args.dlogits.as<float>()[head] += static_cast<float>(gradient);
  });
}

}  // namespace pipetrain::cpu
