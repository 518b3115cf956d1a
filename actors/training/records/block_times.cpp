#include "actors/training/records/block_times.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipetrain {
namespace {

constexpr double drawn_to_shares = 1e-3;  // weight of the shares against the squared relative errors of the stages' times

// Solves a x = b for a symmetric positive definite matrix by Cholesky decomposition.
ByKind solve_positive_definite(std::array<ByKind, kinds_of_blocks> a, ByKind b) {
  for (std::size_t i = 0; i < kinds_of_blocks; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = kinds_of_blocks; i-- > 0;) {
    for (std::size_t k = i + 1; k < kinds_of_blocks; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

BlockTimes::BlockTimes(const KindsOfParts& parts, const std::vector<double>& seconds, const ByKind& shares)
    : per_kind_(shares) {
  double counted = 0;
  for (const auto& part : parts)
    for (const std::size_t kind : part) counted += shares[kind];
  const double scale = std::accumulate(seconds.begin(), seconds.end(), 0.0) / counted;
  if (!(scale > 0)) return;  // not measured
  for (double& share : per_kind_) share *= scale;
  fit(parts, seconds);
  for (std::size_t v = 0; v < parts.size(); ++v) {
    double sum = 0;
    for (const std::size_t kind : parts[v]) sum += per_kind_[kind];
    factor_of_block_.insert(factor_of_block_.end(), parts[v].size(), sum > 0 ? seconds[v] / sum : 0);
  }
}

void BlockTimes::fit(const KindsOfParts& parts, const std::vector<double>& seconds) {
  std::array<ByKind, kinds_of_blocks> a{};
  ByKind b{};
  for (std::size_t kind = 0; kind < kinds_of_blocks; ++kind) a[kind][kind] = b[kind] = drawn_to_shares;
  for (std::size_t v = 0; v < parts.size(); ++v) {
    if (!(seconds[v] > 0)) continue;
    ByKind row{};  // of seconds[v], by kind
    for (const std::size_t kind : parts[v]) row[kind] += per_kind_[kind] / seconds[v];
    for (std::size_t i = 0; i < kinds_of_blocks; ++i) {
      b[i] += row[i];
      for (std::size_t j = 0; j < kinds_of_blocks; ++j) a[i][j] += row[i] * row[j];
    }
  }
  const ByKind factor = solve_positive_definite(a, b);
  for (std::size_t kind = 0; kind < kinds_of_blocks; ++kind) per_kind_[kind] *= std::max(factor[kind], 0.0);
}

double BlockTimes::mean(const KindsOfParts& parts, std::size_t kind) const {
  double sum = 0;
  std::size_t block = 0, count = 0;
  for (const auto& part : parts)
    for (const std::size_t one : part) {
      if (one == kind) sum += of(block, kind), ++count;
      ++block;
    }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double BlockTimes::sum(std::size_t first, const std::vector<std::size_t>& blocks) const {
  double sum = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) sum += of(first + i, blocks[i]);
  return sum;
}

}  // namespace pipetrain
