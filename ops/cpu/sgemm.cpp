#include "ops/cpu/sgemm.hpp"

#include <dnnl.h>

#include <string>

#include "core/error.hpp"
#include "ops/cpu/library_memory.hpp"
#include "ops/cpu/single_threaded.hpp"

// Declares a function of the OpenMP library that oneDNN runs on, because only one compiler ships its header.
extern "C" void omp_set_num_threads(int);

namespace pipetrain::cpu {

// OpenMP keeps this setting for each calling thread.
void be_single_threaded() {
  thread_local const bool set = [] {
    omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(set);
}

void sgemm(const Product& product) {
  be_single_threaded();
  require_library_memory();
  const auto& [m, n, k, a, b, c, c_stride, alpha, beta] = product;
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha, a.data, a.stride,
                                          b.data, b.stride, beta, c, c_stride);
  if (status == dnnl_success) return;
  throw Error(status == dnnl_out_of_memory ? ErrorKind::out_of_memory : ErrorKind::internal,
              "oneDNN: a product of " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                  " failed with status " + std::to_string(status) +
                  (status == dnnl_out_of_memory ? "; use smaller microbatches" : ""));
}

}  // namespace pipetrain::cpu
