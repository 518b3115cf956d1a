#include "ops/cuda/attention_cudnn.hpp"

#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"

namespace pipetrain::cuda {
namespace {

namespace fe = cudnn_frontend;

// The tensors of both graphs. Pointers are handed over in this order.
enum Id : std::int64_t { q = 1, k, v, o, stats, d_o, d_q, d_k, d_v };

struct Plan {
  fe::graph::Graph graph;
  std::size_t workspace = 0;
};

using Key = std::tuple<bool, DType, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

Key key_of(bool backward, DType dtype, const AttentionShape& s) {
  return {backward, dtype, s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim};
}

std::string text_of(const AttentionShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.sequence) + " tokens, " + std::to_string(s.heads) + " heads on " +
         std::to_string(s.kv_heads) + " of size " + std::to_string(s.head_dim);
}

// The bytes of a packed matrix [T, (Hq + 2 Hkv) D] from which head `head` begins.
void* head_at(const Tensor& packed, const AttentionShape& shape, std::int64_t head) {
  return static_cast<char*>(packed.data) + static_cast<std::size_t>(head * shape.head_dim) * size_of(packed.dtype);
}

// Describes [batch, heads, sequence, D] as it lies in a matrix of `cols` columns a token.
fe::graph::Tensor_attributes tensor(Id id, const char* name, const AttentionShape& s, std::int64_t heads, std::int64_t cols) {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_name(name)
      .set_dim({s.batch, heads, s.sequence, s.head_dim})
      .set_stride({s.sequence * cols, s.head_dim, cols, 1});
}

fe::graph::Tensor_attributes statistics(const AttentionShape& s) {
  return fe::graph::Tensor_attributes()
      .set_uid(stats)
      .set_name("stats")
      .set_dim({s.batch, s.heads, s.sequence, 1})
      .set_stride({s.heads * s.sequence, s.sequence, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

void describe_output(const std::shared_ptr<fe::graph::Tensor_attributes>& output, const fe::graph::Tensor_attributes& as) {
  output->set_output(true).set_uid(as.get_uid()).set_dim(as.get_dim()).set_stride(as.get_stride());
}

}  // namespace

struct CudnnAttention::State {
  int device;
  bool deterministic;
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans;

  void check(fe::error_t error, const char* what, const AttentionShape& shape) const {
    if (error.is_good()) return;
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device) + ": cuDNN cannot " + what + " attention of " +
                                            text_of(shape) + ": " + error.get_message());
  }

  void set_stream(cudaStream_t wanted) {
    if (stream == wanted) return;
    if (cudnnSetStream(handle, wanted) != CUDNN_STATUS_SUCCESS) {
      throw Error(ErrorKind::peer_lost, "cuda:" + std::to_string(device) + ": cuDNN does not take the stream");
    }
    stream = wanted;
  }

  Plan& plan(bool backward, DType dtype, const AttentionShape& shape) {
    auto& plan = plans[key_of(backward, dtype, shape)];
    if (plan) return *plan;
    auto made = std::make_unique<Plan>();
    made->graph.set_io_data_type(dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (backward) {
      describe_backward(made->graph, shape);
    } else {
      describe_forward(made->graph, shape);
    }
    check(made->graph.build(handle, {fe::HeurMode_t::A}), backward ? "plan the backward of" : "plan", shape);
    std::int64_t bytes = 0;
    check(made->graph.get_workspace_size(bytes), "size", shape);
    made->workspace = static_cast<std::size_t>(bytes);
    plan = std::move(made);
    return *plan;
  }

  static float scale(const AttentionShape& s) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_dim))); }

  void describe_forward(fe::graph::Graph& graph, const AttentionShape& s) const {
    const std::int64_t cols = s.packed_cols();
    auto [output, log_sums] =
        graph.sdpa(graph.tensor(tensor(q, "q", s, s.heads, cols)), graph.tensor(tensor(k, "k", s, s.kv_heads, cols)),
                   graph.tensor(tensor(v, "v", s, s.kv_heads, cols)),
                   fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_attn_scale(scale(s))
                       .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                       .set_diagonal_band_right_bound(0));
    describe_output(output, tensor(o, "o", s, s.heads, s.heads * s.head_dim));
    describe_output(log_sums, statistics(s));
    log_sums->set_data_type(fe::DataType_t::FLOAT);
  }

  void describe_backward(fe::graph::Graph& graph, const AttentionShape& s) const {
    const std::int64_t cols = s.packed_cols(), out_cols = s.heads * s.head_dim;
    auto [dq, dk, dv] = graph.sdpa_backward(
        graph.tensor(tensor(q, "q", s, s.heads, cols)), graph.tensor(tensor(k, "k", s, s.kv_heads, cols)),
        graph.tensor(tensor(v, "v", s, s.kv_heads, cols)), graph.tensor(tensor(o, "o", s, s.heads, out_cols)),
        graph.tensor(tensor(d_o, "do", s, s.heads, out_cols)), graph.tensor(statistics(s)),
        fe::graph::SDPA_backward_attributes()
            .set_name("attention_backward")
            .set_attn_scale(scale(s))
            .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
            .set_diagonal_band_right_bound(0)
            .set_deterministic_algorithm(deterministic));
    describe_output(dq, tensor(d_q, "dq", s, s.heads, cols));
    describe_output(dk, tensor(d_k, "dk", s, s.kv_heads, cols));
    describe_output(dv, tensor(d_v, "dv", s, s.kv_heads, cols));
  }

  template <std::size_t N>
  void execute(Plan& plan, std::array<void*, N> pointers, const AttentionShape& shape, const Scratch& scratch) {
    void* workspace = scratch(plan.workspace);
    check(plan.graph.execute(handle, pointers.data(), static_cast<int>(N), workspace), "run", shape);
  }
};

CudnnAttention::CudnnAttention(int device, bool deterministic) : state_(std::make_unique<State>()) {
  state_->device = device;
  state_->deterministic = deterministic;
  const cudnnStatus_t status = cudnnCreate(&state_->handle);
  if (status != CUDNN_STATUS_SUCCESS) {
    throw Error(ErrorKind::unavailable,
                "cuda:" + std::to_string(device) + ": cuDNN does not start: " + cudnnGetErrorString(status));
  }
}

CudnnAttention::~CudnnAttention() {
  state_->plans.clear();
  cudnnDestroy(state_->handle);
}

void CudnnAttention::forward(cudaStream_t stream, const AttentionShape& shape, const AttentionArgs& args,
                             const Scratch& scratch) {
  state_->set_stream(stream);
  Plan& plan = state_->plan(false, args.qkv.dtype, shape);
  state_->execute(
      plan,
      std::array<void*, 5>{args.qkv.data, head_at(args.qkv, shape, shape.heads),
                           head_at(args.qkv, shape, shape.heads + shape.kv_heads), args.out.data, args.log_sum_exp.data},
      shape, scratch);
}

void CudnnAttention::backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args,
                              const Scratch& scratch) {
  state_->set_stream(stream);
  Plan& plan = state_->plan(true, args.qkv.dtype, shape);
  const std::int64_t key_head = shape.heads, value_head = shape.heads + shape.kv_heads;
  state_->execute(plan,
                  std::array<void*, 9>{args.qkv.data, head_at(args.qkv, shape, key_head), head_at(args.qkv, shape, value_head),
                                       args.out.data, args.log_sum_exp.data, args.dout.data, args.dqkv.data,
                                       head_at(args.dqkv, shape, key_head), head_at(args.dqkv, shape, value_head)},
                  shape, scratch);
}

}  // namespace pipetrain::cuda
