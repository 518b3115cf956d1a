#include "bench/gpu_ops/op_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/result.hpp"

namespace pipetrain::bench {
namespace {

constexpr std::size_t cache_bytes = std::size_t{60} << 20;

int calls_for(double guess) { return static_cast<int>(std::clamp(10e-3 / guess, 5.0, 400.0)); }

}  // namespace

OpRates::OpRates(std::string only) : only_(std::move(only)), bench_(gpu_op_bench()) {}

int OpRates::sets_for(double bytes) {
  return static_cast<int>(std::clamp(6.0 * static_cast<double>(cache_bytes) / bytes, 1.0, 32.0));
}

void OpRates::report_bytes(const std::string& name, double bytes, int sets, const std::function<void(int)>& call) {
  const double time = bench_.seconds(calls_for(bytes / 4e12), [&](int i) { call(i % sets); });
  const double rate = bytes / time * 1e-9;
  bench_.free_all();
  const double equal = copy_rate_of(static_cast<std::size_t>(bytes / 512) * 256);
  report("gpu " + name, rate, "GB/s", Limit::at_least, 0.85 * copy_rate_);
  report("gpu " + name + " over a copy of as many bytes", rate / equal, "ratio");
  table_ += fmt::format("{:<48} {:7.1f} us {:6.0f} GB/s {:6.1f} % of best copy, {:5.1f} % of an equal one\n", name, time * 1e6,
                        rate, 100 * rate / copy_rate_, 100 * rate / equal);
}

void OpRates::report_flops(const std::string& name, double flops, const std::function<void()>& call) {
  if (left_out(name)) return;
  const double time = bench_.seconds(calls_for(flops / 6e14), [&](int) { call(); });
  const double host = host_seconds(call);
  report("gpu " + name, flops / time * 1e-12, "TFLOP/s");
  table_ +=
      fmt::format("{:<58} {:8.1f} us {:6.0f} TFLOP/s, host {:4.1f} us\n", name, time * 1e6, flops / time * 1e-12, host * 1e6);
}

double OpRates::host_seconds(const std::function<void()>& call) {
  bench_.stream().synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) call();
  const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 20;
  bench_.stream().synchronize();
  return time;
}

double OpRates::copy_rate_of(std::size_t bytes) {
  const double moved = 2 * static_cast<double>(bytes);
  const int sets = sets_for(moved);
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (int i = 0; i < sets; ++i) {
    const Shape shape{static_cast<std::int64_t>(bytes / 4)};
    pairs.emplace_back(make(shape, DType::f32), make(shape, DType::f32));
  }
  const double time = bench_.seconds(calls_for(moved / 4e12), [&](int i) {
    const auto& [from, to] = pairs[static_cast<std::size_t>(i % sets)];
    bench_.stream().copy(to.data, from.data, bytes);
  });
  bench_.free_all();
  return moved / time * 1e-9;
}

void OpRates::measure_copies() {
  for (const std::size_t mebibytes : {1024, 64, 32}) {  // 32 MiB: an activation of [4096, 4096]
    const double rate = copy_rate_of(mebibytes << 20);
    copy_rate_ = std::max(copy_rate_, rate);
    report(fmt::format("gpu copy of {} MiB", mebibytes), rate, "GB/s");
    table_ += fmt::format("{:<48} {:17.0f} GB/s\n", fmt::format("copy of {} MiB", mebibytes), rate);
  }
}

}  // namespace pipetrain::bench
