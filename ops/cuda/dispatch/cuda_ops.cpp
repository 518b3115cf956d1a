// The GPU's operations: each takes its scratch and enqueues its kernels (kernels.hpp). Shapes have the letters of ops/ops.hpp:
// T tokens, Tr this rank's rows of them, H hidden size, K x N matrices, V vocabulary rows, Hq and Hkv heads of size D. Matrix
// products are in parallel_matmul.cpp, attention is in attention_ops.cpp.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <span>

#include "core/buffer.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "ops/cuda/dispatch/attention_ops.hpp"
#include "ops/cuda/gemm/parallel_matmul.hpp"
#include "ops/cuda/hopper/cross_entropy_rows.hpp"
#include "ops/cuda/hopper/norm_backward.hpp"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/many_square_sums.hpp"
#include "ops/cuda/ops_stream.hpp"
#include "ops/ops.hpp"

namespace pipetrain {
namespace {

int multiprocessors_of(int device) {
  int count = 0;
  cuda_check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors", device);
  return count;
}

int current(CudaStream& stream) {
  cuda_check(cudaSetDevice(stream.device_index()), "choosing the device", stream.device_index());
  return stream.device_index();
}

class CudaOps : public Ops, public ManySquareSums {
 public:
  CudaOps(CudaStream& stream, bool deterministic)
      : stream_(stream),
        ops_(stream),
        multiprocessors_(multiprocessors_of(current(stream))),
        matmul_(ops_),
        hopper_(cuda::hopper_gpu(stream.device_index())),
        attention_(ops_, hopper_, deterministic),
        counter_(stream.device().allocate(sizeof(unsigned), "a counter of the GPU operations")) {
    stream.zero({counter_.data(), {1}, DType::i32});
  }
  ~CudaOps() override {
    cudaSetDevice(stream_.device_index());
    cudaStreamSynchronize(stream_.native());  // what the operations use beside their tensors is in use until then
  }

  Stream& stream() override { return stream_; }
  // The scratch is the object's own: what it takes depends on the libraries' plans, and is known only when they are made.
  void set_workspace(Arena&) override {}

  void gather_matmul(const TensorParallel& tp, MatmulKind kind, const GatherMatmulArgs& args) override {
    matmul_.gather_matmul(tp, kind, args);
  }

  void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const MatmulScatterArgs& args) override {
    matmul_.matmul_scatter(tp, kind, args);
  }

  void weight_grad(const WeightGradArgs& args) override { matmul_.weight_grad(args); }

  void backward_scatter(const TensorParallel& tp, const BackwardScatterArgs& args) override {
    if (matmul_.backward_scatter_in_pieces(tp, args)) return;
    Ops::backward_scatter(tp, args);
  }

  void quantise(const QuantiseArgs& args) override {
    enqueue("quantise", [&](cudaStream_t native) {
      if (args.out.scales != Fp8Scales::tensor) return cuda::quantise_blocks(native, args.x, args.out);
      if (!args.measured) cuda::largest_magnitude(native, args.x, largest_of(args.out.scale), multiprocessors_);
      cuda::quantise(native, args.x, args.out);
    });
  }

  void fp8_matmul(const Fp8MatmulArgs& args) override { matmul_.fp8_matmul(args); }

  void fp8_matmul_scatter(const TensorParallel& tp, const Fp8MatmulArgs& args) override {
    matmul_.fp8_matmul_scatter(tp, args);
  }

  void gather(const TensorParallel& tp, const Tensor& shard, const Tensor& full) override {
    if (tp.sequence_parallel && tp.size() > 1) return tp.group->all_gather(stream_, shard, full);
    stream_.copy(full.data, shard.data, full.bytes());
  }

  void scatter_sum(const TensorParallel& tp, const Tensor& full, const Tensor& out) override {
    if (tp.sequence_parallel && tp.size() > 1) return tp.group->reduce_scatter(stream_, full, out);
    stream_.copy(out.data, full.data, out.bytes());
    if (tp.size() > 1) tp.group->all_reduce(stream_, out, Reduction::sum);
  }

  void embedding(const TensorParallel& tp, const Tensor& ids, const Tensor& table, std::int64_t first_id,
                 const Tensor& out) override {
    if (tp.size() == 1) return lookup(ids, table, first_id, out);
    if (tp.sequence_parallel) {
      Tensor full{nullptr, {ids.elements(), table.cols()}, out.dtype};
      full.data = scratch(full.bytes());
      lookup(ids, table, first_id, full);
      tp.group->reduce_scatter(stream_, full, out);
    } else {
      lookup(ids, table, first_id, out);
      tp.group->all_reduce(stream_, out, Reduction::sum);
    }
  }

  void embedding_grad(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) override {
    void* memory = scratch(cuda::embedding_grad_scratch(dy.rows()));
    enqueue("the embedding's gradient", [&](cudaStream_t native) {
      cuda::embedding_grad(native, {ids, dy, first_id, dtable}, multiprocessors_, memory);
    });
  }

  void rms_norm(const RmsNormArgs& args) override {
    enqueue("rms_norm", [&](cudaStream_t native) { cuda::rms_norm(native, args); });
  }

  void rms_norm_backward(const RmsNormBackwardArgs& args) override {
    void* memory = scratch(cuda::rms_norm_backward_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("rms_norm_backward", [&](cudaStream_t native) { cuda::rms_norm_backward(native, args, multiprocessors_, memory); });
  }

  void rotary(const SegmentShape& shape, const RotaryArgs& args) override {
    enqueue("rotary", [&](cudaStream_t native) { cuda::rotary(native, shape, args); });
  }

  void swiglu(const SwigluArgs& args) override {
    enqueue("swiglu", [&](cudaStream_t native) { cuda::swiglu(native, args); });
  }

  void swiglu_backward(const SwigluBackwardArgs& args) override {
    enqueue("swiglu_backward", [&](cudaStream_t native) { cuda::swiglu_backward(native, args); });
  }

  void layer_norm(const LayerNormArgs& args) override {
    enqueue("layer_norm", [&](cudaStream_t native) { cuda::layer_norm(native, args); });
  }

  void layer_norm_backward(const LayerNormBackwardArgs& args) override {
    void* memory = scratch(cuda::layer_norm_backward_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("layer_norm_backward", [&](cudaStream_t native) {
      if (cuda::takes_hopper_norm_backward(args, hopper_))
        return cuda::hopper_layer_norm_backward(native, args, hopper_, memory);
      cuda::layer_norm_backward(native, args, multiprocessors_, memory);
    });
  }

  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override {
    enqueue("gelu", [&](cudaStream_t native) { cuda::gelu(native, x, bias, y); });
  }

  void gelu_backward(const GeluBackwardArgs& args) override {
    void* memory = scratch(cuda::bias_grad_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("gelu_backward", [&](cudaStream_t native) { cuda::gelu_backward(native, args, multiprocessors_, memory); });
  }

  void add_bias(const Tensor& x, const Tensor& bias) override {
    enqueue("add_bias", [&](cudaStream_t native) { cuda::add_bias(native, x, bias); });
  }

  void bias_grad(const Tensor& dy, const Tensor& dbias) override {
    void* memory = scratch(cuda::bias_grad_scratch(dy.rows(), dy.cols(), multiprocessors_));
    enqueue("bias_grad", [&](cudaStream_t native) { cuda::bias_grad(native, dy, dbias, multiprocessors_, memory); });
  }

  void add_positions(const AddPositionsArgs& args) override {
    enqueue("add_positions", [&](cudaStream_t native) { cuda::add_positions(native, args); });
  }

  void positions_grad(const PositionsGradArgs& args) override {
    enqueue("positions_grad", [&](cudaStream_t native) { cuda::positions_grad(native, args); });
  }

  void dropout(const DropoutArgs& args) override {
    enqueue("dropout", [&](cudaStream_t native) { cuda::dropout(native, args); });
  }

  void attention(const SegmentShape& shape, const AttentionArgs& args) override { attention_.attention(shape, args); }

  void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) override {
    attention_.attention_backward(shape, args);
  }

  void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) override {
    attention_.cached_attention(shape, args);
  }

  void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) override {
    attention_.merge_attention(shape, args);
  }

  void copy_columns(const CopyColumnsArgs& args) override {
    enqueue("copy_columns", [&](cudaStream_t native) { cuda::copy_columns(native, args); });
  }

  void cross_entropy(const TensorParallel& tp, const CrossEntropyArgs& args) override { cross_entropy(tp, args, std::nullopt); }

  void cross_entropy_with_gradient(const TensorParallel& tp, const CrossEntropyArgs& args, float scale) override {
    // The gradient needs the sums of all ranks.
    if (tp.size() > 1 || !cuda::takes_cross_entropy_rows(args.logits, hopper_))
      return Ops::cross_entropy_with_gradient(tp, args, scale);
    cross_entropy(tp, args, scale);
  }

  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) override {
    enqueue("cross_entropy_backward", [&](cudaStream_t native) { cuda::cross_entropy_backward(native, args); });
  }

  void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) override {
    if (rows.elements() == 0) return;
    enqueue("counted_rows", [&](cudaStream_t native) { cuda::counted_rows(native, logits, targets, rows); });
  }

  void adamw(const AdamWArgs& args, const AdamW& settings) override {
    enqueue("adamw", [&](cudaStream_t native) { cuda::adamw(native, args, std::nullopt, settings); });
  }

  void round(const Tensor& source, const Tensor& target) override {
    enqueue("rounding weights", [&](cudaStream_t native) { cuda::add_residual(native, source, std::nullopt, target); });
  }

  void adamw_preview(const AdamWArgs& args, const AdamW& settings, const Tensor& result) override {
    enqueue("adamw_preview", [&](cudaStream_t native) { cuda::adamw_preview(native, args, result, settings); });
  }
  void adamw_rounded(const AdamWArgs& args, const AdamW& settings, const Tensor& rounded) override {
    enqueue("adamw", [&](cudaStream_t native) { cuda::adamw(native, args, rounded, settings); });
  }

  void square_sum(const Tensor& tensor, const Tensor& sum) override {
    void* memory = scratch(cuda::square_sum_scratch(tensor.elements()));
    enqueue("square_sum", [&](cudaStream_t native) {
      cuda::square_sum(native, tensor, sum, memory, static_cast<unsigned*>(counter_.data()));
    });
  }

  void square_sum_each(const std::vector<SquareSum>& sums) override {
    const std::span<const SquareSum> all(sums);
    for (std::size_t first = 0; first < all.size(); first += cuda::most_square_sums) {
      const auto some = all.subspan(first, std::min(cuda::most_square_sums, all.size() - first));
      void* memory = scratch(cuda::square_sum_each_scratch(some));
      enqueue("square_sum", [&](cudaStream_t native) { cuda::square_sum_each(native, some, memory); });
    }
  }

  void square_sums(const Tensor& tensor, const Tensor& sums) override {
    enqueue("square_sums", [&](cudaStream_t native) { cuda::square_sums(native, tensor, sums); });
  }

  void add(const Tensor& target, const Tensor& source) override {
    enqueue("add", [&](cudaStream_t native) { cuda::add(native, target, source); });
  }

 private:
  CudaStream& stream_;
  cuda::OpsStream ops_;
  int multiprocessors_;
  cuda::ParallelMatmul matmul_;
  cuda::HopperGpu hopper_;
  cuda::AttentionOps attention_;
  Buffer counter_;

  template <class Launch>
  void enqueue(const char* what, Launch launch) {
    ops_.enqueue(what, launch);
  }

  void* scratch(std::size_t bytes) { return ops_.scratch(bytes); }

  // scale: the gradient's, which takes the logits' place; else they stay.
  void cross_entropy(const TensorParallel& tp, const CrossEntropyArgs& args, std::optional<float> scale) {
    const std::int64_t tokens = args.logits.rows();
    const Tensor stats{scratch(static_cast<std::size_t>(4 * tokens) * sizeof(float)), {4, tokens}, DType::f32};
    // The sums and the targets' logits are neighbours, so that one all-reduce adds both.
    const auto row = [&](std::int64_t index) { return static_cast<float*>(stats.data) + index * tokens; };
    float* const own_largest = row(1);
    const cuda::LossSums found{.largest = row(0), .sum = row(2), .target_logit = row(3)};
    enqueue("cross_entropy", [&](cudaStream_t native) {
      if (tp.size() == 1 && cuda::takes_cross_entropy_rows(args.logits, hopper_))
        return cuda::cross_entropy_rows(native, args, found, scale);
      cuda::cross_entropy_local(native, args, found);
    });
    if (tp.size() > 1) {
      stream_.copy(own_largest, found.largest, static_cast<std::size_t>(tokens) * sizeof(float));
      tp.group->all_reduce(stream_, {found.largest, {tokens}, DType::f32}, Reduction::max);
      enqueue("cross_entropy", [&](cudaStream_t native) { cuda::cross_entropy_rescale(native, tokens, own_largest, found); });
      tp.group->all_reduce(stream_, {found.sum, {2 * tokens}, DType::f32}, Reduction::sum);
    }
    enqueue("cross_entropy", [&](cudaStream_t native) { cuda::cross_entropy_loss(native, args, found); });
  }

  void lookup(const Tensor& ids, const Tensor& table, std::int64_t first_id, const Tensor& out) {
    enqueue("embedding", [&](cudaStream_t native) { cuda::embedding(native, ids, table, first_id, out); });
  }
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(Stream& stream, bool deterministic) {
  return std::make_unique<CudaOps>(cuda_stream(stream), deterministic);
}

}  // namespace pipetrain
