// What `bench gpu` measures: a model, a layout and a batch to a row, with the peer's way of running the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipetrain::bench {

struct Schedule {
  std::string name = "1f1b";
  int chunks = 1;
  std::string recompute = "none";
  std::string text() const { return recompute == "none" ? name : name + ", recompute " + recompute; }
  bool braids() const { return name == "braided-v"; }
};

// How PyTorch runs a row.
struct PeerVariant {
  std::string schedule = "1F1B";
  int chunks = 2;  // of interleaved ones
  bool async_tp = false;
};
std::string to_string(const PeerVariant& variant);

struct Row {
  std::string name;
  std::string model;  // preset of ours
  int layers = 0;     // 0: all
  int pp = 1, tp = 1, dp = 1, cp = 1;
  std::int64_t microbatch = 1, microbatches = 1;  // of one replica
  std::int64_t sequence = 4096;
  int zero = 0;             // stage of ZeRO; the peer always shards its replicas' state (FSDP2)
  bool fp8 = false;         // the layers' products in 8 bits; the peer's by torchao's float8, which it runs at tp 1 only
  bool fp8_blocks = false;  // ours with scales of tiles and blocks of 128
  // The best one measured counts (see RowResult); the first where only one is to be run. Likewise the peer's.
  std::vector<Schedule> schedules{{}};
  std::vector<PeerVariant> peers{{}};
  double recorded = 0;       // the peer's tokens/s/GPU as measured before: 0 where there is none
  double least = 0;          // times the peer's throughput: promised, 0 where nothing is
  bool predictable = false;  // the simulated step is promised to be within 3 % of the measured one
  bool on_cpu = false;       // to check this program itself: never in a table of results

  int devices() const { return pp * tp * dp * cp; }
  bool names_schedules() const { return pp > 1 || schedules.size() > 1; }
  // Whether the actions of a run are measured apart: not those of a braid of tensor-parallel ranks.
  bool can_profile(const Schedule& schedule) const { return tp == 1 || !schedule.braids(); }
  std::string precision() const { return on_cpu ? "fp32" : fp8 ? "fp8" : "bf16"; }
  std::int64_t tokens() const { return sequence * microbatch * microbatches * dp; }  // of one step
  std::string layout() const;  // "pp 2, tp 4, 16 microbatches of 1 x 4096"
};

const std::vector<Row>& all_rows();

// Whether the name matches the pattern: `*` is any text, `?` any character.
bool matches(const std::string& pattern, const std::string& name);

// The rows that any of the patterns name, in the order of all_rows(); without patterns all but those on the CPU. Throws
// Error(input) for a pattern that names none.
std::vector<Row> select_rows(const std::vector<std::string>& patterns);

}  // namespace pipetrain::bench
