#include "apps/simulate/simulate_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "apps/options/option_files.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

using schedules::Placement;

namespace {

constexpr auto above_zero = OptionValues::Range::from_to(schedules::smallest_cost, schedules::largest_cost);
constexpr auto zero_or_more = OptionValues::Range::zero_or(schedules::smallest_cost, schedules::largest_cost);

// Gives the edges between stages of different hosts, each with as many stages in order, the times of their own.
void read_host_edges(const OptionValues& values, int pp, std::vector<schedules::Link>& edges) {
  const auto hosts = static_cast<int>(values.integer("hosts", 1, pp).value_or(1));
  const auto latency = values.number("host-latency", zero_or_more), bandwidth = values.number("host-bandwidth", above_zero);
  for (const char* name : {"host-latency", "host-bandwidth"})
    if (hosts == 1 && values.given(name)) values.fail(name, "is of edges between hosts, and there is one; give --hosts too");
  if (hosts == 1) return;
  if (pp % hosts != 0) values.fail("hosts", fmt::format("do not share {} stages evenly; each has as many", pp));
  if (!latency && !bandwidth)
    values.fail("hosts", "needs what tells their links apart; give --host-latency or --host-bandwidth");
  if (bandwidth && !values.given("message-bytes")) values.fail("host-bandwidth", "needs --message-bytes too; give it");
  const auto host = [&](std::size_t stage) { return static_cast<int>(stage) % pp / (pp / hosts); };
  for (std::size_t edge = 0; edge < edges.size(); ++edge) {
    if (host(edge) == host(edge + 1)) continue;
    if (latency) edges[edge].latency = *latency;
    if (bandwidth) edges[edge].bytes_per_time = *bandwidth;
  }
}

// Gives the edges between stages of different processes, to which they are dealt in order, what doctor measured of their links.
void read_measured_edges(const OptionValues& values, int pp, StepTimes& times) {
  const auto file = values.text("measured");
  if (!file) return;
  for (const char* name : {"p2p", "latency", "bandwidth", "hosts", "host-latency", "host-bandwidth"})
    if (values.given(name)) values.fail(name, "--measured gives the links already; keep one of them");
  if (!values.given("message-bytes")) values.fail("measured", "needs --message-bytes too; give it");
  check_input_file(values, "measured");
  const MeasuredDevices measured = read_measured_devices(*file);
  if (measured.processes() == 1)
    values.fail("measured", fmt::format("{} knows no links: one process measured it; let several measure together "
                                        "(pipetrain doctor --nnodes)",
                                        *file));
  if (pp % measured.processes() != 0)
    values.fail("measured",
                fmt::format("{} has {} processes, which do not share {} stages evenly; give a multiple of them as --pp", *file,
                            measured.processes(), pp));
  const auto process = [&](std::size_t stage) { return static_cast<int>(stage) % pp / (pp / measured.processes()); };
  for (std::size_t edge = 0; edge < times.edges.size(); ++edge) {
    if (process(edge) == process(edge + 1)) continue;
    const MeasuredLink& link = measured.link(process(edge), process(edge + 1));
    times.edges[edge].latency = link.latency;
    times.edges[edge].bytes_per_time = link.rate;
  }
  times.seconds = true;
}

void read_edges(const OptionValues& values, int pp, StepTimes& times) {
  times.edges.assign(static_cast<std::size_t>(pp), schedules::Link{});
  const auto read = [&](const char* name, double schedules::Link::*member, const OptionValues::Range& range = zero_or_more) {
    const auto numbers = per_edge(values, name, pp, range);
    if (numbers.empty()) return;
    if (numbers.size() < times.edges.size()) times.edge_option = name, times.edges.resize(numbers.size());
    for (std::size_t edge = 0; edge < times.edges.size(); ++edge) times.edges[edge].*member = numbers[edge];
  };
  read("p2p", &schedules::Link::latency);
  read("latency", &schedules::Link::latency);
  read("bandwidth", &schedules::Link::bytes_per_time, above_zero);
  read("message-bytes", &schedules::Link::bytes);
  for (const char* name : {"latency", "bandwidth", "message-bytes"})
    if (values.given("p2p") && values.given(name))
      values.fail(name, "--p2p gives the time of a message already; keep one of them");
  for (const auto& [name, other] : {std::pair{"bandwidth", "message-bytes"}, {"message-bytes", "bandwidth"}})
    if (values.given(name) && !values.given(other) && !values.given("host-bandwidth") && !values.given("measured"))
      values.fail(name, fmt::format("needs --{} too; give it", other));
  read_host_edges(values, pp, times.edges);
  read_measured_edges(values, pp, times);
}

void read_end_of_step(const OptionValues& values, int pp, StepTimes& times) {
  times.reduce_grads = per_stage(values, "reduce-grads", pp, zero_or_more);
  times.overlapped_reduce = per_stage(values, "overlapped-reduce", pp, zero_or_more);
  times.publish_weights = per_stage(values, "publish-weights", pp, zero_or_more);
  if (values.given("publish-weights") && values.given("gather-weights"))
    values.fail("publish-weights",
                "is of replicas that keep all weights (--zero 1, 2), and --gather-weights of those that "
                "divide them (--zero 3); keep one of them");
  times.sum_replicated = per_stage(values, "sum-replicated", pp, zero_or_more);
  times.sum_tied = per_stage(values, "sum-tied", pp, zero_or_more);
  times.norm = per_stage(values, "norm", pp, zero_or_more);
  times.optimizer = per_stage(values, "optimizer-time", pp, zero_or_more);
  times.verdict = values.number("verdict", zero_or_more).value_or(0);
  for (const char* name :
       {"reduce-grads", "overlapped-reduce", "sum-replicated", "sum-tied", "norm", "optimizer-time", "verdict"})
    times.ends = times.ends || values.given(name);
}

// An option or the plan says which activations move.
void read_moves(const OptionValues& values, int pp, StepTimes& times) {
  times.moves = per_stage(values, "offload-time", pp, zero_or_more);
}

// "gather=0.5,send=1"
void read_custom(const OptionValues& values, StepTimes& times) {
  std::istringstream all(values.text("custom").value_or(""));
  for (std::string one; std::getline(all, one, ',');) {
    const auto equals = one.find('=');
    const std::string number = equals == std::string::npos ? "" : one.substr(equals + 1);
    double time = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), time);
    const bool is_time = error == std::errc() && end == number.data() + number.size() &&
                         (time == 0 || (time >= schedules::smallest_cost && time <= schedules::largest_cost));
    if (!is_time || equals == 0)
      values.fail("custom", fmt::format("\"{}\" is not NAME=TIME with a time of 0 or from 1e-100 to 1e100", one));
    if (!times.custom.emplace(one.substr(0, equals), time).second)
      values.fail("custom", fmt::format("gives {} twice; keep one of them", one.substr(0, equals)));
  }
}

}  // namespace

std::vector<double> per_stage(const OptionValues& values, const char* name, int pp, const OptionValues::Range& range) {
  auto numbers = values.numbers(name, range);
  if (numbers.empty()) return numbers;
  if (numbers.size() != 1 && std::ssize(numbers) != pp)
    values.fail(name, fmt::format("has {} values for {} stages; give one for all, or one per stage", numbers.size(), pp));
  if (numbers.size() == 1) numbers.resize(static_cast<std::size_t>(pp), numbers.front());
  return numbers;
}

std::vector<double> per_edge(const OptionValues& values, const char* name, int pp, const OptionValues::Range& range) {
  const auto numbers = values.numbers(name, range);
  const auto edges = static_cast<std::size_t>(pp), neighbours = edges - 1;
  if (numbers.size() == 1) return std::vector<double>(edges, numbers.front());
  if (numbers.empty() || (pp > 2 && (numbers.size() == edges || numbers.size() == neighbours))) return numbers;
  values.fail(name, pp < 3 ? fmt::format("has {} values for {} stages; give one", numbers.size(), pp)
                           : fmt::format("has {} values for {} stages; give one for all, {} for the edges between neighbours, "
                                         "or {} with the edge from the last stage back to the first",
                                         numbers.size(), pp, neighbours, edges));
}

const std::vector<std::string>& step_time_options() {
  static const std::vector<std::string> names = {
      "forward",           "input-grad",      "weight-grad",   "tp-comm",        "gather-weights", "p2p",      "latency",
      "bandwidth",         "message-bytes",   "reduce-grads",  "sum-tied",       "sum-replicated", "norm",     "optimizer-time",
      "verdict",           "hosts",           "host-latency",  "host-bandwidth", "custom",         "measured", "offload-time",
      "overlapped-reduce", "publish-weights", "tp-collectives"};
  return names;
}

StepTimes read_step_times(const OptionValues& values, int pp) {
  StepTimes times;
  const auto of = [&](const char* name, const OptionValues::Range& range, double otherwise) {
    auto numbers = per_stage(values, name, pp, range);
    if (numbers.empty()) numbers.assign(static_cast<std::size_t>(pp), otherwise);
    return numbers;
  };
  times.forward = of("forward", above_zero, 1);
  times.input_grad = of("input-grad", above_zero, 1);
  times.weight_grad = of("weight-grad", above_zero, 1);
  times.attention =
      values.number("attention", {.minimum = 0, .has_maximum = true, .maximum = 1, .with_maximum = true}).value_or(0);
  const auto exchanges = of("tp-comm", zero_or_more, 0);
  for (std::size_t stage = 0; stage < exchanges.size(); ++stage) {
    times.forward[stage] += exchanges[stage];
    times.input_grad[stage] += exchanges[stage];
  }
  times.tp_communication = exchanges;
  times.tp_collectives = static_cast<int>(values.integer("tp-collectives", 1, 4096).value_or(16));
  if (values.given("tp-collectives") && !values.given("tp-comm"))
    values.fail("tp-collectives", "says in how many pieces --tp-comm comes, which is not given; give it, or leave this out");
  const auto gathers = of("gather-weights", zero_or_more, 0);  // each block's weights beside the block before
  for (std::size_t stage = 0; stage < gathers.size(); ++stage) {
    times.forward[stage] = std::max(times.forward[stage], gathers[stage]);
    times.input_grad[stage] = std::max(times.input_grad[stage], gathers[stage]);
  }
  read_edges(values, pp, times);
  read_moves(values, pp, times);
  read_end_of_step(values, pp, times);
  read_custom(values, times);
  return times;
}

std::string StepTimes::why_not(const Placement& placement) const {
  if (schedules::edges_used(placement) <= std::ssize(edges)) return {};
  return fmt::format("says nothing of the edge from the last stage back to the first, which its chunks take; give {} values",
                     placement.stages());
}

}  // namespace pipetrain
