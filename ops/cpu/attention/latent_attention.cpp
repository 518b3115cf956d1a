// The queries, keys and values of latent attention, and its forward with a cache of latent vectors.
#include <algorithm>

#include "ops/cpu/attention_head.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/sgemm.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/document_positions.hpp"

namespace pipetrain::cpu {
namespace {

// The rotation of one position.
struct LatentTurn {
  const float *cosines, *sines;
  std::int64_t half;
  bool interleaved, inverse;

  // Rotates 2 half columns in place.
  void rotate(float* columns) const {
    const std::int64_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
    for (std::int64_t i = 0; i < half; ++i) {
      const float sine = inverse ? -sines[i] : sines[i];
      float *low = columns + step * i, *high = low + apart;
      const float a = *low, b = *high;
      *low = a * cosines[i] - b * sine;
      *high = b * cosines[i] + a * sine;
    }
  }
};
LatentTurn latent_turn(const Tensor& cos_sin, std::int64_t row, bool interleaved, bool inverse) {
  const std::int64_t half = cos_sin.shape[2];
  const float* const cosines = cos_sin.as<float>() + row * 2 * half;
  return {cosines, cosines + half, half, interleaved, inverse};
}

// The columns of the packed matrix, and of the matrices that it is built from.
struct LatentColumns {
  std::int64_t heads, rotated, plain, value;

  LatentColumns(const SegmentShape& shape, const Tensor& cos_sin)
      : heads(shape.heads), rotated(2 * cos_sin.shape[2]), plain(shape.head_dim - rotated), value(shape.value_dim()) {}
  std::int64_t head() const { return plain + rotated; }
  std::int64_t expanded() const { return plain + value; }
  std::int64_t first_key() const { return heads * head(); }
  std::int64_t first_value() const { return 2 * heads * head(); }
};

}  // namespace

void latent_heads(CpuStream& stream, const SegmentShape& shape, const LatentHeadsArgs& args) {
  const LatentColumns of(shape, args.cos_sin);
  const auto* documents = args.documents ? args.documents->as<std::int32_t>() : nullptr;
  for_row_tiles(stream, shape.tokens(), shape.packed_cols(), [&](std::int64_t begin, std::int64_t end) {
    const Rows queries(args.q), expanded(args.key_value), shared(args.rotated), packed(args.qkv);
    const Floats turned(of.rotated);
    for (std::int64_t token = begin; token < end; ++token) {
      const LatentTurn turn = latent_turn(args.cos_sin, position_of(token, shape.queries, documents), args.interleaved, false);
      const float *const q = queries[token], *const key_value = expanded[token];
      std::copy_n(shared[token], of.rotated, turned.data());
      turn.rotate(turned.data());
      packed.write(token, [&](float* out) {
        std::copy_n(q, of.first_key(), out);
        for (std::int64_t head = 0; head < of.heads; ++head) {
          turn.rotate(out + head * of.head() + of.plain);
          float* const key = out + of.first_key() + head * of.head();
          std::copy_n(key_value + head * of.expanded(), of.plain, key);
          std::copy_n(turned.data(), of.rotated, key + of.plain);
          std::copy_n(key_value + head * of.expanded() + of.plain, of.value, out + of.first_value() + head * of.value);
        }
      });
    }
  });
}

// The heads' gradients of the shared columns are added in order, and rotated back at once.
void latent_heads_backward(CpuStream& stream, const SegmentShape& shape, const LatentHeadsBackwardArgs& args) {
  const LatentColumns of(shape, args.cos_sin);
  const auto* documents = args.documents ? args.documents->as<std::int32_t>() : nullptr;
  for_row_tiles(stream, shape.tokens(), shape.packed_cols(), [&](std::int64_t begin, std::int64_t end) {
    const Rows packed(args.dqkv), queries(args.dq), expanded(args.dkey_value);
    for (std::int64_t token = begin; token < end; ++token) {
      const LatentTurn turn = latent_turn(args.cos_sin, position_of(token, shape.queries, documents), args.interleaved, true);
      const float* const grad = packed[token];
      queries.write(token, [&](float* out) {
        std::copy_n(grad, of.first_key(), out);
        for (std::int64_t head = 0; head < of.heads; ++head) turn.rotate(out + head * of.head() + of.plain);
      });
      float* const sum = args.drotated.as<float>() + token * of.rotated;
      std::fill_n(sum, of.rotated, 0.0F);
      expanded.write(token, [&](float* out) {
        for (std::int64_t head = 0; head < of.heads; ++head) {
          const float* const key = grad + of.first_key() + head * of.head();
          std::copy_n(key, of.plain, out + head * of.expanded());
          std::copy_n(grad + of.first_value() + head * of.value, of.value, out + head * of.expanded() + of.plain);
          for (std::int64_t i = 0; i < of.rotated; ++i) sum[i] += key[of.plain + i];
        }
      });
      turn.rotate(sum);
    }
  });
}

namespace {

void write_cache(const SegmentShape& shape, const CachedLatentAttentionArgs& args) {
  const Rows latents(args.latent), rotated(args.rotated), cache(args.cache);
  const std::int64_t rank = args.latent.cols(), columns = args.rotated.cols();
  for (std::int64_t token = 0; token < shape.queries; ++token) {
    const float *const latent = latents[token], *const shared = rotated[token];
    cache.write(shape.first_query + token, [&](float* out) {
      std::copy_n(latent, rank, out);
      std::copy_n(shared, columns, out + rank);
      latent_turn(args.cos_sin, token, args.interleaved, false).rotate(out + rank);
    });
  }
}

// Scores are q . (W_k c) = (W_k^T q) . c, so each query takes the matrix instead of each key; likewise the sum of values is
// W_v times the sum of latent vectors.
void attend_to_latents(const SegmentShape& shape, const CachedLatentAttentionArgs& args, std::int64_t head) {
  const LatentColumns of(shape, args.cos_sin);
  const std::int64_t rank = args.latent.cols(), tokens = shape.queries, cached = args.cache.cols();
  const auto multiply = tokens * rank * of.expanded() <= small_products ? precise_gemm : sgemm;
  const WideHead query(query_head(shape, args.q, 0, head)), cache({args.cache, 0, 0, shape.keys, cached}),
      expand({args.expand, head * of.expanded(), 0, of.expanded(), rank}), out(output_head(shape, args.out, 0, head));
  const Head q = query.load(), c = cache.load(), w = expand.load(), result = out;
  const Floats wide(tokens * cached), sums(tokens * rank);
  multiply({tokens, rank, of.plain, {q.data, q.stride}, {w.data, w.stride}, wide.data(), cached, 1, 0});
  for (std::int64_t token = 0; token < tokens; ++token) {
    float* const turned = wide.data() + token * cached + rank;
    std::copy_n(q.row(token) + of.plain, of.rotated, turned);
    latent_turn(args.cos_sin, token, args.interleaved, false).rotate(turned);
  }
  SegmentShape latent = shape;
  latent.heads = latent.kv_heads = 1, latent.head_dim = cached, latent.own_value_dim = rank;
  latent.scale = shape.score_scale();
  const Sight sight(latent, nullptr, {}, 0);
  forward_head({sight, 0}, {{wide.data(), cached}, c, c}, {sums.data(), rank}, nullptr);
  multiply({tokens, of.value, rank, {sums.data(), rank}, {w.row(of.plain), w.stride, true}, result.data, result.stride, 1, 0});
  out.store();
}

}  // namespace

void cached_latent_attention(CpuStream& stream, const SegmentShape& shape, const CachedLatentAttentionArgs& args) {
  write_cache(shape, args);
  stream.parallel_for(shape.heads, [&](std::int64_t head) { attend_to_latents(shape, args, head); });
}

}  // namespace pipetrain::cpu
