// doctor --measure by several processes, and the use of its file by simulate and tune.
#include <nlohmann/json.hpp>
#include <string>

#include "apps/measured_links.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "skip.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

// Three processes on two hosts; the link within the first host is ten times as fast as the others.
json three_processes() {
  const auto link = [](int one, int other, double rate, double latency) {
    return json{{"processes", {one, other}}, {"rate", rate}, {"latency", latency}};
  };
  return {{"format", "pipetrain devices"},
          {"version", 1},
          {"device", "cpu"},
          {"devices", 2},
          {"threads", 1},
          {"memory_bytes", 1e10},
          {"fp32_flops", 1e10},
          {"bf16_flops", nullptr},
          {"memory_rate", 1e10},
          {"block_overhead", 1e-6},
          {"link_rate", 1e10},
          {"latency", 1e-6},
          {"hosts", {0, 0, 1}},
          {"links", {link(0, 1, 1e9, 0.01), link(0, 2, 1e8, 0.02), link(1, 2, 1e8, 0.03)}}};
}

double makespan(const std::string& options) {
  const Result result = run("simulate --pp 3 --microbatches 6 --json " + options);
  INFO(options << ": " << result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out)[0]["makespan"];
}

}  // namespace

TEST_CASE("several processes measure the links between them, which simulate takes", "[launch]") {
  if (!has_ucx()) return test::skip("this build has no UCX");
  const TempFolder folder;
  const std::string file = (folder.path() / "links.json").string();
  const auto [first, second] = measure_links_into(file, "--device cpu");
  CHECK_THAT(first.out, Contains("process 0 to 1, on one host: ") && Contains("us over ucx"));
  CHECK_THAT(second.err, Contains("process 0 writes"));
  const json measured = json::parse(read_file(file));
  CHECK(measured["hosts"] == json{0, 0});
  REQUIRE(measured["links"].size() == 1);
  CHECK(measured["links"][0]["rate"].get<double>() > 0);
  CHECK(measured["links"][0]["latency"].get<double>() > 0);
  const std::string simulate = "simulate --pp 2 --message-bytes 1000 --measured '" + file + "'";
  CHECK(run(simulate).status == 0);
}

TEST_CASE("simulate gives every edge the link of its processes, and tune the slowest between hosts") {
  const TempFolder folder;
  const std::string file = folder.write("links.json", three_processes().dump()).string();
  const std::string times = "--forward 1 --input-grad 1 --weight-grad 1 ";
  CHECK(makespan(times + "--message-bytes 1e9 --measured " + file) == Approx(makespan(times + "--p2p 1.01,10.03,10.02")));

  const auto best = [&](const std::string& more) {
    const Result result = run("tune --json --model tiny --count 1 " + more);
    INFO(more << ": " << result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out)[0]["step_seconds"].get<double>();
  };
  // Four devices, two on each host, which share the link between the hosts.
  const std::string given =
      " --device cpu --memory 9.3132257 --tflops 0.01 --memory-bandwidth 10 --bandwidth 10 --latency 1 "
      "--block-overhead 1 --devices 4 --hosts 2 ";
  CHECK(best("--measured " + file) == Approx(best(given + "--host-bandwidth 0.05 --host-latency 30000")).epsilon(1e-6));
  CHECK(best("--measured " + file + " --host-latency 1") < best("--measured " + file));  // options take precedence
}

TEST_CASE("impossible measurements of links are refused") {
  const TempFolder folder;
  const auto wrong = [&](const auto& change) {
    json file = three_processes();
    change(file);
    return refused("tune --model tiny --measured '" + folder.write("links.json", file.dump()).string() + "'");
  };
  CHECK_THAT(wrong([](json& file) { file.erase("hosts"); }), Contains("hosts is missing"));
  CHECK_THAT(wrong([](json& file) {
               file["hosts"] = {0, 2, 1};
             }),
             Contains("hosts has 2, but hosts must count from 0 in order"));
  CHECK_THAT(wrong([](json& file) { file["hosts"] = {0}; }), Contains("hosts is no list of 2 to 64 numbers"));
  CHECK_THAT(wrong([](json& file) { file["links"].erase(2); }), Contains("links is no list of the 3 between 3 processes"));
  CHECK_THAT(wrong([](json& file) { file["links"][1]["processes"] = {1, 0}; }), Contains("processes 0 and 2"));
  CHECK_THAT(wrong([](json& file) { file["links"][0]["rate"] = 0; }), Contains("rate is 0, not a number from"));
  CHECK_THAT(wrong([](json& file) { file["links"][0] = 1; }), Contains("is missing"));
}

TEST_CASE("options of measured links that do not go together are refused") {
  const TempFolder folder;
  const std::string links = " --measured " + folder.write("links.json", three_processes().dump()).string();
  json alone = three_processes();
  alone.erase("hosts"), alone.erase("links");
  const std::string single = " --measured " + folder.write("alone.json", alone.dump()).string();
  CHECK_THAT(refused("simulate --pp 3" + links), Contains("needs --message-bytes too"));
  CHECK_THAT(refused("simulate --pp 4 --message-bytes 8" + links), Contains("3 processes, which do not share 4 stages evenly"));
  CHECK_THAT(refused("simulate --pp 3 --message-bytes 8 --latency 1" + links), Contains("--measured gives the links already"));
  CHECK_THAT(refused("simulate --pp 3 --message-bytes 8" + single), Contains("one process measured it"));
  CHECK_THAT(refused("doctor --transport ucx"), Contains("needs --measure FILE"));
  CHECK_THAT(refused("doctor --measure x.json --transport ucx"), Contains("between processes, and this run has one"));
  CHECK_THAT(refused("doctor --nnodes 2"), Contains("needs --measure FILE"));
  CHECK_THAT(refused("doctor --measure x.json --nnodes 2 --node-rank 0"), Contains("--master HOST:PORT is missing"));
  CHECK_THAT(refused("doctor --measure x.json --nnodes 65 --node-rank 0 --master 127.0.0.1:4000"),
             Contains("more than the 64"));
  CHECK_THAT(refused("doctor --measure x.json --nnodes 2 --node-rank 0 --master 10.0.0.1:4000"), Contains("needs a token"));
}
