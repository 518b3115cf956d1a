#include "apps/simulate/simulate_costs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/options/option_files.hpp"
#include "core/parsing.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

using schedules::Placement;

namespace {

constexpr auto above_zero = NumberRange::from_to(schedules::smallest_cost, schedules::largest_cost);
constexpr auto zero_or_more = NumberRange::zero_or(schedules::smallest_cost, schedules::largest_cost);
constexpr int usual_collectives = 16;  // of F and of I of a stage

OptionRows action_rows() {
  constexpr const char* group = "Costs";
  return {
      {group, "forward", "T", "time of F of a whole stage and one microbatch, shared by its chunks; or one per stage: 1,1,2,1",
       above_zero, "1"},
      {group, "input-grad", "T", "the same of I; B takes I + W", above_zero, "1"},
      {group, "weight-grad", "T", "the same of W", above_zero, "1"},
      {group, "attention", "SHARE",
       "with slices: the share of F and of I that attention has, which grows from slice to slice; from 0 to 1",
       NumberRange::from_to(0, 1), "0"},
      {group, "tp-comm", "T",
       "time that exchanges between ranks of a stage (--tp, --ep) add to F and to I of a whole stage; braids (F3+B1) hide it",
       zero_or_more, "0"},
      {group, "tp-collectives", "N",
       "number of these exchanges in F and in I of a whole stage: 2 a block with sequence parallelism, else 1",
       IntegerRange{1, 4096}, fmt::format("{}", usual_collectives)},
      {group, "gather-weights", "T",
       "with weights that replicas divide (--zero 3) or that are offloaded (--offload parameters): time to transfer those of a whole stage, which F and I take at least",
       zero_or_more, "0"},
  };
}

OptionRows edge_rows() {
  constexpr const char* group = "Costs";
  return {
      {group, "p2p", "T",
       "time of a message between two stages, which delays only the receiver; or one per edge: between neighbours, then from the last stage to the first",
       zero_or_more, "0"},
      {group, "latency", "T", "instead of p2p: a message takes latency + message-bytes / bandwidth; also one per edge",
       zero_or_more, "0"},
      {group, "bandwidth", "BYTES/T", "bytes that an edge carries in one unit of time; also one per edge", above_zero,
       "no limit"},
      {group, "message-bytes", "N", "size of a microbatch's activation or gradient; also one per edge", zero_or_more},
      {group, "hosts", "N",
       "the stages are on N hosts, equally many in order on each; edges between two hosts take the following", IntegerRange{},
       "1"},
      {group, "host-latency", "T", "latency of edges between hosts", zero_or_more, "as the others"},
      {group, "host-bandwidth", "BYTES/T", "bytes that an edge between hosts carries in one unit of time", above_zero,
       "as the others"},
      {group, "measured", "FILE",
       "instead: links between several processes as doctor --measure measured them; stages are assigned to the processes in order, and all times are seconds"},
  };
}

OptionRows end_rows() {
  constexpr const char* group = "Costs";
  return {
      {group, "reduce-grads", "T", "end of step: time of R, the sum of a whole stage's gradients over replicas", zero_or_more,
       "no R"},
      {group, "overlapped-reduce", "T",
       "the same overlapped with compute, as in train: the sums begin with a chunk's last backward, and R takes what is left",
       zero_or_more, "no R"},
      {group, "publish-weights", "T",
       "with states that replicas divide (--zero 1, 2): time to transfer the new weights of a whole stage from their owners, overlapped with O, before the first F of the next step reads them",
       zero_or_more, "0"},
      {group, "sum-replicated", "T", "time of S, the sum over tensor-parallel ranks of what sequence parallelism replicates",
       zero_or_more, "no S"},
      {group, "sum-tied", "T", "time of T, the sum of tied weights' gradients over the first and the last stage", zero_or_more,
       "no T"},
      {group, "norm", "T", "time of N, a stage's part of the gradient norm; these five also one per stage", zero_or_more, "0"},
      {group, "optimizer-time", "T", "time of O, the optimizer", zero_or_more, "0"},
      {group, "verdict", "T", "time from the last N to the first O", zero_or_more, "0"},
      {group, "offload-time", "T",
       "time of P and of G, each a transfer of what a whole stage keeps of one microbatch, overlapped with compute; also one per stage",
       zero_or_more, "0"},
      {group, "custom", "NAME=T,...", "times of a plan's custom actions, by name", AnyText{}, "0"},
  };
}

// Gives the edges between stages of different hosts, each with as many stages in order, the times of their own.
void read_host_edges(const OptionValues& values, int pp, std::vector<schedules::Link>& edges) {
  const auto hosts = static_cast<int>(values.integer("hosts", {1, pp}).value_or(1));
  const auto latency = values.number("host-latency"), bandwidth = values.number("host-bandwidth");
  for (const char* name : {"host-latency", "host-bandwidth"})
    if (hosts == 1 && values.given(name))
      values.fail(name, "applies to edges between hosts, and there is one host; give --hosts too");
  if (hosts == 1) return;
  if (pp % hosts != 0) values.fail("hosts", fmt::format("do not share {} stages evenly; each has as many", pp));
  if (!latency && !bandwidth)
    values.fail("hosts", "needs the speed of the links between hosts; give --host-latency or --host-bandwidth");
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
    values.fail(
        "measured",
        fmt::format(
            "{} has no links, because one process measured it; let several measure together (pipetrain doctor --nnodes)",
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
  const auto read = [&](const char* name, double schedules::Link::*member) {
    const auto numbers = per_edge(values, name, pp);
    if (numbers.empty()) return;
    if (numbers.size() < times.edges.size()) times.edge_option = name, times.edges.resize(numbers.size());
    for (std::size_t edge = 0; edge < times.edges.size(); ++edge) times.edges[edge].*member = numbers[edge];
  };
  read("p2p", &schedules::Link::latency);
  read("latency", &schedules::Link::latency);
  read("bandwidth", &schedules::Link::bytes_per_time);
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
  using Times = std::vector<double> schedules::StageTimes::*;
  constexpr std::pair<const char*, Times> sums[] = {{"reduce-grads", &StepTimes::reduce_grads},
                                                    {"overlapped-reduce", &StepTimes::overlapped_reduce},
                                                    {"sum-replicated", &StepTimes::sum_replicated},
                                                    {"sum-tied", &StepTimes::sum_tied},
                                                    {"norm", &StepTimes::norm},
                                                    {"optimizer-time", &StepTimes::optimizer}};
  for (const auto& [name, member] : sums) {
    times.*member = per_stage(values, name, pp);
    times.ends = times.ends || values.given(name);
  }
  times.verdict = values.number("verdict").value_or(0);
  times.ends = times.ends || values.given("verdict");
  times.publish_weights = per_stage(values, "publish-weights", pp);
  if (values.given("publish-weights") && values.given("gather-weights"))
    values.fail(
        "publish-weights",
        "applies to replicas that keep all weights (--zero 1, 2), and --gather-weights to those that divide them (--zero 3); keep one of them");
}

// Reads a list such as "gather=0.5,send=1".
void read_custom(const OptionValues& values, StepTimes& times) {
  const auto text = values.text("custom");
  if (!text) return;
  for (const std::string_view one : split(*text, ',')) {
    const auto equals = one.find('=');
    const double time = equals == std::string_view::npos ? -1 : number_from<double>(one.substr(equals + 1)).value_or(-1);
    const bool is_time = time == 0 || (time >= schedules::smallest_cost && time <= schedules::largest_cost);
    if (!is_time || equals == 0)
      values.fail("custom", fmt::format("\"{}\" is not NAME=TIME with a time of 0 or from 1e-100 to 1e100", one));
    if (!times.custom.emplace(std::string(one.substr(0, equals)), time).second)
      values.fail("custom", fmt::format("gives {} twice; keep one of them", one.substr(0, equals)));
  }
}

}  // namespace

std::vector<double> per_stage(const OptionValues& values, const char* name, int pp) {
  auto numbers = values.numbers(name);
  if (numbers.empty()) return numbers;
  if (numbers.size() != 1 && std::ssize(numbers) != pp)
    values.fail(name, fmt::format("has {} values for {} stages; give one for all, or one per stage", numbers.size(), pp));
  if (numbers.size() == 1) numbers.resize(static_cast<std::size_t>(pp), numbers.front());
  return numbers;
}

std::vector<double> per_edge(const OptionValues& values, const char* name, int pp) {
  const auto numbers = values.numbers(name);
  const auto edges = static_cast<std::size_t>(pp), neighbours = edges - 1;
  if (numbers.size() == 1) return std::vector<double>(edges, numbers.front());
  if (numbers.empty() || (pp > 2 && (numbers.size() == edges || numbers.size() == neighbours))) return numbers;
  values.fail(
      name,
      pp < 3
          ? fmt::format("has {} values for {} stages; give one", numbers.size(), pp)
          : fmt::format(
                "has {} values for {} stages; give one for all, {} for the edges between neighbours, or {} with the edge from the last stage back to the first",
                numbers.size(), pp, neighbours, edges));
}

OptionRows step_time_rows() { return joined_rows({action_rows(), edge_rows(), end_rows()}); }

StepTimes read_step_times(const OptionValues& values, int pp) {
  StepTimes times;
  const auto of = [&](const char* name, double otherwise) {
    auto numbers = per_stage(values, name, pp);
    if (numbers.empty()) numbers.assign(static_cast<std::size_t>(pp), otherwise);
    return numbers;
  };
  times.forward = of("forward", 1);
  times.input_grad = of("input-grad", 1);
  times.weight_grad = of("weight-grad", 1);
  times.attention = values.number("attention").value_or(0);
  const auto exchanges = of("tp-comm", 0);
  for (std::size_t stage = 0; stage < exchanges.size(); ++stage) {
    times.forward[stage] += exchanges[stage];
    times.input_grad[stage] += exchanges[stage];
  }
  times.communication = exchanges;
  times.collectives = static_cast<int>(values.integer("tp-collectives").value_or(usual_collectives));
  if (values.given("tp-collectives") && !values.given("tp-comm"))
    values.fail("tp-collectives", "divides --tp-comm, which is not given; give it, or leave this out");
  const auto gathers = of("gather-weights", 0);  // each block's weights beside the block before
  for (std::size_t stage = 0; stage < gathers.size(); ++stage) {
    times.forward[stage] = std::max(times.forward[stage], gathers[stage]);
    times.input_grad[stage] = std::max(times.input_grad[stage], gathers[stage]);
  }
  read_edges(values, pp, times);
  times.moves = per_stage(values, "offload-time", pp);
  read_end_of_step(values, pp, times);
  read_custom(values, times);
  return times;
}

std::string StepTimes::why_not(const Placement& placement) const {
  if (schedules::edges_used(placement) <= std::ssize(edges)) return {};
  return fmt::format("has no value for the edge from the last stage back to the first, which its chunks use; give {} values",
                     placement.stages());
}

}  // namespace pipetrain
