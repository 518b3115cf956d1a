// Products in bf16 and f16 by oneDNN. Restricted to one thread, oneDNN chooses its matmul by shapes, strides,
// types and processor alone, so that equal tiles have equal bits.
#include <array>
#include <dnnl.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "ops/cpu/half_gemm.hpp"
#include "ops/cpu/library_memory.hpp"
#include "ops/cpu/single_threaded.hpp"
#include "ops/half_products.hpp"

namespace pipetrain {
namespace {

using cpu::HalfMatrix;
using cpu::HalfProduct;
using dnnl::memory;

memory::data_type onednn_type(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : type == DType::f16 ? memory::data_type::f16 : memory::data_type::f32;
}

// oneDNN 2 describes an operation before it looks for an implementation; oneDNN 3 does both at once.
template <class Matmul>
typename Matmul::primitive_desc find(const dnnl::engine& engine, const std::array<memory::desc, 3>& abc,
                                     const dnnl::primitive_attr& attributes) {
  const auto& [a, b, c] = abc;
  if constexpr (requires { typename Matmul::desc; }) {
    return typename Matmul::primitive_desc(typename Matmul::desc(a, b, c), attributes, engine);
  } else {
    return typename Matmul::primitive_desc(engine, a, b, c, attributes);
  }
}

memory::desc describe(std::int64_t rows, std::int64_t cols, const HalfMatrix& matrix, DType type) {
  const memory::dims strides = matrix.transposed ? memory::dims{1, matrix.stride} : memory::dims{matrix.stride, 1};
  return {{rows, cols}, onednn_type(type), strides};
}

// A product's implementation, for one thread.
class Matmul {
 public:
  Matmul(const dnnl::engine& engine, const HalfProduct& of)
      : engine_(engine),
        a_(describe(of.m, of.k, of.a, of.type)),
        b_(describe(of.k, of.n, of.b, of.type)),
        c_({of.m, of.n}, onednn_type(of.c_type), memory::dims{of.c_stride, 1}) {
    dnnl::post_ops sum;
    if (of.accumulate) sum.append_sum(1);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(sum);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto found = find<dnnl::matmul>(engine_, {a_, b_, c_}, attributes);
    name_ = found.impl_info_str();
    scratch_ = found.scratchpad_desc();
    matmul_ = dnnl::matmul(found);
  }

  const std::string& name() const { return name_; }

  // scratch: memory of the calling thread.
  void run(dnnl::stream& stream, const HalfProduct& of, std::vector<unsigned char>& scratch) const {
    constexpr std::size_t alignment = 64;
    const std::size_t bytes = scratch_.get_size();
    if (scratch.size() < bytes + alignment) scratch.resize(bytes + alignment);
    auto* const aligned =
        scratch.data() + (alignment - reinterpret_cast<std::uintptr_t>(scratch.data()) % alignment) % alignment;
    matmul_.execute(stream, {{DNNL_ARG_SRC, memory(a_, engine_, const_cast<std::uint16_t*>(of.a.data))},
                             {DNNL_ARG_WEIGHTS, memory(b_, engine_, const_cast<std::uint16_t*>(of.b.data))},
                             {DNNL_ARG_DST, memory(c_, engine_, of.c)},
                             {DNNL_ARG_SCRATCHPAD, memory(scratch_, engine_, aligned)}});
    stream.wait();
  }

 private:
  dnnl::engine engine_;
  memory::desc a_, b_, c_, scratch_;
  std::string name_;
  dnnl::matmul matmul_;
};

// The implementations that a thread keeps between its products.
class Matmuls {
 public:
  const Matmul& of(const HalfProduct& product) {
    constexpr std::size_t most = 1024;  // a bound, since sequences of varying length give ever new shapes
    const auto& [m, n, k, a, b, type, c, c_type, c_stride, accumulate] = product;
    const Key key{m, n, k, a.stride, a.transposed, b.stride, b.transposed, type, c_type, c_stride, accumulate};
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    if (made_.size() == most) made_.clear();
    cpu::require_library_memory();
    return made_.try_emplace(key, engine_, product).first->second;
  }
  void run(const HalfProduct& product) { of(product).run(stream_, product, scratch_); }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, std::int64_t, bool, DType, DType,
                         std::int64_t, bool>;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Matmul> made_;
  std::vector<unsigned char> scratch_;
};

// Returns the name of oneDNN's implementation of a large product of this type; empty if it has none.
std::string implementation(DType type) {
  cpu::be_single_threaded();
  cpu::require_library_memory();
  constexpr std::int64_t side = 256;
  const HalfProduct product{.m = side,
                            .n = side,
                            .k = side,
                            .a = {.stride = side},
                            .b = {.stride = side, .transposed = true},
                            .type = type,
                            .c_type = type,
                            .c_stride = side};
  try {
    return Matmul(dnnl::engine(dnnl::engine::kind::cpu, 0), product).name();
  } catch (const dnnl::error&) {
    return {};
  }
}

HalfProducts examine(DType type) {
  const std::string name = implementation(type);
  if (name.empty() || name.starts_with("ref")) return {false, "widened to fp32"};
  return {true, "oneDNN " + name};
}

}  // namespace

const HalfProducts& half_products(DType type) {
  static const HalfProducts bf16 = examine(DType::bf16), f16 = examine(DType::f16);
  return type == DType::bf16 ? bf16 : f16;
}

namespace cpu {

void onednn_gemm(const HalfProduct& product) {
  be_single_threaded();
  thread_local Matmuls matmuls;
  try {
    matmuls.run(product);
  } catch (const dnnl::error& error) {
    const bool memory = error.status == dnnl_out_of_memory;
    throw Error(memory ? ErrorKind::out_of_memory : ErrorKind::internal,
                "oneDNN: a product of " + std::to_string(product.m) + " x " + std::to_string(product.n) + " x " +
                    std::to_string(product.k) + " in " + to_string(product.type) + " failed (" + error.what() + ")" +
                    (memory ? "; use smaller microbatches" : ""));
  }
}

}  // namespace cpu
}  // namespace pipetrain
