// Heads for sequence classification in every layout: compared with Hugging Face's float64 trajectory, with a language
// model that learns its last token only, and, between layouts that must agree, bit by bit.
#include <cmath>
#include <filesystem>

#include "catch.hpp"
#include "data/samples/split.hpp"
#include "golden_run.hpp"
#include "model/weights/weights.hpp"
#include "paths.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

const std::string gpt2 = "gpt2_classify_tiny";

// Compares the steps of the trajectory; pp, schedule and order must not change a bit.
void check_pipelines(const std::string& name, int microbatch) {
  const Reference reference = golden_reference(name);
  for (const int tp : {1, 2, 4}) {  // with 4 ranks, two have no class
    const Layout plain{1, tp, 1, microbatch};
    const RunRecord first = run(golden_job(name, plain), 6);
    INFO(to_string(plain));
    check_golden(first, reference);
    for (const Layout layout : {Layout{2, tp, 1, microbatch, "1f1b", 1, Order::ready}, Layout{4, tp, 1, microbatch, "zb-h1"},
                                Layout{8, tp, 1, microbatch}, Layout{2, tp, 1, microbatch, "interleaved", 2},
                                Layout{2, tp, 1, microbatch, "zb-v", 2}}) {
      INFO(to_string(layout));
      CHECK((run(golden_job(name, layout), 6) == first));
    }
  }
}

void check_every_layout(const std::string& name) {
  const Reference reference = golden_reference(name);
  check_pipelines(name, 4);
  const RunRecord replicas = run(golden_job(name, {1, 1, 2, 2}), 6);
  check_golden(replicas, reference);
  CHECK((run(golden_job(name, {2, 1, 2, 2}), 6) == replicas));
  Layout recomputes{2, 2, 1, 4, "zb-h1"};
  recomputes.recompute = Recompute::full;
  CHECK((run(golden_job(name, recomputes), 6) == run(golden_job(name, {1, 2, 1, 4}), 6)));
}

}  // namespace

TEST_CASE("a model that classifies has no vocabulary whose logits chunks could keep small", "[golden]") {
  Layout layout;
  layout.loss_chunks = 2;
  CHECK_THROWS_WITH(run(golden_job(gpt2, layout), 1), Catch::Matchers::Contains("a classifier has few logits"));
}

TEST_CASE("a GPT-2 that classifies follows the golden trajectory in every layout", "[golden]") { check_every_layout(gpt2); }

TEST_CASE("a Llama that classifies follows the golden trajectory in every layout", "[golden]") {
  check_every_layout("llama_classify_tiny");
}

TEST_CASE("classifiers of other families follow their golden trajectories in every layout", "[golden][families]") {
  check_every_layout(GENERATE("qwen3_classify_tiny", "olmo2_classify_tiny", "phi3_classify_tiny"));
}

TEST_CASE("classifiers follow their golden trajectories in microbatches of one sequence too", "[golden][families][slow]") {
  check_pipelines(
      GENERATE("gpt2_classify_tiny", "llama_classify_tiny", "qwen3_classify_tiny", "olmo2_classify_tiny", "phi3_classify_tiny"),
      1);
}

namespace {

// Trains the language model llama2_tiny on the last token of each sequence only, or the same model as a classifier of
// the vocabulary's tokens, with the language model's head.
RunRecord last_tokens(bool classifies, const Layout& layout) {
  const std::filesystem::path golden = std::filesystem::path(test_data()) / "golden/llama2_tiny";
  TrainJob job = golden_job("llama2_tiny", layout);
  class Head final : public WeightSource {
   public:
    Head(const ModelConfig& config, const std::filesystem::path& folder) : weights_(hf_weights(config, folder)) {}
    void load(const Parameter& parameter, float* out) const override {
      Parameter same = parameter;
      if (same.name == "score.weight") same.name = "lm_head.weight";
      weights_->load(same, out);
    }

   private:
    std::unique_ptr<WeightSource> weights_;
  };
  job.initial.weights = std::make_shared<Head>(job.config, golden);
  if (classifies) job.config = with_new_head(job.config, job.config.vocabulary);
  std::string rows;
  for (std::int64_t i = 0; i < job.dataset->size(); ++i) {
    const std::vector<std::int32_t> tokens = job.dataset->read(i);
    std::string ids, labels;
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      ids += (t > 0 ? "," : "") + std::to_string(tokens[t]);
      labels += "-100,";
    }
    const std::string last = std::to_string(tokens.back());
    rows += classifies ? "{\"input_ids\":[" + ids + "],\"label\":" + last + "}\n"
                       : "{\"input_ids\":[" + ids + "," + last + "],\"labels\":[" + labels + last + "]}\n";
  }
  const TempFolder folder;
  DatasetOptions data;
  data.inputs = {{folder.write("rows.jsonl", rows), {}}};
  data.vocabulary = job.config.vocabulary;
  data.shuffle = false;
  if (classifies) data.classes = job.config.outputs();
  job.dataset = open_dataset(data);
  return run(std::move(job), 4);
}

}  // namespace

TEST_CASE("a Llama that classifies into tokens trains as the language model that learns each sequence's last token") {
  const RunRecord language = last_tokens(false, {}), classifier = last_tokens(true, {});
  for (std::size_t step = 0; step < language.loss.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(classifier.loss[step] == Approx(language.loss[step]).epsilon(1e-6));
    CHECK(classifier.grad_norm[step] == Approx(language.grad_norm[step]).epsilon(1e-6));
  }
  CHECK(classifier.weights.contains("score.weight"));
  for (const Layout layout : {Layout{4}, Layout{2, 1, 1, 1, "zb-v", 2}, Layout{2, 1, 1, 1, "1f1b", 1, Order::ready}}) {
    INFO(to_string(layout));
    CHECK((last_tokens(true, layout) == classifier));
  }
  const RunRecord ranks = last_tokens(true, {2, 4, 1, 2});
  for (std::size_t step = 0; step < language.loss.size(); ++step)
    CHECK(ranks.loss[step] == Approx(language.loss[step]).epsilon(2e-5));
}

TEST_CASE("accuracy and F1 of an evaluation do not depend on the layout") {
  const auto evaluated = [](const Layout& layout, std::int64_t global_batch) {
    TrainJob job = golden_job(gpt2, layout);
    job.evaluation = split_dataset(job.dataset, 0.8, 1).evaluation;  // 38 samples
    job.batch.microbatches = global_batch / layout.dp / layout.microbatch;
    Trainer trainer(std::move(job));
    for (int step = 0; step < 2; ++step) trainer.step();
    return *trainer.evaluate();
  };
  const Evaluation one = evaluated({}, 8);
  CHECK(one.samples == 38);
  CHECK_FALSE(one.perplexity());
  CHECK(*one.accuracy > 0.3);
  CHECK(std::abs(*one.accuracy * 38 - std::round(*one.accuracy * 38)) < 1e-9);
  CHECK(*one.f1 > 0);
  for (const Layout layout : {Layout{4}, Layout{2, 1, 1, 1, "zb-v", 2}, Layout{2, 1, 1, 1, "1f1b", 1, Order::ready}}) {
    INFO(to_string(layout));
    const Evaluation other = evaluated(layout, 8);
    CHECK(other.loss == one.loss);
    CHECK(other.accuracy == one.accuracy);
    CHECK(other.f1 == one.f1);
  }
  for (const Layout layout : {Layout{2, 4, 1, 2}, Layout{1, 2, 2, 1}, Layout{2, 1, 4, 2}}) {
    INFO(to_string(layout));
    const Evaluation other = evaluated(layout, 8);
    CHECK(other.loss == Approx(one.loss).epsilon(1e-4));
    CHECK(other.accuracy == one.accuracy);
    CHECK(other.f1 == one.f1);
  }
}
