// Multi-token prediction through the program: the further layer of a folder is trained and saved, or kept as it is.
#include <sstream>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "model/weights/raw_folder.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::RawFolder;

const fs::path golden = test::golden_folder("deepseek_v3_mtp_tiny");
const std::string layer = "model.layers.4.", embeddings = "model.embed_tokens.weight", head = "lm_head.weight";

struct MtpRuns {
  TempFolder folder{};

  fs::path path(const std::string& name) const { return folder.path() / name; }
  std::string train(const fs::path& model, const std::string& run, int steps = 2) const {
    return "--device cpu --threads 1 --microbatch 1 --microbatches 2 --lr 0.01 --lr-schedule constant --steps " +
           std::to_string(steps) + " --model " + model.string() + " --data " + (golden / "train.jsonl").string() + " --save " +
           path(run).string() + " --metrics " + path(run + ".jsonl").string() + " ";
  }
  RawFolder saved(const std::string& run) const { return RawFolder(path(run) / "model"); }
  fs::path changed(const RawFolder& model) const {
    model.write(path("changed"));
    return path("changed");
  }
};

void succeeds(const std::string& arguments) {
  const Result result = run(arguments);
  INFO(arguments << ": " << result.err);
  REQUIRE(result.status == 0);
}

json last_line(const fs::path& metrics) {
  std::istringstream lines(read_file(metrics));
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return json::parse(last);
}

TEST_CASE("a run trains the further layer of a folder, and saves it with its copies of what it shares", "[mtp]") {
  const RawFolder before(golden);
  const MtpRuns runs;
  succeeds(runs.train(golden, "run") + "--mtp-loss 0.3 --pp 2 --save-interval 1");
  const RawFolder after = runs.saved("run");
  REQUIRE(after.tensors.size() == before.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    INFO(name);
    REQUIRE(after.tensors.contains(name));
    CHECK(after.tensors.at(name).shape == tensor.shape);
    if (name.find("correction") == std::string::npos) CHECK_FALSE(after.tensors.at(name) == tensor);
  }
  CHECK(after.tensors.at(layer + embeddings.substr(std::string("model.").size())) == after.tensors.at(embeddings));
  CHECK(after.tensors.at(layer + "shared_head.head.weight") == after.tensors.at(head));
  CHECK(after.config["num_nextn_predict_layers"] == 1);
  CHECK(last_line(runs.path("run.jsonl"))["mtp_loss"] > 1);
  SECTION("checkpoints have it, in any layout, and so have their exports") {
    succeeds("export --load " + (runs.path("run") / "step-00000002").string() + " --out " + runs.path("export").string());
    CHECK(RawFolder(runs.path("export")).tensors == after.tensors);
    fs::remove_all(runs.path("run") / "step-00000002");
    succeeds(runs.train(golden, "run") + "--mtp-loss 0.3 --resume --schedule zb-h1 --pp 3");
    CHECK(runs.saved("run").tensors == after.tensors);
  }
  SECTION("a run goes on with a further prediction or without as it began") {
    CHECK_THAT(refused(runs.train(golden, "run", 3) + "--resume"),
               Contains("--mtp-loss 0: ") && Contains("was made with a further prediction"));
    succeeds(runs.train(golden, "plain") + "--save-interval 1");
    CHECK_THAT(refused(runs.train(golden, "plain", 3) + "--resume --mtp-loss 0.3"),
               Contains("--mtp-loss 0.3: ") && Contains("was made without a further prediction"));
  }
}

TEST_CASE("a run without a further prediction keeps the layer of its folder as it is", "[mtp]") {
  const RawFolder before(golden);
  const MtpRuns runs;
  succeeds(runs.train(golden, "run") + "--save-interval 1");
  const auto check_kept = [&](const RawFolder& after) {
    REQUIRE(after.tensors.size() == before.tensors.size());
    for (const auto& [name, tensor] : before.tensors) {
      INFO(name);
      if (name.starts_with(layer)) CHECK(after.tensors.at(name) == tensor);
    }
    CHECK_FALSE(after.tensors.at(head) == before.tensors.at(head));
    CHECK(after.config["num_nextn_predict_layers"] == 1);
  };
  check_kept(runs.saved("run"));
  CHECK(last_line(runs.path("run.jsonl"))["mtp_loss"].is_null());
  succeeds("export --load " + (runs.path("run") / "step-00000002").string() + " --out " + runs.path("export").string());
  check_kept(RawFolder(runs.path("export")));
  SECTION("but a model of fewer layers has none") {
    succeeds(runs.train(golden, "cut", 1) + "--layers 2");
    const RawFolder cut = runs.saved("cut");
    CHECK(cut.config["num_nextn_predict_layers"] == 0);
    CHECK(std::none_of(cut.tensors.begin(), cut.tensors.end(), [](const auto& one) { return one.first.starts_with(layer); }));
  }
}

TEST_CASE("a further prediction is refused where the model has no layer for it, or another's", "[mtp]") {
  const MtpRuns runs;
  const std::string further = "--mtp-loss 0.3";
  CHECK_THAT(refused(further),
             Contains("--mtp-loss 0.3: the model tiny has no layer that predicts a token after the next one"));
  CHECK_THAT(refused(runs.train(golden, "run") + further + " --layers 2"),
             Contains("has no layer that predicts a token after"));
  RawFolder model(golden);
  model.config["num_nextn_predict_layers"] = 2;
  CHECK_THAT(refused(runs.train(runs.changed(model), "run") + further), Contains("has 2 layers that predict later tokens"));
  model.config["num_nextn_predict_layers"] = -1;
  CHECK_THAT(refused(runs.train(runs.changed(model), "run")), Contains("a number of layers, 0 or more"));
  model = RawFolder(golden);
  model.tensors.erase(layer + "hnorm.weight");
  CHECK_THAT(refused(runs.train(runs.changed(model), "run") + further),
             Contains("tensor model.layers.4.hnorm.weight is missing"));
  model = RawFolder(golden);
  ++model.tensors.at(layer + "shared_head.head.weight").bytes[0];
  CHECK_THAT(refused(runs.train(runs.changed(model), "run") + further),
             Contains("tensor model.layers.4.shared_head.head.weight differs from lm_head.weight"));
  model.tensors.erase(layer + "shared_head.head.weight");
  succeeds(runs.train(runs.changed(model), "run", 1) + further);
}

TEST_CASE("a profile of a run with a further prediction predicts other layouts of it", "[mtp]") {
  const MtpRuns runs;
  const std::string costs = runs.path("costs.json").string();
  succeeds(runs.train(golden, "run", 3) + "--mtp-loss 0.3 --pp 2 --profile " + costs);
  succeeds("simulate --costs " + costs + " --pp 4");
  succeeds("simulate --costs " + costs + " --pp 2 --cut 6,2");
}

}  // namespace
}  // namespace pipetrain
