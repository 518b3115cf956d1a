// The rates of operations, reported as rows and compared with those of the chip's memory in the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/op_bench.hpp"

namespace pipetrain::bench {

class OpRates {
 public:
  // only: rows without this text in their names are neither measured nor reported.
  explicit OpRates(std::string only);

  OpBench& bench() { return bench_; }
  Ops& ops() { return bench_.ops(); }
  Tensor make(const Shape& shape, DType dtype) { return bench_.make(shape, dtype); }
  // The rows so far, for people.
  const std::string& table() const { return table_; }

  // Measures copies, with whose best rate the rows of bytes are compared: it comes first.
  void measure_copies();
  // Reports an operation that moves at least this many bytes. It is called with several sets of tensors in turn, so that its
  // data does not stay in the cache: call(make_set()).
  template <class Make, class Call>
  void with_sets(const std::string& name, double bytes, Make make_set, Call call) {
    if (left_out(name)) return;
    const int sets = sets_for(bytes);
    std::vector<decltype(make_set())> all;
    for (int i = 0; i < sets; ++i) all.push_back(make_set());
    report_bytes(name, bytes, sets, [&](int i) { call(all[static_cast<std::size_t>(i)]); });
  }
  void report_flops(const std::string& name, double flops, const std::function<void()>& call);

 private:
  std::string only_;
  OpBench bench_;
  double copy_rate_ = 0;
  std::string table_;

  bool left_out(const std::string& name) const { return name.find(only_) == std::string::npos; }
  // Returns how many copies of one operation's data make the cache useless.
  static int sets_for(double bytes);
  void report_bytes(const std::string& name, double bytes, int sets, const std::function<void(int)>& call);
  // Returns the host's seconds to enqueue a call, measured with few calls at once, so that no queue is full.
  double host_seconds(const std::function<void()>& call);
  // Returns the GB/s of copying this many bytes, with read and written bytes both counted.
  double copy_rate_of(std::size_t bytes);
};

}  // namespace pipetrain::bench
