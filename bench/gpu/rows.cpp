#include "bench/gpu/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain::bench {
namespace {

// Without pipeline stages there is only one schedule.
std::vector<Schedule> pipeline_schedules(int pp) {
  std::vector<Schedule> schedules = {{"1f1b", 1}, {"interleaved", 2}, {"zb-h1", 1}, {"zb-v", 2}};
  // On two stages it is zb-h1 with more messages.
  if (pp > 2) schedules.push_back({"v-half", 2});
  return schedules;
}

// Llama-2-7B cut to half: small enough for one GPU with all its state, so that every layout can be compared with one GPU.
Row half(const std::string& layout, int pp, int tp, int dp, std::int64_t sequence = 4096) {
  Row row;
  row.name = "llama2-7b-16l-" + layout;
  row.model = "llama2-7b";
  row.layers = 16;
  row.pp = pp, row.tp = tp, row.dp = dp;
  row.microbatches = 16;
  row.sequence = sequence;
  if (pp > 1) {
    row.schedules = pipeline_schedules(pp);
    row.predictable = pp == 2;
  }
  return row;
}

std::vector<Row> promised_rows() {
  std::vector<Row> rows;
  const auto add = [&](const char* name, const char* model, double recorded, double least) -> Row& {
    Row& row = rows.emplace_back();
    row.name = name;
    row.model = model;
    row.recorded = recorded;
    row.least = least;
    return row;
  };
  const auto pipeline = [](Row& row, int pp, int tp, int dp, std::int64_t microbatches) -> Row& {
    row.pp = pp, row.tp = tp, row.dp = dp;
    row.microbatches = microbatches;
    row.schedules = pipeline_schedules(pp);
    row.predictable = true;
    return row;
  };
  Row& eight_layers = add("llama3-8b-8l", "llama3-8b", 39151, 1.03);
  eight_layers.layers = 8, eight_layers.microbatches = 8;
  Row& small = add("llama3.2-1b", "llama3.2-1b", 64738, 1.03);
  small.microbatch = 4, small.microbatches = 4;
  pipeline(add("llama2-7b-pp2-tp4", "llama2-7b", 8292, 1.2), 2, 4, 1, 16).peers = {{}, {"Interleaved1F1B"}};
  pipeline(add("llama2-7b-pp2-tp4-2048", "llama2-7b", 4501, 2.0), 2, 4, 1, 16).sequence = 2048;
  Row& deep = pipeline(add("llama2-7b-pp8", "llama2-7b", 9811, 1.1), 8, 1, 1, 32);
  deep.peers = {{}, {"ZBVZeroBubble"}, {"Interleaved1F1B"}};
  pipeline(add("llama3-8b-pp2-dp4", "llama3-8b", 10059, 1.1), 2, 1, 4, 32);
  pipeline(add("llama3-8b-pp2-tp2-dp2", "llama3-8b", 8687, 1.15), 2, 2, 2, 32).peers = {{"1F1B", 2, true}, {}};
  return rows;
}

// Tensor-parallel communication overlapped with another microbatch's products, compared with the same layout without
// overlap. The peer has no such schedule.
std::vector<Row> braid_rows() {
  std::vector<Row> rows{half("tp2-braids", 1, 2, 1), half("tp2-2048-braids", 1, 2, 1, 2048), half("pp2-tp2-braids", 2, 2, 1)};
  for (Row& row : rows) {
    row.schedules = {{"braided-v", 2}, {row.pp > 1 ? "zb-v" : "1f1b", row.pp}};
    row.predictable = false;
    row.peers.clear();
  }
  rows.back().schedules.push_back({"dualpipe-v", 2});
  return rows;
}

// Two replicas that divide their state: ZeRO 1 and 2 must keep 0.99, and ZeRO 3 must keep 0.95 of the speed of the row
// without.
std::vector<Row> zero_rows() {
  std::vector<Row> rows;
  for (const int zero : {1, 2, 3}) {
    rows.push_back(half(fmt::format("dp2-zero{}", zero), 1, 1, 2));
    rows.back().zero = zero;
  }
  rows.back().least = 1.15;
  rows.push_back(half("dp2-zero2-2048", 1, 1, 2, 2048));
  rows.back().zero = 2;
  return rows;
}

// One long sequence on one GPU, with as much recomputation as its memory needs. The peer keeps every activation. Two
// GPUs that share the sequence must take 1 / 1.8 of the time of one.
std::vector<Row> long_rows() {
  std::vector<Row> rows(3);
  rows[0].name = "llama3.2-1b-32k", rows[0].sequence = 32 * 1024;
  rows[1].name = "llama3.2-1b-32k-cp2", rows[1].sequence = 32 * 1024, rows[1].cp = 2;
  rows[2].name = "llama3.2-1b-128k", rows[2].sequence = 128 * 1024;
  rows[2].schedules.front().recompute = "full";
  for (Row& row : rows) row.model = "llama3.2-1b";
  rows[1].peers.clear();
  rows[2].peers.clear();
  return rows;
}

// As llm.c trains them; it is their peer but is not started from here.
std::vector<Row> gpt2_rows() {
  std::vector<Row> rows(2);
  rows[0].name = rows[0].model = "gpt2", rows[0].microbatch = 16;
  rows[1].name = rows[1].model = "gpt2-xl", rows[1].microbatch = 8;
  for (Row& row : rows) {
    row.sequence = 1024, row.microbatches = 4;
    row.peers.clear();
  }
  return rows;
}

// Families of transformers, which runs them itself as the peer.
std::vector<Row> family_rows() {
  std::vector<Row> rows;
  const auto add = [&](const char* model, int layers, int pp) {
    Row& row = rows.emplace_back();
    row.name = fmt::format("{}-{}l{}", model, layers, pp > 1 ? fmt::format("-pp{}", pp) : "");
    row.model = model;
    row.layers = layers, row.pp = pp, row.microbatches = 8 * pp;
    row.peer_script = "torch_transformers.py";
    row.least = 1.1;
    if (pp > 1) row.schedules = pipeline_schedules(pp), row.predictable = true;
  };
  add("qwen2.5-7b", 8, 1);
  add("qwen3-8b", 8, 1);
  add("gemma3-4b", 16, 1);
  add("mistral-7b", 16, 2);
  return rows;
}

// Models with routed experts, cut so that one GPU holds them with all their state, or two GPUs that divide the experts.
std::vector<Row> expert_rows() {
  std::vector<Row> rows;
  const auto add = [&](const char* model, int layers, double recorded) -> Row& {
    Row& row = rows.emplace_back();
    row.name = model + (layers > 0 ? fmt::format("-{}l", layers) : "");
    row.model = model;
    row.layers = layers, row.microbatches = 8;
    row.peer_script = "torch_experts.py";
    row.recorded = recorded, row.least = 1.15;
    return row;
  };
  const auto add_divided = [&](const char* model, int layers, double recorded, double least) {
    Row& row = add(model, layers, recorded);
    row.name += "-ep2";
    row.dp = row.ep = 2, row.zero = 1;
    row.least = least;
  };
  // Stages instead of divided experts, for the same tokens in a step.
  const auto add_staged = [&](const char* model, int layers) {
    Row& row = add(model, layers, 0);
    row.name += "-pp2";
    row.pp = 2, row.microbatches = 16;
    row.schedules = pipeline_schedules(2);
    for (Schedule& schedule : row.schedules) schedule.recompute = "selective";
    row.predictable = true;
    row.least = 0;
    row.peers.clear();
  };
  add("qwen3-30b-a3b", 4, 82322);
  add("olmoe-1b-7b", 8, 58474);
  add_staged("olmoe-1b-7b", 8);
  add_staged("olmoe-1b-7b", 0);
  add_divided("qwen3-30b-a3b", 8, 39031, 1.3);
  add_divided("olmoe-1b-7b", 0, 22513, 1.3);
  add_divided("mixtral-8x7b", 4, 40461, 1.15);
  return rows;
}

// Runs in 8 bits, with one scale a tensor and then with scales of blocks, which have no peer; nor has tp 2. These are
// compared with our own rows in bf16.
std::vector<Row> fp8_rows() {
  Row eight_layers;
  eight_layers.name = "llama3-8b-8l";
  eight_layers.model = "llama3-8b";
  eight_layers.layers = 8, eight_layers.microbatches = 8;
  std::vector<Row> rows{eight_layers, half("pp2", 2, 1, 1), half("tp2", 1, 2, 1)};
  for (Row& row : rows) {
    row.name += "-fp8";
    row.fp8 = true;
    row.least = 1.05;
    row.predictable = false;
    if (row.pp > 1) row.schedules = {{"zb-h1", 1}, {"1f1b", 1}};
  }
  rows.back().least = 0;
  rows.back().peers.clear();
  for (std::size_t i = 0, count = rows.size(); i < count; ++i) {
    Row& row = rows.emplace_back(Row(rows[i]));
    row.name += "-block";
    row.fp8_blocks = true;
    row.least = 0;
    row.peers.clear();
  }
  return rows;
}

std::vector<Row> make_rows() {
  std::vector<Row> rows = promised_rows();
  rows.insert(rows.end(),
              {half("1gpu", 1, 1, 1), half("pp2", 2, 1, 1), half("tp2", 1, 2, 1), half("dp2", 1, 1, 2), half("pp4", 4, 1, 1),
               half("tp4", 1, 4, 1), half("tp4-2048", 1, 4, 1, 2048), half("dp4", 1, 1, 4), half("pp2-tp2", 2, 2, 1),
               half("dp2-pp2", 2, 1, 2), half("pp8", 8, 1, 1), half("dp8", 1, 1, 8), half("pp2-tp4", 2, 4, 1)});
  for (const std::vector<Row>& more :
       {braid_rows(), zero_rows(), long_rows(), gpt2_rows(), family_rows(), expert_rows(), fp8_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  for (const int pp : {1, 2}) {
    Row& row = rows.emplace_back();
    row.name = fmt::format("cpu-tiny-pp{}", pp);
    row.model = "tiny";
    row.pp = pp;
    row.tp = pp;
    row.sequence = 32;
    row.microbatches = 4;
    if (pp > 1) row.schedules = {{"1f1b", 1}, {"zb-h1", 1}, {"braided-v", 2}};
    row.on_cpu = true;
  }
  // With replicas our memory comes close to the peer's.
  for (Row& row : rows) {
    if (row.dp == 1) continue;
    for (Schedule& schedule : row.schedules) schedule.recompute = "selective";
  }
  return rows;
}

}  // namespace

std::string to_string(const PeerVariant& variant) {
  return variant.schedule + (variant.schedule.starts_with("Interleaved") ? fmt::format(" v={}", variant.chunks) : "") +
         (variant.async_tp ? ", async TP" : "");
}

std::string Row::layout() const {
  std::string text;
  for (const auto& [option, size] : {std::pair("pp", pp), {"cp", cp}, {"tp", tp}, {"dp", dp}, {"ep", ep}}) {
    if (size > 1) text += fmt::format("{} {}, ", option, size);
  }
  if (zero > 0) text += fmt::format("zero {}, ", zero);
  if (fp8) text += fp8_blocks ? "fp8 blockwise, " : "fp8, ";
  return text + fmt::format("{} microbatches of {} x {}", microbatches, microbatch, sequence);
}

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = make_rows();
  return rows;
}

bool matches(const std::string& pattern, const std::string& name) {
  // possible[i]: the pattern so far can end after i characters of the name.
  std::vector<bool> possible(name.size() + 1, false);
  possible[0] = true;
  for (const char wanted : pattern) {
    std::vector<bool> next(name.size() + 1, false);
    for (std::size_t i = 0; i <= name.size(); ++i) {
      if (wanted == '*') {
        next[i] = possible[i] || (i > 0 && next[i - 1]);
      } else if (i > 0) {
        next[i] = possible[i - 1] && (wanted == '?' || wanted == name[i - 1]);
      }
    }
    possible = std::move(next);
  }
  return possible.back();
}

std::vector<Row> select_rows(const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) {
    const auto& rows = all_rows();
    if (std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return matches(pattern, row.name); }))
      throw Error(ErrorKind::input, "bench gpu: no row is named " + pattern + "; --list shows them");
  }
  std::vector<Row> chosen;
  for (const Row& row : all_rows()) {
    const bool named =
        std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches(pattern, row.name); });
    if (patterns.empty() ? !row.on_cpu : named) chosen.push_back(row);
  }
  return chosen;
}

}  // namespace pipetrain::bench
