// Measures the machine's fp32 matrix rate: the best installed library, one product on each thread, all threads at once.
#pragma once

#include <dlfcn.h>
#include <dnnl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

extern "C" void omp_set_num_threads(int);  // of oneDNN's OpenMP library

namespace pipetrain::bench {

struct MatrixLibrary {
  std::string name;
  // c [n, n] = a b^T on one thread
  std::function<void(int n, const float* a, const float* b, float* c)> product;
};

// Returns oneDNN, and OpenBLAS if it is installed.
inline std::vector<MatrixLibrary> matrix_libraries() {
  std::vector<MatrixLibrary> libraries{{"oneDNN", [](int n, const float* a, const float* b, float* c) {
                                          omp_set_num_threads(1);
                                          dnnl_sgemm('N', 'T', n, n, n, 1, a, n, b, n, 0, c, n);
                                        }}};
  void* openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (openblas == nullptr) return libraries;
  using SetThreads = void(int);
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  reinterpret_cast<SetThreads*>(dlsym(openblas, "openblas_set_num_threads"))(1);
  auto* sgemm = reinterpret_cast<Sgemm*>(dlsym(openblas, "cblas_sgemm"));
  libraries.push_back({"OpenBLAS", [sgemm](int n, const float* a, const float* b, float* c) {
                         constexpr int row_major = 101, no_transpose = 111, transpose = 112;  // the standard's numbers
                         sgemm(row_major, no_transpose, transpose, n, n, n, 1, a, n, b, n, 0, c, n);
                       }});
  return libraries;
}

// GFLOP/s by wall time, and by processor time, which other programs on the machine affect less.
struct Rate {
  double wall = 0, processor = 0;
};

// Returns the processor seconds of all threads of this process.
inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Measures `threads` threads together, each with square matrices of its own; a round takes about a tenth of a second.
// The rate by processor time is that of as many threads as if each had its own processor.
inline Rate matrix_rate(const MatrixLibrary& library, int threads) {
  constexpr int n = 1024, products = 5;
  struct Operands {
    std::vector<float> a = std::vector<float>(n * n, 0.5F), b = std::vector<float>(n * n, 0.25F), c = std::vector<float>(n * n);
  };
  std::vector<Operands> operands(static_cast<std::size_t>(threads));
  const auto start = std::chrono::steady_clock::now();
  const double processor_start = processor_seconds();
  {
    std::vector<std::jthread> running;
    for (auto& own : operands) {
      running.emplace_back([&library, &own] {
        for (int i = 0; i < products; ++i) library.product(n, own.a.data(), own.b.data(), own.c.data());
      });
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double processor = (processor_seconds() - processor_start) / threads;
  const double work = 2.0 * n * n * n * products * threads * 1e-9;
  return {work / seconds, work / processor};
}

}  // namespace pipetrain::bench
