// The eigenvectors of a symmetric matrix in fp64: Householder's reduction to a tridiagonal matrix, then implicit QR steps with
// Wilkinson's shift (Golub and Van Loan, "Matrix Computations", 4th edition, algorithms 8.3.1 to 8.3.3).
#pragma once

#include <cstddef>
#include <vector>

namespace pipetrain::cpu {

// matrix: n x n, row-major; only values that are symmetric are right. Returns the `count` eigenvectors of the largest
// eigenvalues, as rows of n numbers, the largest first. The component of largest magnitude of each is positive. Pure.
std::vector<double> leading_eigenvectors(std::vector<double> matrix, std::size_t n, std::size_t count);

}  // namespace pipetrain::cpu
