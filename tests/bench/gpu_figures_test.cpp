// The figures that bench gpu computes from its readings: medians, memory, limits, shares, rankings.
#include <fmt/format.h>

#include <fstream>

#include "bench/gpu/our_run.hpp"
#include "bench/gpu/report.hpp"
#include "bench/gpu/row_limit.hpp"
#include "bench/gpu/time_shares.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::bench;
using Catch::Matchers::Contains;
using schedules::ActionKind;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

Row figures_row(const std::string& name) { return select_rows({name}).at(0); }

// An action that was enqueued at its start.
DeviceAction ran(ActionKind kind, int start, int end) {
  const Clock::time_point begin(milliseconds{start});
  return {{kind, 0, 0}, {begin, Clock::time_point(milliseconds(end))}, begin};
}

ScheduleResult result_of(const std::string& name, double seconds, double predicted) {
  ScheduleResult result;
  result.schedule.name = name;
  result.figures.variant = name;
  result.figures.seconds = {seconds, seconds, seconds};
  result.figures.tokens_per_second = 1000 / seconds;
  result.predicted = predicted;
  return result;
}

const Number* find(const std::vector<Number>& numbers, const std::string& end) {
  for (const auto& number : numbers)
    if (number.name.ends_with(end)) return &number;
  return nullptr;
}

}  // namespace

TEST_CASE("a run's figures are medians of the steps after those to warm up") {
  TempFolder folder;
  std::string lines;
  for (const double seconds : {9.0, 5.0, 0.5, 0.25, 1.0})
    lines += fmt::format(R"({{"step":1,"seconds":{},"elapsed":12.5,"tokens_per_second_per_device":{},"tflops_per_device":{},)"
                         R"("bubble":0.125,"memory_bytes":[100,200]}})"
                         "\n",
                         seconds, 100 / seconds, 10 / seconds);
  const auto figures = read_metrics(folder.write("metrics", lines), 2);
  CHECK(figures.seconds.median == 0.5);
  CHECK(figures.seconds.least == 0.25);
  CHECK(figures.seconds.most == 1.0);
  CHECK(figures.tokens_per_second == 200);
  CHECK(figures.tflops == 20);
  CHECK(figures.bubble == 0.125);
  CHECK(figures.start == 3.5);  // the first step ended at 12.5
  CHECK(figures.memory == std::vector<double>{100, 200});
  CHECK_THROWS_WITH(read_metrics(folder.write("metrics", lines), 5), Contains("5 steps"));
}

TEST_CASE("the state's bytes come from the table that --dry-run prints") {
  const auto state = state_bytes(
      "1 parameters, 2 layers\nschedule 1f1b\n"
      "device replica stage rank  parameters   gradients   optimizer  activations    queues  workspace   total MiB\n"
      "     0       0     0    0         1.0         2.0         4.0          8.0      16.0       32.0        63.0\n"
      "     1       0     1    0         1.5         2.0         4.0          8.0      16.0       32.0        63.5\n");
  REQUIRE(state.size() == 2);
  CHECK(state[0] == 7 * (1 << 20));
  CHECK(state[1] == 7.5 * (1 << 20));
  CHECK(most_without_state({10.0 * (1 << 20), 10.25 * (1 << 20)}, state) == 3.0 * (1 << 20));
  CHECK_THROWS(state_bytes("nothing"));
}

TEST_CASE("random tokens are as many samples as a step has, of ids that the model has") {
  TempFolder folder;
  Row row = figures_row("cpu-tiny-pp1");
  row.microbatches = 70;
  write_random_tokens(row, folder.path() / "tokens.jsonl");
  std::ifstream in(folder.path() / "tokens.jsonl");
  int samples = 0;
  std::string first;
  for (std::string line; std::getline(in, line); ++samples) {
    if (samples == 0) first = line;
    CHECK(std::count(line.begin(), line.end(), ',') == row.sequence);
  }
  CHECK(samples == 70);
  CHECK_THAT(first, Catch::Matchers::StartsWith("{\"input_ids\":["));
}

TEST_CASE("the limit of a row is its products and attention at the measured rates") {
  // With one rate for everything, the tokens of a device are that rate over a token's operations, with attention's
  // backward counted 2.5 times its forward.
  const double hidden = 4096, sequence = 4096, rate = 5e14;
  const double layer = 4 * hidden * hidden + 3 * hidden * 11008;
  const double a_token = 6 * (16 * layer + 32000 * hidden) + 7 * 16 * hidden * sequence;
  for (const char* name : {"llama2-7b-16l-1gpu", "llama2-7b-16l-tp4", "llama2-7b-16l-pp4", "llama2-7b-16l-dp2-pp2"}) {
    const Row row = figures_row(name);
    auto ops = limit_ops(row);
    for (auto& op : ops) op.seconds = op.flops / rate;
    const RowLimit limit = limit_of(row, ops);
    INFO(name);
    CHECK(limit.tokens_per_second == Approx(rate / a_token));
    CHECK(limit.matrix_tflops == Approx(500));
    CHECK(limit.attention_tflops == Approx(500));
    const auto read = limit_from_json(to_json(ops));
    CHECK(limit_of(row, read).tokens_per_second == Approx(limit.tokens_per_second));
  }
  // GPUs that share sequences share attention too.
  const auto at_rate = [&](const char* name) {
    auto ops = limit_ops(figures_row(name));
    for (auto& op : ops) op.seconds = op.flops / rate;
    return limit_of(figures_row(name), ops).tokens_per_second;
  };
  CHECK(at_rate("llama3.2-1b-32k-cp2") == Approx(at_rate("llama3.2-1b-32k")));
  // Half the rate of attention alone costs as much time as attention takes.
  const Row row = figures_row("llama2-7b-16l-1gpu");
  auto ops = limit_ops(row);
  for (auto& op : ops) op.seconds = op.flops / (op.name.starts_with("attention") ? rate / 2 : rate);
  CHECK(limit_of(row, ops).tokens_per_second == Approx(rate / (a_token + 7 * 16 * hidden * sequence)));
}

TEST_CASE("the limit's operations are shown with their rates") {
  RowResult result;
  result.row = figures_row("llama2-7b-16l-tp4");
  result.limit_ops = limit_ops(result.row);
  for (auto& op : result.limit_ops) op.seconds = op.flops / 5e14;
  result.limit_ops[1].seconds *= 2;
  result.limit = limit_of(result.row, result.limit_ops);
  CHECK_THAT(limit_table({result}), Contains("qkv 500/250/500  o 500/500/500") && Contains("attention 500/500\n"));
}

TEST_CASE("the limit can be measured on a device") {
  const Row row = figures_row("cpu-tiny-pp1");
  auto ops = limit_ops(row);
  OpBench bench = cpu_op_bench();
  measure_limit(bench, row, ops, 0, 0);
  for (const auto& op : ops) {
    INFO(op.name);
    CHECK(op.seconds > 0);
    CHECK(op.flops / op.seconds < 1e13);
  }
  CHECK(limit_of(row, ops).tokens_per_second > 0);
}

TEST_CASE("a step's time is divided into shares, and the remainder is the host's") {
  // Two devices, 100 ms. The first is busy for 60 ms, the second for 50; actions run from 5 to 95; the verdict takes
  // 10. The host had enqueued all but the second's F in time.
  std::vector<DeviceTrace> devices = {
      {{0, 0, 0},
       {ran(ActionKind::forward, 5, 25), ran(ActionKind::backward, 45, 65), ran(ActionKind::reduce_grads, 65, 69),
        ran(ActionKind::norm, 69, 75), ran(ActionKind::optimizer, 85, 95)}},
      {{0, 1, 0},
       {ran(ActionKind::forward, 25, 35), ran(ActionKind::backward, 35, 55), ran(ActionKind::norm, 60, 70),
        ran(ActionKind::optimizer, 85, 95)}}};
  auto& late = devices[1].actions[0];
  late.issued = late.times.end - std::chrono::microseconds(100);
  const TimeShares shares = time_shares(devices, 0.1, {{0.03, 0.01, 0.004, 0.002}, {0.02, 0.01, 0.006, 0.0}});
  CHECK(shares.matrices == Approx(0.25));
  CHECK(shares.attention == Approx(0.1));
  CHECK(shares.elementwise == Approx(0.05));
  CHECK(shares.communication == Approx(0.01 + 0.02));  // between operations, and R
  CHECK(shares.bubble == Approx((2 * (90 - 10) - 60 - 50) / 200.0));
  CHECK(shares.matrices + shares.attention + shares.elementwise + shares.communication + shares.bubble + shares.host ==
        Approx(1));
  CHECK(shares.launch_bound == Approx(10.0 / 110));
  const StepMeasures read = measures_from_json(to_json(StepMeasures{shares, {1, 2}}));
  CHECK(read.shares.host == shares.host);
  CHECK(read.shares.bubble == shares.bubble);
  CHECK(read.shares.launch_bound == shares.launch_bound);
  CHECK(read.taken == std::vector<double>{1, 2});
}

TEST_CASE("the sum of tied weights is communication where they are on two stages only") {
  const auto shares = [](int stage_of_head) {
    const std::vector<DeviceTrace> devices = {{{0, 0, 0}, {ran(ActionKind::sum_tied, 0, 10)}},
                                              {{0, stage_of_head, 0}, {ran(ActionKind::sum_tied, 0, 10)}}};
    return time_shares(devices, 0.1, {{0, 0, 0.002, 0}, {0, 0, 0.002, 0}});
  };
  CHECK(shares(1).communication == Approx(0.1));
  CHECK(shares(0).communication == 0);
  CHECK(shares(0).elementwise == Approx(0.02));
}

TEST_CASE("schedules are ranked right when none that is measured slower is simulated faster") {
  CHECK(ranked_right({result_of("a", 1.0, 0.9), result_of("b", 1.2, 1.0)}));
  CHECK(!ranked_right({result_of("a", 1.0, 1.1), result_of("b", 1.2, 1.0)}));
  CHECK(ranked_right({result_of("a", 1.0, 1.01), result_of("b", 1.001, 1.0)}));  // measured as equal
}

TEST_CASE("the fastest schedule that takes no more memory than the peer represents a row") {
  RowResult result;
  result.ours = {result_of("1f1b", 0.13, 0.13), result_of("zb-v", 0.1, 0.1), result_of("zb-h1", 0.12, 0.12)};
  for (auto& one : result.ours) one.figures.memory_without_state = one.schedule.name == "zb-v" ? 16 : 9;
  const auto first = [&] {
    sort_runs(result);
    return result.ours.front().schedule.name;
  };
  CHECK(first() == "zb-v");  // without a peer, the fastest
  RunFigures fast, slow;
  fast.tokens_per_second = 2, fast.memory_without_state = 9;
  slow.tokens_per_second = 1, slow.memory_without_state = 20;
  result.peers = {slow, fast};
  CHECK(first() == "zb-h1");
  CHECK(result.ours[1].schedule.name == "zb-v");
  result.peers[0].memory_without_state = 8;
  CHECK(first() == "zb-v");  // all take more
}

TEST_CASE("a row of braids says how much of the exposed communication they overlap") {
  RowResult result;
  result.row = figures_row("llama2-7b-16l-tp2-braids");
  result.ours = {result_of("braided-v", 0.97, 0), result_of("1f1b", 1.0, 1.01)};
  sort_runs(result);
  REQUIRE(fastest_apart(result) != nullptr);
  CHECK(fastest_apart(result)->schedule.name == "1f1b");
  const std::string hides = "communication exposed by 1f1b that braided-v hides";
  CHECK(find(numbers_of(result), hides) == nullptr);  // not measured
  result.shares = TimeShares{.seconds = 1.0, .communication = 0.05};
  const auto numbers = numbers_of(result);
  REQUIRE(find(numbers, hides) != nullptr);
  CHECK(find(numbers, hides)->value == Approx(60));
  CHECK(find(numbers, "step predicted, braided-v") == nullptr);  // its actions are not measured separately
  CHECK(find(numbers, "step predicted, 1f1b") != nullptr);
  CHECK(find(numbers, "schedules ranked right")->value == 1);
  CHECK_THAT(schedules_table({result}), Contains("braided-v") && Contains("1f1b"));
  result.ours.pop_back();
  CHECK(fastest_apart(result) == nullptr);
}

TEST_CASE("a row's numbers carry its promises") {
  RowResult result;
  result.row = figures_row("llama2-7b-pp8");
  result.ours = {result_of("zb-v", 0.1, 0.101), result_of("1f1b", 0.12, 0.13)};
  result.ours[0].figures.memory_without_state = 3.0 * (1 << 30);
  result.ours[0].figures.start = 4;
  RunFigures peer;
  peer.tokens_per_second = 8000;
  peer.memory_without_state = 2.0 * (1 << 30);
  result.peers = {peer};
  const auto numbers = numbers_of(result);
  const Number* ratio = find(numbers, "ratio to PyTorch");
  REQUIRE(ratio);
  CHECK(ratio->name == "gpu llama2-7b-pp8 ratio to PyTorch");
  CHECK(ratio->value == Approx(1.25));
  CHECK(ratio->kind == Limit::at_least);
  CHECK(ratio->limit == 1.1);
  CHECK(find(numbers, "peak memory without state")->value == Approx(3));
  CHECK(find(numbers, "peak memory without state")->limit == Approx(2));
  CHECK(find(numbers, "start to first step")->limit == 10);
  CHECK(find(numbers, "step predicted, 1f1b")->value == Approx(100 * (0.13 / 0.12 - 1)));
  CHECK(find(numbers, "step predicted, 1f1b")->limit == 3);
  CHECK(find(numbers, "schedules ranked right")->value == 1);
  CHECK(find(numbers, "share of the limit") == nullptr);  // not measured
  CHECK_THAT(throughput_table({result}), Contains("llama2-7b-pp8") && Contains("1.250") && Contains("zb-v"));
  CHECK(shares_table({result}).empty());
}
