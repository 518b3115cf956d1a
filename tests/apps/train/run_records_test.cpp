// The records that a run leaves: its trace, and its profile, from which simulate predicts other runs.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/simulate_program.hpp"
#include "catch.hpp"

using nlohmann::json;
using pipetrain::read_file;
using pipetrain::TempFolder;
using pipetrain::simulate_program::simulate;
using pipetrain::simulate_program::simulated;
using pipetrain::simulate_program::wrong;

using Catch::Matchers::Contains;

namespace {

void train_recorded(const std::string& arguments) {
  const auto result = pipetrain::run("--device cpu " + arguments);
  INFO(arguments << ": " << result.err);
  REQUIRE(result.status == 0);
}

// A run whose backward is split, and its profile.
struct ProfiledRun {
  TempFolder folder;
  json profile;

  ProfiledRun() {
    train_recorded(
        "--pp 2 --dp 2 --zero 1 --threads 1 --recompute full --recompute-num-layers 1 --schedule zb-h1 --microbatches 4 "
        "--steps 3 --profile " +
        at("zb.json") + " --trace " + at("trace.json"));
    profile = json::parse(read_file(at("zb.json")));
  }

  std::string at(const std::string& name) const { return (folder.path() / name).string(); }
  // Returns "--costs" of this run, or of a profile that differs slightly from it.
  std::string costs() const { return "--costs " + at("zb.json"); }
  std::string costs(const json& changed) const { return "--costs " + folder.write("changed.json", changed.dump()).string(); }
};

}  // namespace

TEST_CASE("a run's trace has every action, in the format of the file's name") {
  const ProfiledRun zb;
  const json trace = json::parse(read_file(zb.at("trace.json")));
  std::size_t events = 0;
  for (const auto& event : trace["traceEvents"]) events += event["ph"] == "X" ? 1 : 0;
  CHECK(events == 3 * 4 * (4 * 3 + 3));  // steps x stages of all replicas x (F, I, W; R, N, O)
  for (const char* drawn : {"run.html", "run.svg"}) train_recorded("--pp 2 --microbatches 2 --steps 1 --trace " + zb.at(drawn));
  CHECK_THAT(read_file(zb.at("run.html")), Contains("[\"O\",0,-1,") && Contains("</html>"));
  CHECK_THAT(read_file(zb.at("run.svg")), Contains("<title>B1: ") && Contains("</svg>"));
}

TEST_CASE("a run's profile is what simulate counts, and says how the run computed") {
  const ProfiledRun zb;
  CHECK(zb.profile["layout"]["dp"] == 2);
  REQUIRE(zb.profile["p2p"].size() == 1);  // a message between the two stages
  CHECK(zb.profile["p2p"][0].get<double>() > 0);
  double slowest = 0;
  for (const auto& stage : zb.profile["stages"]) {
    for (const char* kind : {"norm", "optimizer"}) CHECK(stage[kind].get<double>() > 0);
    const json& chunk = stage["chunks"][0];
    double microbatch = 0;
    for (const char* kind : {"forward", "input_grad", "weight_grad"}) microbatch += chunk[kind].get<double>();
    slowest = std::max(slowest, 4 * microbatch);
  }
  const json runs = simulated(zb.costs() + " --schedule zb-h1 --model tiny");
  CHECK(runs[0]["pp"] == 2);
  CHECK(runs[0]["microbatches"] == 4);
  CHECK(runs[0]["ideal"].get<double>() == Approx(slowest));
  CHECK(runs[0]["makespan"].get<double>() > slowest);
  CHECK(runs[0]["actions"] == 2 * (4 * 3 + 3));
  CHECK(simulated("--schedule all " + zb.costs()).size() >= 10);
  CHECK_THAT(
      simulate(zb.costs()).out,
      Contains("MiB") && Contains("predicted step") &&
          Contains(
              "(zb-h1, 4 microbatches, 2 steps; cpu, fp32, recompute full of 1 layer, zero 1, deterministic on, threads 1)"));

  json earlier = zb.profile;  // of a build that did not record how it computed
  for (const char* key : {"precision", "recompute", "recompute_num_layers", "zero", "deterministic", "threads"})
    earlier["layout"].erase(key);
  CHECK_THAT(simulate(zb.costs(earlier)).out, Contains("2 steps; cpu) took "));
  json slow = zb.profile;  // the time of messages and of the end of the step counts
  slow["p2p"][0] = 1000, slow["stages"][0]["optimizer"] = 500;
  CHECK(simulated("--schedule zb-h1 " + zb.costs(slow))[0]["makespan"].get<double>() > 2500);
}

TEST_CASE("a profile serves every layout of its model, and a note says if that layout was not run") {
  const ProfiledRun zb;
  const auto other = simulate("--schedule zb-v --microbatches 8 " + zb.costs());
  CHECK(other.status == 0);
  CHECK_THAT(other.err, Contains("zb-v: not profiled in this layout") && Contains("(pp 2 x chunks 1, zb-h1)"));
  CHECK(simulated("--pp 1 --schedule 1f1b " + zb.costs())[0]["pp"] == 1);
  CHECK_THAT(wrong("--pp 40 " + zb.costs()), Contains("not of this layout") && Contains("too few for 40 stages"));
  CHECK_THAT(wrong("--model llama-7b " + zb.costs()), Contains("a profile from another model"));
  CHECK_THAT(wrong("--forward 1 " + zb.costs()), Contains("keep one of them"));
  json gathering = zb.profile;
  gathering["layout"]["zero"] = 3;
  CHECK(simulate("--schedule 1f1b " + zb.costs(gathering)).status == 0);
  CHECK_THAT(wrong("--schedule 1f1b --order ready " + zb.costs(gathering)),
             Contains("--order ready: replicas gather the weights of zero 3"));
  train_recorded("--pp 2 --steps 1 --profile " + zb.at("1f1b.json"));
  CHECK(simulated("--schedule zb-h1 --costs " + zb.at("1f1b.json")).size() == 1);
  CHECK(simulated("--schedule gpipe --costs " + zb.at("1f1b.json")).size() == 1);
}

TEST_CASE("a profile contains the cut of its run, and gives the times of other cuts") {
  const ProfiledRun zb;
  CHECK(zb.profile["layout"]["cut"] == json::array({4, 4}));
  const double level = simulated("--schedule zb-h1 " + zb.costs())[0]["ideal"].get<double>();
  const auto heavy = simulate("--schedule zb-h1 --cut 7,1 " + zb.costs());
  CHECK_THAT(heavy.err, Contains("zb-h1: not profiled in this layout"));
  const json uneven = simulated("--schedule zb-h1 --cut 7,1 " + zb.costs());
  CHECK(uneven[0]["ideal"].get<double>() > level);
  CHECK(simulated("--schedule zb-h1 --cut 4,4 " + zb.costs()) == simulated("--schedule zb-h1 " + zb.costs()));
  CHECK(simulate("--schedule zb-h1 --cut 4,4 " + zb.costs()).err.empty());
  CHECK(simulated("--schedule zb-v --cut 1,1,1,5 " + zb.costs()).size() == 1);
  const auto all = simulate("--schedule all --cut 3,5 " + zb.costs());
  CHECK(all.status == 0);
  CHECK_THAT(all.err, Contains("zb-v is left out: --cut 3,5 is of 2 virtual stages, and it has 4"));

  // A run at that cut is predicted as itself, and its blocks give the prediction for the level cut.
  train_recorded("--pp 2 --steps 2 --schedule zb-h1 --microbatches 4 --cut 7,1 --profile " + zb.at("cut.json"));
  const std::string cut = " --schedule zb-h1 --costs " + zb.at("cut.json");
  CHECK(json::parse(read_file(zb.at("cut.json")))["layout"]["cut"] == json::array({7, 1}));
  CHECK(simulated(cut) == simulated("--cut 7,1" + cut));
  CHECK(simulated("--cut 4,4" + cut)[0]["ideal"].get<double>() < simulated(cut)[0]["ideal"].get<double>());

  json earlier = zb.profile;
  earlier["layout"].erase("cut");
  CHECK(simulated("--schedule zb-h1 " + zb.costs(earlier))[0]["ideal"].get<double>() == level);
  json wrong_cut = zb.profile;
  wrong_cut["layout"]["cut"] = {4, 5};
  CHECK_THAT(wrong("--schedule zb-v " + zb.costs(wrong_cut)), Contains("the profile's cut 4,5: must add up"));
  wrong_cut["layout"]["cut"] = {8, 0};
  CHECK_THAT(wrong(zb.costs(wrong_cut)), Contains("cut has 0, not a count of at least 1"));
  CHECK_THAT(wrong("--cut 4,5 " + zb.costs()), Contains("--cut 4,5: must add up to the model's 8"));
  CHECK_THAT(wrong("--cut 4,2,2 " + zb.costs()), Contains("--cut 4,2,2: cuts the model into 3 parts, and pp 2 x chunks 1"));
  CHECK_THAT(wrong("--pp 2 --cut 4,4"), Contains("--cut 4,4: ") && Contains("give --costs FILE too"));
}

TEST_CASE("a profile of ranks that share sequences predicts layouts in which they do") {
  const TempFolder folder;
  const auto at = [&](const std::string& name) { return (folder.path() / name).string(); };
  const auto profiled = [&](const std::string& layout, const std::string& name) {
    train_recorded(layout + " --threads 1 --seq-len 64 --microbatches 4 --steps 3 --profile " + at(name));
    return json::parse(read_file(at(name)));
  };
  const json whole = profiled("--pp 2 --schedule zb-h1", "whole.json");
  const json shared = profiled("--pp 2 --cp 2 --schedule zb-h1", "shared.json");
  CHECK(!whole["layout"].contains("cp"));
  CHECK(shared["layout"]["cp"] == 2);
  CHECK(shared["layout"]["sequence"] == 64);
  const auto chunk = [](const json& profile, int stage) { return profile["stages"][stage]["chunks"][0]; };
  const auto bytes = [&](const json& profile, int stage) { return chunk(profile, stage)["held_bytes"].get<double>(); };
  for (int stage = 0; stage < 2; ++stage) {
    CHECK(bytes(shared, stage) == Approx(bytes(whole, stage) / 2).epsilon(0.02));
    CHECK(chunk(shared, stage)["reduce_grads"].get<double>() > 0);  // over the ranks that share
  }

  const std::string costs = " --costs " + at("shared.json");
  CHECK(simulated("--schedule zb-h1" + costs)[0]["actions"] == 2 * (4 * 3 + 3));  // F, I, W; R, N, O
  const auto own = simulate("--schedule zb-h1" + costs);
  CHECK(own.err.empty());
  CHECK_THAT(own.out, Contains("cpu, fp32, recompute none, cp 2, deterministic on, threads 1"));
  CHECK(simulated("--schedule zb-v" + costs)[0]["ideal"].get<double>() > 0);
  json broken = shared;
  broken["layout"]["cp"] = 3;
  CHECK_THAT(wrong("--costs " + folder.write("broken.json", broken.dump()).string()),
             Contains("cp 3 does not share sequences of 64 tokens"));
}

TEST_CASE("a profile that is damaged is refused with what is wrong in it") {
  const ProfiledRun zb;
  CHECK_THAT(wrong(zb.costs({{"format", "pipetrain profile"}, {"version", 2}})),
             Contains("changed.json: is not a profile: model is missing"));
  json broken = zb.profile;
  broken["stages"][1]["chunks"][0]["forward"] = -1;
  CHECK_THAT(wrong(zb.costs(broken)), Contains("forward is -1"));
  broken = zb.profile;
  broken["p2p"][0] = -1;
  CHECK_THAT(wrong(zb.costs(broken)), Contains("p2p is -1"));
  for (const double value : {5e-324, 1e-320, 1e308}) {
    for (const char* key : {"forward", "backward", "input_grad", "sum_tied"}) {
      broken = zb.profile;
      broken["stages"][0]["chunks"][0][key] = value;
      CHECK_THAT(wrong(zb.costs(broken)), Contains(std::string(key) + " is ") && Contains("not 0 or a number from 1e-100 to"));
    }
  }
  broken = zb.profile;
  broken["layout"]["microbatches"] = 2'000'000'000;
  CHECK_THAT(wrong(zb.costs(broken)), Contains("microbatches 2000000000") && Contains("more than 16777216"));
  broken = zb.profile;
  broken["p2p"] = {0, 0};
  CHECK_THAT(wrong(zb.costs(broken)), Contains("p2p is not a list of 1"));
}
