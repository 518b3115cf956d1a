#include "ops/cpu/optimizers/eigenvectors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pipetrain::cpu {
namespace {

// A tridiagonal matrix T = Q A Q^T of a symmetric A, with the rows of Q.
struct Tridiagonal {
  std::vector<double> diagonal, beside;  // beside[i]: of rows i and i + 1
  std::vector<double> rows;              // n x n
};

double* row_of(std::vector<double>& matrix, std::size_t n, std::size_t row) { return matrix.data() + row * n; }

// a += factor b
void add_multiple(double* a, double factor, const double* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] += factor * b[i];
}

double product_of(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// A reflection I - factor v v^T of the components from `first` on.
struct Reflection {
  std::size_t first = 0;
  double factor = 0;
  std::vector<double> v;
};

// Returns the reflection that clears row k of the matrix beyond its component k + 1, and applies it from both sides.
Reflection reflect(std::vector<double>& a, std::size_t n, std::size_t k) {
  const std::size_t first = k + 1, count = n - first;
  double* const row = row_of(a, n, k) + first;
  Reflection own{first, 0, std::vector<double>(row, row + count)};
  const double norm = std::sqrt(product_of(row, row, count));
  if (norm == 0) return own;
  const double end = row[0] > 0 ? -norm : norm;
  own.v[0] -= end;
  own.factor = 2 / product_of(own.v.data(), own.v.data(), count);
  std::vector<double> w(count);
  for (std::size_t i = 0; i < count; ++i) w[i] = own.factor * product_of(row_of(a, n, first + i) + first, own.v.data(), count);
  add_multiple(w.data(), -own.factor / 2 * product_of(w.data(), own.v.data(), count), own.v.data(), count);
  for (std::size_t i = 0; i < count; ++i) {
    add_multiple(row_of(a, n, first + i) + first, -own.v[i], w.data(), count);
    add_multiple(row_of(a, n, first + i) + first, -w[i], own.v.data(), count);
  }
  std::fill(row, row + count, 0);
  row[0] = end;
  return own;
}

Tridiagonal tridiagonal(std::vector<double> a, std::size_t n) {
  std::vector<Reflection> reflections;
  for (std::size_t k = 0; k + 2 < n; ++k) reflections.push_back(reflect(a, n, k));
  Tridiagonal result{std::vector<double>(n), std::vector<double>(n, 0), std::vector<double>(n * n, 0)};
  for (std::size_t i = 0; i < n; ++i) {
    result.diagonal[i] = a[i * n + i];
    if (i + 1 < n) result.beside[i] = a[i * n + i + 1];
    result.rows[i * n + i] = 1;
  }
  // Q is the product of all reflections, the last one outermost; those that come later change fewer components.
  for (auto one = reflections.rbegin(); one != reflections.rend(); ++one) {
    if (one->factor == 0) continue;
    const std::size_t count = n - one->first;
    for (std::size_t i = one->first; i < n; ++i) {
      double* const row = row_of(result.rows, n, i) + one->first;
      add_multiple(row, -one->factor * product_of(row, one->v.data(), count), one->v.data(), count);
    }
  }
  return result;
}

// One QR step on the rows [low, high], none of whose neighbours are zero.
void qr_step(Tridiagonal& t, std::size_t n, std::size_t low, std::size_t high) {
  std::vector<double>&d = t.diagonal, &e = t.beside;
  const double half = (d[high - 1] - d[high]) / 2, last = e[high - 1];
  const double root = std::hypot(half, last);
  double x = d[low] - (d[high] - last * last / (half + (half < 0 ? -root : root))), z = e[low];
  for (std::size_t k = low; k < high; ++k) {
    const double length = std::hypot(x, z), c = length > 0 ? x / length : 1, s = length > 0 ? z / length : 0;
    if (k > low) e[k - 1] = length;
    const double a = d[k], b = e[k], next = d[k + 1];
    d[k] = c * c * a + 2 * c * s * b + s * s * next;
    d[k + 1] = s * s * a - 2 * c * s * b + c * c * next;
    e[k] = c * s * (next - a) + (c * c - s * s) * b;
    x = e[k];
    if (k + 1 < high) {
      z = s * e[k + 1];
      e[k + 1] *= c;
    }
    double *const upper = row_of(t.rows, n, k), *const lower = row_of(t.rows, n, k + 1);
    for (std::size_t i = 0; i < n; ++i) {
      const double was = upper[i];
      upper[i] = c * was + s * lower[i];
      lower[i] = c * lower[i] - s * was;
    }
  }
}

void diagonalise(Tridiagonal& t, std::size_t n) {
  constexpr std::size_t most_steps_each = 60;  // two or three are usual; more only if values are not finite
  const auto is_zero = [&](std::size_t i) {
    const double least = std::numeric_limits<double>::epsilon() * (std::abs(t.diagonal[i]) + std::abs(t.diagonal[i + 1]));
    return !(std::abs(t.beside[i]) > least);
  };
  std::size_t high = n - 1;
  for (std::size_t steps = 0; high > 0 && steps < most_steps_each * n; ++steps) {
    while (high > 0 && is_zero(high - 1)) --high;
    if (high == 0) break;
    std::size_t low = high - 1;
    while (low > 0 && !is_zero(low - 1)) --low;
    qr_step(t, n, low, high);
  }
}

}  // namespace

std::vector<double> leading_eigenvectors(std::vector<double> matrix, std::size_t n, std::size_t count) {
  Tridiagonal t = tridiagonal(std::move(matrix), n);
  diagonalise(t, n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return t.diagonal[a] > t.diagonal[b]; });
  std::vector<double> vectors;
  for (std::size_t i = 0; i < count; ++i) {
    const double* const row = row_of(t.rows, n, order[i]);
    const double* const largest = std::max_element(row, row + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double sign = *largest < 0 ? -1 : 1;
    for (std::size_t k = 0; k < n; ++k) vectors.push_back(sign * row[k]);
  }
  return vectors;
}

}  // namespace pipetrain::cpu
