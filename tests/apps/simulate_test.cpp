// pipetrain simulate: values compared with closed forms, files, and wrong input.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/simulate_program.hpp"
#include "catch.hpp"

using nlohmann::json;
using pipetrain::read_file;
using pipetrain::Result;
using pipetrain::TempFolder;
using pipetrain::simulate_program::simulate;
using pipetrain::simulate_program::simulated;
using pipetrain::simulate_program::wrong;
namespace fs = std::filesystem;

namespace {

void write_file(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

double largest(const json& values) {
  double most = 0;
  for (const auto& value : values) most = std::max(most, value.get<double>());
  return most;
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("simulate --json has the keys of the contract and 1f1b's closed form") {
  const json runs = simulated("--pp 4 --microbatches 8 --schedule 1f1b --forward 2 --input-grad 3 --weight-grad 4");
  REQUIRE(runs.size() == 1);
  const json& run = runs[0];
  std::vector<std::string> keys;
  for (const auto& [key, value] : run.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"actions", "bubble_fraction", "chunks", "ideal", "idle", "makespan", "microbatches",
                                         "peak_activations", "pp", "schedule", "span", "span_bubble", "valid"});
  CHECK(run["schedule"] == "1f1b");
  CHECK(run["ideal"] == 72);
  CHECK(run["makespan"] == 72 + 3 * 9);
  CHECK(run["bubble_fraction"].get<double>() == Approx(1 - 72.0 / 99));
  CHECK(run["actions"] == 4 * 16);
  CHECK(run["peak_activations"] == json({4, 3, 2, 1}));
  CHECK(run["idle"] == json({27, 27, 27, 27}));
  CHECK(run["span"] == json({99, 90, 81, 72}));
  CHECK(run["span_bubble"] == 27);
  CHECK(run["valid"] == true);
}

TEST_CASE("simulate: edges between hosts have times of their own") {
  const auto makespan = [](const std::string& options) {
    return simulated("--pp 4 --microbatches 8 --schedule 1f1b " + options)[0]["makespan"].get<double>();
  };
  CHECK(makespan("--p2p 0.1 --hosts 2 --host-latency 0.5") == makespan("--p2p 0.1,0.5,0.1,0.5"));
  CHECK(makespan("--p2p 0.1 --hosts 4 --host-latency 0.5") == makespan("--p2p 0.5"));
  CHECK(makespan("--hosts 2 --message-bytes 10 --host-bandwidth 20") == makespan("--p2p 0,0.5,0,0.5"));
  for (const auto& [options, why] : {std::pair("--hosts 3 --host-latency 1", "--hosts 3: do not share 4 stages evenly"),
                                     std::pair("--hosts 2", "--hosts 2: needs the speed of the links between hosts"),
                                     std::pair("--host-latency 1", "--host-latency 1: applies to edges between hosts"),
                                     std::pair("--hosts 2 --host-bandwidth 1", "needs --message-bytes too")}) {
    const Result result = simulate(std::string("--pp 4 ") + options);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains(why));
  }
}

TEST_CASE("simulate: every schedule's time and memory, sorted by time") {
  const json runs = simulated("--pp 4 --microbatches 12 --schedule all");
  REQUIRE(runs.size() == 12);
  double before = 0;
  std::map<std::string, json> by_name;
  for (const auto& run : runs) {
    CHECK(run["makespan"].get<double>() >= before);
    before = run["makespan"];
    by_name[run["schedule"]] = run;
  }
  const auto over = [&](const char* name) { return by_name.at(name)["makespan"].get<double>() - 36; };
  const auto held = [&](const char* name) { return largest(by_name.at(name)["peak_activations"]); };
  CHECK(over("gpipe") == 9);
  CHECK(held("gpipe") == 12);
  CHECK(over("1f1b") == 9);
  CHECK(over("interleaved") == Approx(4.5));
  CHECK(held("interleaved") == Approx(5.5));
  CHECK(over("zb-h1") == 3);
  CHECK(held("zb-h1") == 4);
  CHECK(over("zb-h2") == 3);
  CHECK(by_name.at("zb-h2")["span_bubble"] == 0);
  CHECK(held("zb-h2") == 7);
  CHECK(over("zb-v") == Approx(1.5));
  CHECK(by_name.at("zb-v")["span_bubble"].get<double>() == Approx(0).margin(1e-9));
  CHECK(held("zb-v") == 4);
  CHECK(held("v-half") == 3);
  CHECK(held("v-min") == 2);
  CHECK(held("dualpipe-v") == Approx(4.5));
  CHECK(held("braided-v") == Approx(4.5));
  CHECK(over("auto") <= Approx(over(runs[0]["schedule"].get<std::string>().c_str())));
}

TEST_CASE("simulate: costs per stage, messages, slots and chunks") {
  const json slow = simulated("--pp 2 --microbatches 6 --schedule gpipe --forward 1,3 --input-grad 1 --weight-grad 1,2");
  CHECK(slow[0]["ideal"] == 36);  // of the slower stage
  CHECK(slow[0]["makespan"] == 1 + 36 + 2);
  const json late = simulated("--pp 2 --microbatches 1 --schedule 1f1b --p2p 0.5");
  CHECK(late[0]["makespan"] == 1 + 0.5 + 3 + 0.5 + 2);
  const json three = simulated("--pp 2 --microbatches 4 --schedule interleaved --chunks 3");
  CHECK(three[0]["chunks"] == 3);
  CHECK(three[0]["makespan"].get<double>() == Approx(13));  // 12 + (p - 1) 3 / v
  for (const auto& run : simulated("--pp 4 --microbatches 12 --schedule auto --memory-slots 2"))
    CHECK(largest(run["peak_activations"]) <= 2);
  for (const char* slots : {"1,2,3,4", "2,1,2,1", "1,1,1,1", "4,1,1,3"}) {
    const json plan = simulated("--pp 4 --microbatches 6 --schedule auto --memory-slots " + std::string(slots));
    for (std::size_t stage = 0; stage < 4; ++stage)
      CHECK(plan[0]["peak_activations"][stage].get<double>() <= slots[2 * stage] - '0');
  }
  CHECK_THAT(simulate("--pp 4 --microbatches 12 --schedule 1f1b --memory-slots 2").out, Contains("* holds more"));
  for (const auto& [slots, fits] : {std::pair{"2", false}, {"4", true}})
    CHECK(simulated("--pp 4 --microbatches 12 --schedule 1f1b --memory-slots " + std::string(slots))[0]["fits_memory_slots"] ==
          fits);
}

TEST_CASE("simulate: messages take latency and bytes over bandwidth, on each edge its own") {
  const auto time = [](const std::string& arguments) {
    return simulated("--microbatches 1 --schedule " + arguments)[0]["makespan"].get<double>();
  };
  // Every message goes down the stages and, as a gradient, up again.
  CHECK(time("1f1b --pp 4 --p2p 0.1,0.2,0.4") == Approx(12 + 2 * 0.7));
  CHECK(time("1f1b --pp 4 --p2p 0.1,0.2,0.4,9") == Approx(12 + 2 * 0.7));  // nothing goes from the last stage to the first
  CHECK(time("1f1b --pp 3 --latency 0.5 --bandwidth 100 --message-bytes 25") == Approx(9 + 4 * 0.75));
  CHECK(time("1f1b --pp 3 --latency 0.5,0 --bandwidth 100,50 --message-bytes 25,100") == Approx(9 + 2 * (0.75 + 2)));
  CHECK(time("interleaved --pp 3 --p2p 0.1,0.2,0.4") == Approx(9 + 2 * (2 * 0.3 + 0.4)));  // twice down the stages
  CHECK(time("interleaved --pp 2 --p2p 0.1") == Approx(6 + 2 * 3 * 0.1));
  // It turns around at the last stage, so no edge leads back.
  CHECK(time("zb-v --pp 3 --p2p 0.1,0.2") == Approx(6.5 + 4 * 0.3));
  const Result all = simulate("--pp 4 --microbatches 4 --schedule all --p2p 0,0,1 --json");
  CHECK(all.status == 0);
  CHECK(json::parse(all.out).size() == 10);
  CHECK_THAT(all.err, Contains("interleaved is left out: --p2p has no value for the edge from the last stage back"));
}

TEST_CASE("simulate: tensor-parallel exchanges are part of F and I, and the end of the step takes its time") {
  const auto makespan = [](const std::string& arguments) {
    return simulated("--pp 2 --microbatches 4 --schedule 1f1b " + arguments)[0]["makespan"].get<double>();
  };
  CHECK(makespan("--tp-comm 0.5") == Approx(makespan("--forward 1.5 --input-grad 1.5")));
  const auto braided = [](const std::string& arguments) {
    return simulated("--pp 4 --microbatches 16 --schedule braided-v --tp-comm 0.2 " + arguments)[0];
  };
  CHECK(braided("")["ideal"].get<double>() == 48);
  CHECK(braided("")["makespan"].get<double>() == braided("--tp-collectives 16")["makespan"].get<double>());
  CHECK(braided("--tp-collectives 64")["makespan"].get<double>() < braided("")["makespan"].get<double>());
  CHECK(wrong("--tp-comm 1 --tp-collectives 0") == "--tp-collectives 0: must be at least 1");
  CHECK_THAT(wrong("--tp-collectives 4"), Contains("--tp-collectives 4: ") && Contains("--tp-comm"));
  CHECK(makespan("--gather-weights 0.5") == makespan(""));  // overlapped with compute
  CHECK(makespan("--gather-weights 0.5,3") == Approx(makespan("--forward 1,3 --input-grad 1,3")));
  CHECK(makespan("--optimizer-time 2") == Approx(makespan("") + 2));
  CHECK_THAT(simulate("--optimizer 2").err, Contains("--optimizer: unknown option; here it is --optimizer of train and tune, "
                                                     "or --optimizer-time of simulate"));
  CHECK(makespan("--norm 0.5,1 --optimizer-time 2 --verdict 0.25") >= makespan("") + 0.5 + 2.25);
  CHECK(makespan("--reduce-grads 3 --sum-replicated 0.5 --sum-tied 0.25") == Approx(makespan("") + 3.75));
  // Overlapped with the last backward, which takes 2.
  CHECK(makespan("--overlapped-reduce 2") == Approx(makespan("")));
  CHECK(makespan("--overlapped-reduce 5") == Approx(makespan("") + 3));
  CHECK(makespan("--overlapped-reduce 5 --reduce-grads 1") == Approx(makespan("") + 4));
  // Overlapped with O and the first F; the step waits only for stage 0's remainder.
  CHECK(makespan("--optimizer-time 2 --publish-weights 3") == Approx(makespan("--optimizer-time 2")));
  CHECK(makespan("--optimizer-time 2 --publish-weights 4,0") == Approx(makespan("--optimizer-time 2") + 1));
  CHECK(makespan("--publish-weights 0,2") == Approx(makespan("")));  // stage 1 has nothing to do before
  CHECK(simulated("--pp 2 --microbatches 4 --schedule zb-v --sum-tied 1 --norm 1")[0]["actions"] == 2 * 24 + 1 + 2 * 2);
  const Result drawn = simulate("--pp 2 --microbatches 2 --schedule 1f1b --reduce-grads 1 --optimizer-time 1");
  CHECK_THAT(drawn.out, Contains("+"));
}

TEST_CASE("simulate: jitter is the same for the same seed and grows the p95") {
  const std::string arguments = "--pp 4 --microbatches 8 --schedule 1f1b --jitter 0.2 --runs 20 --seed ";
  const json one = simulated(arguments + "1"), again = simulated(arguments + "1"), other = simulated(arguments + "2");
  CHECK(one == again);
  CHECK(one != other);
  CHECK(one[0]["jitter"]["runs"] == 20);
  CHECK(one[0]["jitter"]["p95"].get<double>() >= one[0]["jitter"]["median"].get<double>());
  CHECK(one[0]["jitter"]["median"].get<double>() > 33);  // waiting for the slowest stage makes it longer
}

TEST_CASE("simulate draws tables and a timeline in 80 columns") {
  const Result result = simulate("--pp 4 --microbatches 8 --schedule 1f1b");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("\n0 F0F1F2F3............B0  F4B1"));
  for (const char* arguments :
       {"--pp 4 --microbatches 8", "--pp 48 --microbatches 48 --schedule all", "--schedule zb-v --jitter 0.1"}) {
    std::istringstream lines(simulate(arguments).out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
}

TEST_CASE("simulate writes its files whole, and none when something is wrong") {
  const TempFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string shape = "--pp 2 --microbatches 4 --schedule zb-v ";
  const Result result = simulate(shape + "--svg " + at("a.svg") + " --html " + at("a.html") + " --trace " + at("a.json") +
                                 " --csv " + at("a.csv") + " --plan-out " + at("a.txt"));
  REQUIRE(result.status == 0);
  CHECK_THAT(read_file(at("a.svg")), Contains("</svg>"));
  CHECK_THAT(read_file(at("a.html")), Contains("</html>"));
  std::size_t events = 0;
  const json trace = json::parse(read_file(at("a.json")));
  for (const auto& event : trace["traceEvents"]) events += event["ph"] == "X";
  CHECK(events == 2 * 2 * 4 * 3);
  const std::string rows = read_file(at("a.csv"));
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 1 + 48);
  CHECK(files_in(folder.path()) == 5);

  // Plans are read back unchanged, in both formats.
  CHECK(simulated("--schedule " + at("a.txt")) == simulated(shape));
  REQUIRE(simulate(shape + "--plan-out " + at("zb-v.csv")).status == 0);
  CHECK(simulated("--schedule " + at("zb-v.csv")) == simulated(shape));

  const TempFolder empty;
  CHECK_THAT(wrong(shape + "--svg " + (empty.path() / "a.svg").string() + " --csv " + (empty.path() / "no/a.csv").string()),
             Contains("there is no folder"));
  CHECK_THAT(wrong(shape + "--plan-out " + (empty.path() / "a.plan").string()), Contains("must end in .txt"));
  CHECK(files_in(empty.path()) == 0);
}

TEST_CASE("simulate names what is wrong in one line") {
  CHECK(wrong("--schedule 1f1c") == "--schedule 1f1c: unknown schedule; did you mean 1f1b?");
  CHECK_THAT(wrong("--schedule xyzzy"), Contains("use one of gpipe, 1f1b"));
  CHECK(wrong("--forward 0") == "--forward 0: must be a number from 1e-100 to 1e+100");
  CHECK(wrong("--forward 1,-1,1,1") == "--forward 1,-1,1,1: must be a number from 1e-100 to 1e+100");
  CHECK(wrong("--input-grad=-1") == "--input-grad -1: must be a number from 1e-100 to 1e+100");
  CHECK(wrong("--weight-grad nan") == "--weight-grad nan: must be a number from 1e-100 to 1e+100");
  CHECK(wrong("--p2p=-0.1") == "--p2p -0.1: must be 0 or a number from 1e-100 to 1e+100");
  CHECK(wrong("--p2p inf") == "--p2p inf: must be 0 or a number from 1e-100 to 1e+100");
  CHECK_THAT(wrong("--pp 4 --forward 1,2"), Contains("2 values for 4 stages"));
  CHECK_THAT(wrong("--pp 4 --p2p 1,2"),
             Contains("2 values for 4 stages; give one for all, 3 for the edges between neighbours"));
  CHECK_THAT(wrong("--pp 2 --p2p 1,2"), Contains("2 values for 2 stages; give one"));
  CHECK(wrong("--p2p 0,nan,0") == "--p2p 0,nan,0: must be 0 or a number from 1e-100 to 1e+100");
  CHECK_THAT(wrong("--pp 3 --schedule interleaved --p2p 1,1"), Contains("give 3 values"));
  for (const char* name : {"latency", "message-bytes", "tp-comm", "gather-weights", "reduce-grads", "sum-replicated",
                           "overlapped-reduce", "publish-weights", "sum-tied", "norm", "optimizer-time", "verdict"})
    for (const char* value : {"-1", "nan", "inf", "x"})
      CHECK(wrong("--" + std::string(name) + "=" + value) ==
            "--" + std::string(name) + " " + value + ": must be 0 or a number from 1e-100 to 1e+100");
  for (const char* value : {"0", "-1", "nan", "inf"})
    CHECK(wrong("--message-bytes 1 --bandwidth=" + std::string(value)) ==
          "--bandwidth " + std::string(value) + ": must be a number from 1e-100 to 1e+100");
  CHECK_THAT(wrong("--bandwidth 10"), Contains("needs --message-bytes"));
  CHECK_THAT(wrong("--message-bytes 10"), Contains("needs --bandwidth"));
  CHECK_THAT(wrong("--latency 1 --p2p 1"), Contains("keep one of them"));
  CHECK_THAT(wrong("--publish-weights 1 --gather-weights 1"),
             Contains("--publish-weights 1: ") && Contains("keep one of them"));
  CHECK(wrong("--pp 0") == "--pp 0: must be at least 1");
  CHECK(wrong("--memory-slots 0") == "--memory-slots 0: must be a number from 1 to 16777216");
  CHECK_THAT(wrong("--schedule zb-v --chunks 3"), Contains("has 2 chunks"));
  CHECK_THAT(wrong("--schedule v-min --order ready"), Contains("no rule for what is ready"));
  CHECK_THAT(wrong("--pp 3 --schedule interleaved --chunks 2 --layers 4"), Contains("4 layers do not divide"));
  CHECK_THAT(wrong("--pp 9 --layers 4"), Contains("more than the 8 blocks"));
  CHECK_THAT(wrong("--pp 60000 --microbatches 1000000"), Contains("use fewer"));
  CHECK(wrong("--pp 1 --microbatches 30000000") ==
        "--microbatches 30000000: pp 1 x chunks 1 x microbatches 30000000 is 30000000, more than 16777216, the most that is "
        "simulated; use fewer");
  CHECK_THAT(wrong("--pp 64 --microbatches 8192 --schedule auto"), Contains("more than 262144, the most that auto searches"));
  CHECK_THAT(wrong("--pp 1024 --microbatches 8192 --jitter 0.1 --runs 1000000"), Contains("--runs 1000000: "));
  CHECK_THAT(wrong("--schedul 1f1b"), Contains("did you mean --schedule?"));
  CHECK_THAT(wrong("--schedule missing.txt"), Contains("missing.txt"));
  CHECK_THAT(wrong("--runs 5"), Contains("--runs 5: ") && Contains("--jitter"));
  for (const char* option : {"forward", "input-grad", "weight-grad", "verdict", "message-bytes", "p2p"})
    for (const char* value : {"5e-324", "1e-320", "1e308"})
      CHECK_THAT(wrong("--schedule interleaved --" + std::string(option) + " " + value),
                 Contains("must be") && Contains("a number from 1e-100 to 1e+100"));
  CHECK_THAT(wrong("--message-bytes 1 --bandwidth 1e-320"), Contains("--bandwidth 1e-320: must be a number from 1e-100"));
  CHECK_THAT(wrong("--jitter 1000"), Contains("--jitter 1000: must be a number from 0 to 10"));
}

TEST_CASE("simulate shows how far the solver's plan can be from the best, and writes it") {
  const TempFolder folder;
  const std::string plan = (folder.path() / "plan.txt").string();
  const json solved = simulated("--pp 4 --microbatches 8 --schedule solver --chunks 1 --memory-slots 2 --plan-out " + plan)[0];
  CHECK(solved["makespan"] == 41);  // auto: 43
  CHECK(solved["bound"] == 41);
  CHECK(solved["gap"] == 0);
  CHECK(solved["solver"]["ended"] == "proved");
  CHECK(solved["fits_memory_slots"] == true);
  CHECK(simulated("--schedule " + plan)[0]["makespan"] == 41);
  const std::string open =
      "--pp 8 --microbatches 24 --schedule solver --memory-slots 4 --norm 1 --optimizer-time 2 --verdict 0.5 ";
  const json one = simulated(open + "--solver-iterations 3000")[0], same = simulated(open + "--solver-iterations 3000")[0];
  CHECK(one == same);
  CHECK(one["solver"]["ended"] == "iterations");
  CHECK(one["gap"].get<double>() > 0);
  CHECK(one["gap"].get<double>() == Approx(1 - one["bound"].get<double>() / one["makespan"].get<double>()));
  CHECK_THAT(simulate(open + "--solver-seconds 0.05").out, Contains("solver: no order takes less than") && Contains("gap"));
  CHECK_THAT(simulate("--pp 3 --microbatches 3 --schedule solver").out, Contains("the best order there is"));
  for (const auto& row : simulated("--pp 2 --microbatches 4 --schedule all")) CHECK(row["schedule"] != "solver");
  CHECK(wrong("--schedule 1f1b --solver-seconds 3") ==
        "--solver-seconds 3: only the schedule solver takes it; add --schedule solver");
  CHECK_THAT(wrong("--schedule all --solver-iterations 3"), Contains("only the schedule solver takes it"));
  CHECK_THAT(wrong("--schedule solver --solver-seconds 0"), Contains("--solver-seconds 0: must be a number from 0.001"));
  CHECK_THAT(wrong("--schedule solver --solver-iterations 0"), Contains("--solver-iterations 0: must be"));
  CHECK_THAT(wrong("--schedule solver --order ready"), Contains("no rule for what is ready"));
  CHECK_THAT(wrong("--schedule solver --chunks 3"), Contains("has 1 or 2 chunks"));
  CHECK_THAT(wrong("--schedule solver --activation-offload-fraction 0.5"), Contains("solver plans no moves"));
  CHECK_THAT(wrong("--pp 64 --microbatches 8192 --schedule solver"), Contains("the most that solver searches"));
}

TEST_CASE("simulate takes the smallest and the largest times that it allows") {
  for (const std::string times :
       {"--forward 1e-100 --input-grad 1e-100 --weight-grad 1e-100", "--forward 1e100 --p2p 1e100 --norm 1e100",
        "--forward 1e-100 --input-grad 1e100 --message-bytes 1e100 --bandwidth 1e-100", "--forward 1e100 --jitter 10"})
    for (const auto& schedule : simulated("--pp 3 --microbatches 5 --schedule all --verdict 1 " + times)) {
      CAPTURE(times, schedule["schedule"]);
      CHECK(schedule["makespan"].get<double>() > 0);
      CHECK(std::isfinite(schedule["makespan"].get<double>()));
      CHECK(std::isfinite(schedule["bubble_fraction"].get<double>()));
    }
}

TEST_CASE("simulate gives a critical path even if the end of the step takes no time") {
  for (const std::string end : {"--verdict 1", "--norm 1", "--reduce-grads 0", "--sum-tied 0", "--sum-tied 0 --verdict 1"}) {
    const Result result = simulate("--pp 3 --microbatches 4 --schedule all " + end);
    INFO(end);
    CHECK(result.status == 0);
    CHECK_THAT(result.out, Contains("critical path"));
  }
}

TEST_CASE("simulate names file, line, action and rule of a wrong plan") {
  const TempFolder folder;
  const std::string text = (folder.path() / "plan.txt").string(), csv = (folder.path() / "plan.csv").string();
  const std::string head = "schedule: mine\nmicrobatches: 2\n";
  write_file(text, head + "stage 0: F0 F1 B0 B1\nstage 1: F0 B0 B1 F1\n");
  CHECK_THAT(wrong("--schedule " + text), Contains(text + ":4: ") && Contains("B1"));
  write_file(text, head + "stage 0: F0 F1 B0\nstage 1: F0 B0 F1 B1\n");
  CHECK_THAT(wrong("--schedule " + text), Contains(text + ":3: ") && Contains("B1"));
  write_file(text, head + "stage 0: F0 F1 B0 Z1\nstage 1: F0 B0 F1 B1\n");
  CHECK_THAT(wrong("--schedule " + text), Contains(text + ":3: ") && Contains("\"Z1\" is not an action"));
  write_file(csv, "0F0,0F1,0B1,0B0\n1F0,1B0,1F1,1B1\n");
  CHECK_THAT(wrong("--schedule " + csv), Contains(csv + ":1: ") && Contains("B1"));
  write_file(text, head + "stage 0: F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n");
  CHECK(simulated("--schedule " + text)[0]["schedule"] == "mine");
  CHECK_THAT(wrong("--pp 3 --schedule " + text), Contains("has pp 2"));
}

TEST_CASE("simulate moves activations as train does: less is kept, and transfers hide while they are short") {
  const auto one = [](const std::string& options) {
    return simulated("--pp 8 --microbatches 16 --schedule 1f1b " + options)[0];
  };
  const json plain = one(""), moved = one("--activation-offload-fraction 1 --offload-time 1.5");
  CHECK(moved["makespan"] == plain["makespan"]);
  CHECK(largest(moved["peak_activations"]) < largest(plain["peak_activations"]));
  CHECK(one("--activation-offload-fraction 1 --offload-time 6")["makespan"].get<double>() > plain["makespan"].get<double>());
  CHECK(one("--activation-offload-fraction 0.5 --offload-time 6")["makespan"].get<double>() <
        one("--activation-offload-fraction 1 --offload-time 6")["makespan"].get<double>());

  const TempFolder folder;
  const std::string plan = (folder.path() / "plan.txt").string(), trace = (folder.path() / "trace.json").string();
  simulated("--pp 8 --microbatches 16 --schedule 1f1b --activation-offload-fraction 1 --offload-time 1.5 --plan-out " + plan +
            " --trace " + trace);
  CHECK_THAT(read_file(plan), Contains("P0") && Contains("G0"));
  CHECK(simulated("--schedule " + plan + " --offload-time 1.5")[0]["peak_activations"] == moved["peak_activations"]);
  const json events = json::parse(read_file(trace))["traceEvents"];
  std::size_t rows = 0;
  for (const json& event : events)
    if (event["name"] == "thread_name" && event["args"]["name"] == "stage 0 offloads") ++rows;
  CHECK(rows == 1);

  CHECK_THAT(wrong("--pp 2 --schedule 1f1b --activation-offload-fraction 1"), Contains("no activations wait long enough"));
  CHECK_THAT(wrong("--pp 8 --activation-offload-fraction 1 --order ready"),
             Contains("--order ready: activations are moved in the plan's order"));
  CHECK_THAT(wrong("--schedule " + plan + " --activation-offload-fraction 1"), Contains("moves activations already"));
  CHECK_THAT(wrong("--schedule " + plan + " --order ready"), Contains("no rule for what is ready"));
  CHECK_THAT(wrong("--schedule " + plan + " --plan-out " + (folder.path() / "plan.csv").string()),
             Contains("has no moves of activations"));
}

TEST_CASE("simulate predicts what steps that begin before the verdict leave of the pause between two steps") {
  const std::string ends = " --norm 0.05 --optimizer-time 0.25 --post-validation on ";
  for (const char* schedule : {"zb-h2", "zb-v"}) {
    const json one = simulated("--pp 4 --microbatches 16 --schedule " + std::string(schedule) + ends)[0];
    const json &off = one["post_validation"]["off"], &on = one["post_validation"]["on"];
    INFO(one);
    CHECK(off["step"].get<double>() == Approx(one["makespan"].get<double>()));
    CHECK(on["step"].get<double>() < off["step"].get<double>() - 0.5);
    CHECK(on["bubble_fraction"].get<double>() < 0.5 * off["bubble_fraction"].get<double>());
  }
  const json plain = simulated("--pp 4 --microbatches 16 --post-validation on")[0];  // 1f1b, whose first stage ends last
  CHECK(plain["post_validation"]["on"]["step"] == plain["post_validation"]["off"]["step"]);
  CHECK_FALSE(simulated("--pp 4 --post-validation off")[0].contains("post_validation"));

  const auto refusal = [](const std::string& options) {
    return wrong("--pp 8 --microbatches 16 --post-validation on " + options);
  };
  CHECK_THAT(refusal("--order ready"), Contains("--post-validation on: a step begins early in the planned order only"));
  CHECK_THAT(refusal("--slices 2"), Contains("--post-validation on: slices"));
  CHECK_THAT(refusal("--activation-offload-fraction 1"),
             Contains("--post-validation on: a step that begins early needs states on the device"));
  CHECK_THAT(refusal("--publish-weights 1"), Contains("leave out gather-weights and publish-weights"));
  CHECK_THAT(refusal("--jitter 0.1"), Contains("without jitter"));
  CHECK_THAT(refusal("--schedule braided-v --tp-comm 0.2"), Contains("the communication that braids hide"));
  const Result all = simulate("--pp 4 --microbatches 8 --schedule all --tp-comm 0.2 --post-validation on");
  CHECK(all.status == 0);
  CHECK_THAT(all.err, Contains("braided-v is simulated for one step alone: the communication that braids hide"));
  CHECK_THAT(all.out, Contains("zb-v: consecutive steps take"));
  CHECK_THAT(wrong("--pp 1024 --microbatches 8192 --post-validation on"), Contains("the most that is simulated over steps"));
}

TEST_CASE("simulate shows what a month of failures leaves with restarts and with takeovers") {
  const std::string shape = "--pp 16 --microbatches 64 --schedule zb-h1 --failures --step-time 12 ";
  const json months = simulated(shape);
  REQUIRE(months.size() == 8);  // 1,024 and 16,384 GPUs, without and with spares, two ways to recover
  for (std::size_t i = 0; i < months.size(); i += 2) {
    const json &restarts = months[i], &takeovers = months[i + 1];
    INFO(restarts << takeovers);
    CHECK(restarts["recovery"] == "restart");
    CHECK(takeovers["recovery"] == "takeover");
    CHECK(takeovers["goodput"].get<double>() > restarts["goodput"].get<double>());
    for (const json& month : {restarts, takeovers}) {
      double sum = 0;
      for (const char* share : {"goodput", "repeated", "down", "slowed", "saving"}) sum += month[share].get<double>();
      CHECK(sum == Approx(1));
    }
  }
  CHECK(months[6]["spares"] == 21);
  CHECK(months[6]["failures"].get<double>() == Approx(0.00379 * 2048 * 30).epsilon(0.05));
  CHECK(simulated(shape + "--gpus 128 --spares 0")[0]["slowdown"].get<double>() > 1.5);  // a replica of which a stage waits
  const Result table = simulate(shape + "--gpus 1024");
  CHECK(table.status == 0);
  CHECK_THAT(table.out, Contains("30 days on 1024 GPUs (128 hosts): a failure every 49.5 h"));

  CHECK_THAT(wrong("--failures"), Contains("--failures: needs the seconds of a step"));
  CHECK_THAT(wrong("--spares 3"), Contains("--spares 3: applies to a month of failures"));
  CHECK_THAT(wrong(shape + "--gpus 1000"), Contains("1000 GPUs are no whole number of replicas"));
}
