#include "ops/cuda/attention/attention_cudnn.hpp"

#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

namespace fe = cudnn_frontend;

// The tensors of both graphs. Pointers are passed in this order.
enum Id : std::int64_t { q = 1, k, v, o, stats, d_o, d_q, d_k, d_v };

struct Plan {
  fe::graph::Graph graph;
  std::size_t workspace = 0;
};

// The shapes and strides of queries and keys: the columns of their matrices, and the rows of each sequence's keys.
struct Layout {
  SegmentShape shape;
  std::int64_t q_cols, kv_cols, kv_rows;

  bool causal() const { return !shape.sees_all_keys(); }
};

template <class Args>
Layout layout_of(const SegmentShape& shape, const Args& args) {
  Layout layout{shape, args.q.cols(), args.kv.cols(), args.kv.rows() / shape.batch};
  if (!shape.is_windowed()) layout.shape.window = 0;
  return layout;
}

using Key = std::tuple<bool, bool, DType, float, std::array<std::int64_t, 11>>;

Key key_of(bool backward, DType dtype, const Layout& of) {
  const SegmentShape& s = of.shape;
  return {backward,
          of.causal(),
          dtype,
          s.scale,
          {s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.head_dim, s.value_dim(), of.q_cols, of.kv_cols, of.kv_rows,
           s.window}};
}

std::string text_of(const SegmentShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.queries) + " tokens on " + std::to_string(s.keys) + ", " +
         std::to_string(s.heads) + " heads on " + std::to_string(s.kv_heads) + " of size " + std::to_string(s.head_dim) +
         (s.value_dim() == s.head_dim ? "" : " with values of size " + std::to_string(s.value_dim()));
}

void* column_at(const Tensor& matrix, std::int64_t column) {
  return static_cast<char*>(matrix.data) + static_cast<std::size_t>(column) * size_of(matrix.dtype);
}
// The addresses of the first key head and of the first value head in kv or dkv.
struct KeyValueColumns {
  void *keys, *values;
};
KeyValueColumns key_value_columns(const SegmentShape& s, const Tensor& kv) {
  const std::int64_t first = kv.cols() - s.key_value_cols();
  return {column_at(kv, first), column_at(kv, first + s.kv_heads * s.head_dim)};
}

// The layout of [batch, heads, rows, dim] in memory: each sequence has `stride` rows of `cols` columns, of which
// the first `rows` count.
struct GraphRows {
  std::int64_t heads, rows, stride, cols, dim;
};

fe::graph::Tensor_attributes tensor(Id id, const char* name, const SegmentShape& s, const GraphRows& at) {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_name(name)
      .set_dim({s.batch, at.heads, at.rows, at.dim})
      .set_stride({at.stride * at.cols, at.dim, at.cols, 1});
}

GraphRows queries_of(const Layout& of) {
  return {of.shape.heads, of.shape.queries, of.shape.queries, of.q_cols, of.shape.head_dim};
}
GraphRows keys_of(const Layout& of) { return {of.shape.kv_heads, of.shape.keys, of.kv_rows, of.kv_cols, of.shape.head_dim}; }
GraphRows values_of(const Layout& of) {
  return {of.shape.kv_heads, of.shape.keys, of.kv_rows, of.kv_cols, of.shape.value_dim()};
}
GraphRows outputs_of(const SegmentShape& s) { return {s.heads, s.queries, s.queries, s.output_cols(), s.value_dim()}; }

fe::graph::Tensor_attributes statistics(const SegmentShape& s) {
  return fe::graph::Tensor_attributes()
      .set_uid(stats)
      .set_name("stats")
      .set_dim({s.batch, s.heads, s.queries, 1})
      .set_stride({s.heads * s.queries, s.queries, 1, 1})
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

  void check(fe::error_t error, const char* what, const SegmentShape& shape) const {
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

  Plan& plan(bool backward, DType dtype, const Layout& layout) {
    auto& plan = plans[key_of(backward, dtype, layout)];
    if (plan) return *plan;
    auto made = std::make_unique<Plan>();
    made->graph.set_io_data_type(dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (backward) {
      describe_backward(made->graph, layout);
    } else {
      describe_forward(made->graph, layout);
    }
    check(made->graph.build(handle, {fe::HeurMode_t::A}), backward ? "plan the backward of" : "plan", layout.shape);
    std::int64_t bytes = 0;
    check(made->graph.get_workspace_size(bytes), "size", layout.shape);
    made->workspace = static_cast<std::size_t>(bytes);
    plan = std::move(made);
    return *plan;
  }

  static float scale(const SegmentShape& s) { return static_cast<float>(s.exact_score_scale()); }

  void describe_forward(fe::graph::Graph& graph, const Layout& layout) const {
    const SegmentShape& s = layout.shape;
    const auto diagonal = s.keys == s.queries ? fe::DiagonalAlignment_t::TOP_LEFT : fe::DiagonalAlignment_t::BOTTOM_RIGHT;
    auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(scale(s));
    if (layout.causal()) attributes.set_diagonal_alignment(diagonal).set_diagonal_band_right_bound(0);
    if (s.window > 0) attributes.set_diagonal_band_left_bound(s.window);
    auto [output, log_sums] =
        graph.sdpa(graph.tensor(tensor(q, "q", s, queries_of(layout))), graph.tensor(tensor(k, "k", s, keys_of(layout))),
                   graph.tensor(tensor(v, "v", s, values_of(layout))), attributes);
    describe_output(output, tensor(o, "o", s, outputs_of(s)));
    describe_output(log_sums, statistics(s));
    log_sums->set_data_type(fe::DataType_t::FLOAT);
  }

  void describe_backward(fe::graph::Graph& graph, const Layout& layout) const {
    const SegmentShape& s = layout.shape;
    const GraphRows queries = queries_of(layout), keys = keys_of(layout), values = values_of(layout), outputs = outputs_of(s);
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention_backward")
                          .set_attn_scale(scale(s))
                          .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                          .set_diagonal_band_right_bound(0)
                          .set_deterministic_algorithm(deterministic);
    if (s.window > 0) attributes.set_diagonal_band_left_bound(s.window);
    auto [dq, dk, dv] =
        graph.sdpa_backward(graph.tensor(tensor(q, "q", s, queries)), graph.tensor(tensor(k, "k", s, keys)),
                            graph.tensor(tensor(v, "v", s, values)), graph.tensor(tensor(o, "o", s, outputs)),
                            graph.tensor(tensor(d_o, "do", s, outputs)), graph.tensor(statistics(s)), attributes);
    describe_output(dq, tensor(d_q, "dq", s, queries));
    describe_output(dk, tensor(d_k, "dk", s, keys));
    describe_output(dv, tensor(d_v, "dv", s, values));
  }

  template <std::size_t N>
  void execute(Plan& plan, std::array<void*, N> pointers, const SegmentShape& shape, const Scratch& scratch) {
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

void CudnnAttention::forward(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args,
                             const Scratch& scratch) {
  state_->set_stream(stream);
  Plan& plan = state_->plan(false, args.q.dtype, layout_of(shape, args));
  const auto [keys, values] = key_value_columns(shape, args.kv);
  state_->execute(plan, std::array<void*, 5>{args.q.data, keys, values, args.out.data, args.log_sum_exp.data}, shape, scratch);
}

void CudnnAttention::backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args,
                              const Scratch& scratch) {
  state_->set_stream(stream);
  Plan& plan = state_->plan(true, args.q.dtype, layout_of(shape, args));
  const auto [keys, values] = key_value_columns(shape, args.kv);
  const auto [key_grads, value_grads] = key_value_columns(shape, args.dkv);
  state_->execute(plan,
                  std::array<void*, 9>{args.q.data, keys, values, args.out.data, args.log_sum_exp.data, args.dout.data,
                                       args.dq.data, key_grads, value_grads},
                  shape, scratch);
}

}  // namespace pipetrain::cuda
