// The GPU's operations: each allocates its scratch and enqueues its kernels (kernels.hpp). Shapes have the letters of
// ops/ops.hpp: T tokens, Tr this rank's rows of them, H hidden size, K x N matrices, V vocabulary rows, Hq and Hkv heads of
// size D. Matrix products are in parallel_matmul.cpp, attention is in attention_ops.cpp.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>

#include "core/buffer.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "ops/cuda/attention/latent_kernels.hpp"
#include "ops/cuda/dispatch/attention_ops.hpp"
#include "ops/cuda/dispatch/expert_ops.hpp"
#include "ops/cuda/dispatch/tensor_steps.hpp"
#include "ops/cuda/experts/experts.hpp"
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

class CudaOps final : public Ops {
 public:
  CudaOps(CudaStream& stream, bool deterministic)
      : stream_(stream),
        ops_(stream),
        multiprocessors_(multiprocessors_of(current(stream))),
        matmul_(ops_),
        hopper_(cuda::hopper_gpu(stream.device_index())),
        attention_(ops_, hopper_, deterministic),
        experts_(ops_, matmul_, hopper_),
        tensor_steps_(ops_, matmul_),
        counter_(stream.device().allocate(sizeof(unsigned), "a counter of the GPU operations")) {
    stream.zero({counter_.data(), {1}, DType::i32});
  }
  ~CudaOps() override {
    cudaSetDevice(stream_.device_index());
    cudaStreamSynchronize(stream_.native());  // operations in flight still use the scratch
  }

  Stream& stream() override { return stream_; }
  // This object owns its scratch, because its size depends on the libraries' plans and is known only once they are made.
  void set_workspace(Arena&) override {}
  void run(const Operation& operation) override {
    std::visit([this](const auto* args) { compute(*args); }, operation);
  }

 private:
  void compute(const GatherMatmulArgs& args) { matmul_.gather_matmul(args); }
  void compute(const MatmulScatterArgs& args) { matmul_.matmul_scatter(args); }
  void compute(const WeightGradArgs& args) { matmul_.weight_grad(args); }
  void compute(const BackwardScatterArgs& args) {
    if (matmul_.backward_scatter_in_pieces(args)) return;
    weight_grad(args.weight_grad());
    matmul_scatter(args.matmul_scatter());
  }
  void compute(const QuantiseArgs& args) {
    enqueue("quantise", [&](cudaStream_t native) {
      if (args.out.scales != Fp8Scales::tensor) return cuda::quantise_blocks(native, args.x, args.out);
      if (!args.measured) cuda::largest_magnitude(native, args, multiprocessors_);
      args.used.shape.rank() > 0 ? cuda::quantise_rows(native, args) : cuda::quantise(native, args.x, args.out);
    });
  }
  void compute(const Fp8MatmulArgs& args) { matmul_.fp8_matmul(args); }
  void compute(const DequantiseArgs& args) { enqueue("dequantise", cuda::dequantise, args); }
  void compute(const DrawNormalsArgs& args) { enqueue("draw_normals", cuda::draw_normals, args); }
  void compute(const QuantiseNf4Args& args) { enqueue("quantise_nf4", cuda::quantise_nf4, args); }
  void compute(const CodeNf4ScalesArgs& args) {
    void* memory = scratch(cuda::code_nf4_scales_scratch(args.out.layout));
    enqueue("code_nf4_scales", cuda::code_nf4_scales, args, memory);
  }

  void compute(const GatherArgs& args) {
    if (args.tp.sequence_parallel && args.tp.size() > 1) return args.tp.group->all_gather(stream_, args.shard, args.full);
    copy(args.shard, args.full);
  }
  void compute(const ScatterSumArgs& args) {
    if (args.tp.sequence_parallel && args.tp.size() > 1) return args.tp.group->reduce_scatter(stream_, args.full, args.out);
    copy(args.full, args.out);
    if (args.tp.size() > 1) args.tp.group->all_reduce(stream_, args.out, Reduction::sum);
  }
  // Every rank adds zeros to the slices that it does not hold.
  void compute(const SumCopiesArgs& args) {
    if (args.tp.size() == 1) return;
    Tensor all{nullptr, {args.slices, args.values.elements()}, DType::f32};
    all.data = scratch(all.bytes());
    const Tensor own = all.row_range(args.slice, args.slice + 1).reshaped(args.values.shape);
    zero(all);
    copy(args.values, own);
    args.tp.group->all_reduce(stream_, all, Reduction::sum);
    copy(own, args.values);
  }

  void compute(const EmbeddingArgs& args) {
    const TensorParallel& tp = args.tp;
    if (tp.size() == 1) return enqueue("embedding", cuda::embedding, args, args.out);
    if (tp.sequence_parallel) {
      Tensor full{nullptr, {args.ids.elements(), args.table.cols()}, args.out.dtype};
      full.data = scratch(full.bytes());
      enqueue("embedding", cuda::embedding, args, full);
      tp.group->reduce_scatter(stream_, full, args.out);
    } else {
      enqueue("embedding", cuda::embedding, args, args.out);
      tp.group->all_reduce(stream_, args.out, Reduction::sum);
    }
  }
  void compute(const EmbeddingGradArgs& args) {
    void* memory = scratch(cuda::embedding_grad_scratch(args.dy.rows()));
    enqueue("the embedding's gradient", cuda::embedding_grad, args, multiprocessors_, memory);
  }

  void compute(const RmsNormArgs& args) { enqueue("rms_norm", cuda::rms_norm, args); }

  void compute(const RmsNormBackwardArgs& args) {
    void* memory = scratch(cuda::rms_norm_backward_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("rms_norm_backward", cuda::rms_norm_backward, args, multiprocessors_, memory);
  }

  void compute(const OfSegments<RotaryArgs>& of) { enqueue("rotary", cuda::rotary, of.shape, of.args); }
  void compute(const OfSegments<HeadNormsArgs>& of) { enqueue("head_norms", cuda::head_norms, of.shape, of.args); }
  void compute(const OfSegments<HeadNormsBackwardArgs>& of) {
    void* memory = scratch(cuda::head_norms_backward_scratch(of.shape, multiprocessors_));
    enqueue("head_norms_backward", cuda::head_norms_backward, of.shape, of.args, multiprocessors_, memory);
  }
  void compute(const SwigluArgs& args) { enqueue("swiglu", cuda::swiglu, args); }
  void compute(const SwigluBackwardArgs& args) { enqueue("swiglu_backward", cuda::swiglu_backward, args); }
  void compute(const ScaleArgs& args) { enqueue("scale", cuda::scale, args); }
  void compute(const RouteArgs& args) { experts_.route(args); }
  void compute(const RouteBackwardArgs& args) { experts_.route_backward(args); }
  void compute(const CountExpertsArgs& args) { experts_.count_experts(args); }
  void compute(const GatherRowsArgs& args) { experts_.gather_rows(args); }
  void compute(const SumRowsArgs& args) { experts_.sum_rows(args); }
  void compute(const WeighRowsArgs& args) { experts_.weigh_rows(args); }
  void compute(const WeighedSwigluBackwardArgs& args) { experts_.weighed_swiglu_backward(args); }
  void compute(const GroupedMatmulArgs& args) { experts_.grouped_matmul(args); }
  void compute(const GroupedFp8MatmulArgs& args) { experts_.grouped_fp8_matmul(args); }
  void compute(const GroupedWeightGradArgs& args) { experts_.grouped_weight_grad(args); }
  void compute(const SendTokensArgs& args) { experts_.send_tokens(args); }
  void compute(const SortReceivedArgs& args) { experts_.sort_received(args); }
  void compute(const ExchangeRowsArgs& args) { experts_.exchange_rows(args); }
  void compute(const SigmoidArgs& args) { enqueue("sigmoid", cuda::sigmoid, args); }
  void compute(const SigmoidBackwardArgs& args) { enqueue("sigmoid_backward", cuda::sigmoid_backward, args); }
  void compute(const SinksArgs& args) { enqueue("add_sinks", cuda::add_sinks, args); }
  void compute(const SinksBackwardArgs& args) { enqueue("sinks_backward", cuda::sinks_backward, args); }
  void compute(const OfSegments<LatentHeadsArgs>& of) { enqueue("latent_heads", cuda::latent_heads, of.shape, of.args); }
  void compute(const OfSegments<LatentHeadsBackwardArgs>& of) {
    enqueue("latent_heads_backward", cuda::latent_heads_backward, of.shape, of.args);
  }
  void compute(const OfSegments<CachedLatentAttentionArgs>& of) { attention_.cached_latent_attention(of.shape, of.args); }
  void compute(const ExpertBiasArgs& args) { enqueue("add_expert_bias", cuda::add_expert_bias, args); }
  void compute(const ExpertBiasBackwardArgs& args) { enqueue("expert_bias_backward", cuda::expert_bias_backward, args); }
  void compute(const LayerNormArgs& args) { enqueue("layer_norm", cuda::layer_norm, args); }

  void compute(const LayerNormBackwardArgs& args) {
    void* memory = scratch(cuda::layer_norm_backward_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("layer_norm_backward", [&](cudaStream_t native) {
      if (cuda::takes_hopper_norm_backward(args, hopper_))
        return cuda::hopper_layer_norm_backward(native, args, hopper_, memory);
      cuda::layer_norm_backward(native, args, multiprocessors_, memory);
    });
  }

  void compute(const GeluArgs& args) { enqueue("gelu", cuda::gelu, args.x, args.bias, args.y); }

  void compute(const GeluBackwardArgs& args) {
    void* memory = scratch(cuda::bias_grad_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("gelu_backward", cuda::gelu_backward, args, multiprocessors_, memory);
  }

  void compute(const AddBiasArgs& args) { enqueue("add_bias", cuda::add_bias, args.x, args.bias); }

  void compute(const BiasGradArgs& args) {
    void* memory = scratch(cuda::bias_grad_scratch(args.dy.rows(), args.dy.cols(), multiprocessors_));
    enqueue("bias_grad", cuda::bias_grad, args.dy, args.dbias, multiprocessors_, memory);
  }

  void compute(const AddPositionsArgs& args) { enqueue("add_positions", cuda::add_positions, args); }
  void compute(const PositionsGradArgs& args) { enqueue("positions_grad", cuda::positions_grad, args); }
  void compute(const DropoutArgs& args) { enqueue("dropout", cuda::dropout, args); }

  void compute(const OfSegments<AttentionArgs>& of) { attention_.attention(of.shape, of.args); }
  void compute(const OfSegments<AttentionBackwardArgs>& of) { attention_.attention_backward(of.shape, of.args); }
  void compute(const OfSegments<CachedAttentionArgs>& of) { attention_.cached_attention(of.shape, of.args); }
  void compute(const OfSegments<MergeAttentionArgs>& of) { attention_.merge_attention(of.shape, of.args); }

  void compute(const CopyColumnsArgs& args) { enqueue("copy_columns", cuda::copy_columns, args); }
  void compute(const JoinBlocksArgs& args) { enqueue("join_blocks", cuda::join_blocks, args); }
  void compute(const AddBlocksArgs& args) { enqueue("add_blocks", cuda::add_blocks, args); }

  void compute(const RowDotsArgs& args) { enqueue("row_dots", cuda::row_dots, args); }
  void compute(const SplitNormArgs& args) { enqueue("split_norm", cuda::split_norm, args); }
  void compute(const SplitNormBackwardArgs& args) {
    void* memory = scratch(cuda::split_norm_backward_scratch(args.x.rows(), args.x.cols(), multiprocessors_));
    enqueue("split_norm_backward", cuda::split_norm_backward, args, multiprocessors_, memory);
  }

  void compute(const CrossEntropyArgs& args) {
    // The gradient needs the sums of all ranks.
    const bool at_once = args.tp.size() == 1 && cuda::takes_cross_entropy_rows(args.logits, hopper_);
    find_losses(args, at_once);
    if (args.gradient_scale && !at_once) cross_entropy_backward(args.backward());
  }
  // at_once: the logits are overwritten with their gradient, if it is wanted, in the same pass; otherwise they stay.
  void find_losses(const CrossEntropyArgs& args, bool at_once) {
    const TensorParallel& tp = args.tp;
    const std::int64_t tokens = args.logits.rows();
    const Tensor stats{scratch(static_cast<std::size_t>(4 * tokens) * sizeof(float)), {4, tokens}, DType::f32};
    // The sums and the targets' logits are adjacent, so that one all-reduce adds both.
    const auto row = [&](std::int64_t index) { return static_cast<float*>(stats.data) + index * tokens; };
    float* const own_largest = row(1);
    const cuda::LossSums found{.largest = row(0), .sum = row(2), .target_logit = row(3)};
    enqueue("cross_entropy", [&](cudaStream_t native) {
      at_once ? cuda::cross_entropy_rows(native, args, found, args.gradient_scale)
              : cuda::cross_entropy_local(native, args, found);
    });
    if (tp.size() > 1) {
      stream_.copy(own_largest, found.largest, static_cast<std::size_t>(tokens) * sizeof(float));
      tp.group->all_reduce(stream_, {found.largest, {tokens}, DType::f32}, Reduction::max);
      enqueue("cross_entropy", cuda::cross_entropy_rescale, tokens, own_largest, found);
      tp.group->all_reduce(stream_, {found.sum, {2 * tokens}, DType::f32}, Reduction::sum);
    }
    enqueue("cross_entropy", cuda::cross_entropy_loss, args, found);
  }
  void compute(const CrossEntropyBackwardArgs& args) { enqueue("cross_entropy_backward", cuda::cross_entropy_backward, args); }
  void compute(const CountedRowsArgs& args) {
    if (args.rows.elements() > 0) enqueue("counted_rows", cuda::counted_rows, args.logits, args.targets, args.rows);
  }
  void compute(const ContextTargetsArgs& args) { enqueue("context_targets", cuda::context_targets, args); }
  void compute(const SequenceSumsArgs& args) { enqueue("sequence_sums", cuda::sequence_sums, args); }
  void compute(const PreferenceScalesArgs& args) { enqueue("preference_scales", cuda::preference_scales, args); }

  void compute(const CopyArgs& args) { stream_.copy(args.target.data, args.source.data, args.source.bytes()); }
  void compute(const ZeroArgs& args) { stream_.zero(args.tensor); }
  void compute(const UpdateArgs& args) { enqueue("the optimizer's update", cuda::update, args); }
  void compute(const EightBitUpdateArgs& args) { enqueue("the optimizer's update in 8 bits", cuda::eight_bit_update, args); }
  void compute(const TensorUpdateArgs& args) { tensor_steps_.update(args); }
  void compute(const SettleMomentsArgs& args) { tensor_steps_.settle(args); }
  void compute(const RoundArgs& args) {
    enqueue("rounding weights", cuda::add_residual, args.source, std::optional<Tensor>(), args.target);
  }
  void compute(const SquareSumArgs& args) {
    void* memory = scratch(cuda::square_sum_scratch(args.tensor.elements()));
    enqueue("square_sum", cuda::square_sum, args.tensor, args.sum, memory, static_cast<unsigned*>(counter_.data()));
  }
  void compute(const SquareSumEachArgs& args) {
    for (std::size_t first = 0; first < args.sums.size(); first += cuda::most_square_sums) {
      const auto some = args.sums.subspan(first, std::min(cuda::most_square_sums, args.sums.size() - first));
      enqueue("square_sum", cuda::square_sum_each, some, scratch(cuda::square_sum_each_scratch(some)));
    }
  }
  void compute(const SquareSumsArgs& args) { enqueue("square_sums", cuda::square_sums, args.tensor, args.sums); }
  void compute(const AddArgs& args) { enqueue("add", cuda::add, args.target, args.source); }

  CudaStream& stream_;
  cuda::OpsStream ops_;
  int multiprocessors_;
  cuda::ParallelMatmul matmul_;
  cuda::HopperGpu hopper_;
  cuda::AttentionOps attention_;
  cuda::ExpertOps experts_;
  cuda::TensorSteps tensor_steps_;
  Buffer counter_;

  // Calls kernel(native stream, args...); an error names the operation as `what`.
  template <class Kernel, class... Args>
  void enqueue(const char* what, const Kernel& kernel, const Args&... args) {
    ops_.enqueue(what, [&](cudaStream_t native) { kernel(native, args...); });
  }

  void* scratch(std::size_t bytes) { return ops_.scratch(bytes); }
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(Stream& stream, bool deterministic) {
  return std::make_unique<CudaOps>(cuda_stream(stream), deterministic);
}

}  // namespace pipetrain
