// The rows that `bench gpu` measures: a model, a layout and a batch for each, with the peer's way to run the same.
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

// The settings with which PyTorch runs a row.
struct PeerVariant {
  std::string schedule = "1F1B";
  int chunks = 2;  // for interleaved schedules
  bool async_tp = false;
};
std::string to_string(const PeerVariant& variant);

struct Row {
  std::string name;
  std::string model;  // a preset of pipetrain
  int layers = 0;     // 0: all
  int pp = 1, tp = 1, dp = 1, cp = 1;
  int ep = 1;                                     // of dp
  std::int64_t microbatch = 1, microbatches = 1;  // of one replica
  std::int64_t sequence = 4096;
  int zero = 0;             // ZeRO stage; the peer always shards its replicas' state (FSDP2)
  bool fp8 = false;         // the layers' products in 8 bits; the peer uses torchao's float8, at tp 1 only
  bool fp8_blocks = false;  // scales of tiles and blocks of 128, in our runs
  // The best measured one counts (see RowResult); the first, if only one is to be run. The same holds for the peer's.
  std::vector<Schedule> schedules{{}};
  std::vector<PeerVariant> peers{{}};
  std::string peer_script;   // the peer's script, in the folder of PIPETRAIN_TORCH_PEER; empty: that one itself
  double recorded = 0;       // the peer's tokens/s/GPU as measured before; 0: none
  double least = 0;          // promised multiple of the peer's throughput; 0: none
  bool predictable = false;  // the simulated step is promised to be within 3 % of the measured one
  bool on_cpu = false;       // for checking this program itself: never in a table of results

  int devices() const { return pp * tp * dp * cp; }
  bool names_schedules() const { return pp > 1 || schedules.size() > 1; }
  // Returns true if the actions of a run are measured separately: not those of a braid of tensor-parallel ranks.
  bool can_profile(const Schedule& schedule) const { return tp == 1 || !schedule.braids(); }
  std::string precision() const { return on_cpu ? "fp32" : fp8 ? "fp8" : "bf16"; }
  std::int64_t tokens() const { return sequence * microbatch * microbatches * dp; }  // in one step
  std::string layout() const;  // "pp 2, tp 4, 16 microbatches of 1 x 4096"
};

const std::vector<Row>& all_rows();

// Returns true if the name matches the pattern: `*` is any text, `?` any character.
bool matches(const std::string& pattern, const std::string& name);

// Returns the rows that any of the patterns match, in the order of all_rows(); without patterns all except those on the
// CPU. Throws Error(input) for a pattern without a match.
std::vector<Row> select_rows(const std::vector<std::string>& patterns);

}  // namespace pipetrain::bench
