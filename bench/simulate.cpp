// Measures the numbers promised for schedules: compares how long they wait and what they hold with their formulas, and
// auto with the best known plans; measures the speed of simulating and tuning, and how well a profile predicts its run.
// ./dev bench simulate [PART...]
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "bench/result.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/search/auto_schedule.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain;
using namespace pipetrain::schedules;
using bench::Limit;

namespace {

constexpr double rounding = 1e-9;

bool all_pass = true;

void expect(const std::string& name, double value, const std::string& unit, Limit kind, double limit) {
  // A value that differs from the formula's by rounding alone meets the limit.
  if (kind == Limit::at_most && value > limit && value <= limit + rounding * std::max(1.0, limit)) value = limit;
  if (!bench::report(name, value, unit, kind, limit)) all_pass = false;
}

struct Times {
  double f = 1, i = 1, w = 1;
  std::string name() const { return fmt::format("{:g}:{:g}:{:g}", f, i, w); }
};

Summary summary_of(const Plan& plan, const Times& t, double p2p = 0) {
  return summarize(simulate(plan, Costs::uniform(plan.placement, t.f, t.i, t.w, p2p)));
}

double most_held(const Summary& summary) {
  double held = 0;
  for (const auto& stage : summary.stages) held = std::max(held, stage.peak_activations);
  return held;
}

// over: time beyond the ideal time of uniform costs. held: on the worst stage (for 1f1b, stage 0).
void check_schedule(const char* name, const ScheduleShape& shape, const Times& t, double over, double held,
                    bool no_span_bubble = false) {
  const Summary summary = summary_of(build_schedule(name, shape), t);
  const std::string where = fmt::format("{} p={} m={}{} {}", name, shape.stages, shape.microbatches,
                                        shape.chunks > 1 ? fmt::format(" v={}", shape.chunks) : "", t.name());
  expect("over ideal, " + where, summary.makespan - shape.microbatches * (t.f + t.i + t.w), "time", Limit::at_most, over);
  if (held > 0) expect("held, " + where, most_held(summary), "microbatches", Limit::at_most, held);
  if (no_span_bubble) expect("span bubble, " + where, summary.span_bubble, "time", Limit::at_most, 0);
}

void formulas() {
  const Times even, uneven{10, 11, 8};
  for (const int p : {4, 8}) {
    const int m = 3 * p;
    for (const Times& t : {even, uneven}) {
      const double all = t.f + t.i + t.w;
      check_schedule("gpipe", {p, 1, m}, t, (p - 1) * all, m);
      check_schedule("1f1b", {p, 1, m}, t, (p - 1) * all, p);
      for (const int v : {2, 4}) check_schedule("interleaved", {p, v, m}, t, (p - 1) * all / v, p + (p - 1.0) / v);
      check_schedule("zb-h1", {p, 1, m}, t, (p - 1) * (t.f + t.i - t.w), p);
    }
    check_schedule("zb-h2", {p, 1, m}, even, p - 1, 2 * p - 1, true);
    check_schedule("zb-v", {p, 2, m}, even, (p - 1) / 2.0, p, true);
    for (const auto& [name, held] : {std::pair{"v-half", p == 4 ? 3.0 : 5.0},
                                     {"v-min", p == 4 ? 2.0 : 4.0},
                                     {"dualpipe-v", p + 0.5},
                                     {"braided-v", p + 0.5}})
      expect(fmt::format("held, {} p={}", name, p), most_held(summary_of(build_schedule(name, {p, 2, m}), even)),
             "microbatches", Limit::at_most, held);
  }
}

// With the memory of zb-h2 and of zb-h1: the time that auto waits, relative to theirs.
void auto_schedules() {
  for (const Times& t : {Times{1, 1, 1}, Times{10, 11, 8}, Times{18, 21, 11}})
    for (const int p : {4, 8})
      for (const int m : {24, 64})
        for (const char* peer : {"zb-h2", "zb-h1"}) {
          AutoRequest request;
          request.stages = p, request.microbatches = m;
          request.forward = {t.f}, request.input_grad = {t.i}, request.weight_grad = {t.w};
          const double p2p = 0.05 * t.f;
          request.edges.assign(static_cast<std::size_t>(p), {p2p});
          request.slots = {std::string(peer) == "zb-h2" ? 2.0 * p - 1 : p};
          const double ours = summary_of(build_auto(request), t, p2p).bubble_fraction;
          const double theirs = summary_of(build_schedule(peer, {p, 1, m}), t, p2p).bubble_fraction;
          expect(fmt::format("auto bubble over {}, p={} m={} {}", peer, p, m, t.name()), ours / theirs, "ratio", Limit::at_most,
                 1.05);
        }
}

double seconds_of(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

rusage usage_of(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage;
}

// All of this runs on one thread, so its processor time is its time on a core of its own, whatever else the machine does.
template <class Work>
double core_seconds(int who, const Work& work) {
  const double before = seconds_of(usage_of(who));
  work();
  return seconds_of(usage_of(who)) - before;
}

void speeds() {
  const Plan plan = build_schedule("1f1b", {64, 1, 16384});
  const auto needs = validate(plan);
  const Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
  double best = 1e9;
  for (int round = 0; round < 3; ++round)
    best = std::min(best, core_seconds(RUSAGE_SELF, [&] { simulate(plan, costs, needs); }));
  expect("simulated actions", 64.0 * 2 * 16384 / best / 1e6, "million/s", Limit::at_least, 10);

  expect("auto p=8 m=64",
         core_seconds(RUSAGE_SELF,
                      [] {
                        AutoRequest request;
                        request.stages = 8, request.microbatches = 64;
                        request.forward = {10}, request.input_grad = {11}, request.weight_grad = {8};
                        build_auto(request);
                      }),
         "s", Limit::at_most, 2);
}

std::string program() {
  const char* given = std::getenv("BENCH_PROGRAM");
  return given ? given : "build/pipetrain";
}

// Measures the program's core time and memory, in a process of its own.
void run_program(const char* name, const std::string& arguments, double most_seconds, double most_gib) {
  const std::string command = fmt::format("'{}' {} > /dev/null", program(), arguments);
  int status = 0;
  double took = 1e9;  // the best of three rounds
  for (int round = 0; round < 3 && status == 0; ++round)
    took = std::min(took, core_seconds(RUSAGE_CHILDREN, [&] { status = std::system(command.c_str()); }));
  if (status != 0) fmt::print(stderr, "{}: failed; run it through ./dev bench simulate\n", command), all_pass = false;
  expect(name, status == 0 ? took : 1e9, "s", Limit::at_most, most_seconds);
  if (most_gib > 0)  // the largest of all children so far
    expect(std::string(name) + ", memory", static_cast<double>(usage_of(RUSAGE_CHILDREN).ru_maxrss) / (1 << 20), "GiB",
           Limit::at_most, most_gib);
}

// Measures the difference between the simulated step and the run in which its costs were measured, one thread a stage.
void predictions() {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("pipetrain-profile-{}.json", ::getpid());
  for (const char* name : {"1f1b", "gpipe", "zb-h1"}) {
    std::vector<double> errors;
    for (int round = 0; round < 5; ++round) {
      const std::string command = fmt::format(
          "'{}' --device cpu --pp 2 --threads 1 --microbatches 8 --steps 20 --schedule {} --profile '{}' > /dev/null 2>&1",
          program(), name, file.string());
      if (std::system(command.c_str()) != 0) {
        fmt::print(stderr, "{}: failed; run it through ./dev bench simulate\n", command);
        errors.push_back(1e9);
        continue;
      }
      const Profile profile = read_profile(file);
      const Plan plan =
          with_end_of_step(build_schedule(name, {profile.pp, profile.chunks, profile.microbatches}), profile.end_of_step());
      const double predicted = summarize(simulate(plan, profile.costs())).makespan + profile.outside;
      errors.push_back(100 * std::abs(predicted / profile.step_seconds - 1));
    }
    std::nth_element(errors.begin(), errors.begin() + 2, errors.end());
    expect(fmt::format("step time predicted, {} pp=2, median of 5", name), errors[2], "% off", Limit::at_most, 5);
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
}

void programs() {
  run_program("tune, 64 devices", "tune --model llama2-7b --devices 64", 2, 0);
  run_program("simulate p=1024 m=8192 1f1b", "simulate --pp 1024 --microbatches 8192 --schedule 1f1b --json", 4, 2);
}

}  // namespace

// Runs all parts, or those named.
int main(int argc, char** argv) {
  constexpr std::pair<std::string_view, void (*)()> parts[] = {{"formulas", formulas},
                                                               {"auto", auto_schedules},
                                                               {"speeds", speeds},
                                                               {"programs", programs},
                                                               {"predictions", predictions}};
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  for (const auto name : wanted)
    if (std::none_of(std::begin(parts), std::end(parts), [&](const auto& part) { return part.first == name; })) {
      fmt::print(stderr, "{}: no such part; there are formulas, auto, speeds, programs and predictions\n", name);
      return 2;
    }
  for (const auto& [name, run] : parts)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) run();
  return all_pass ? 0 : 1;
}
