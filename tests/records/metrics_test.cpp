// Lines of metrics, and the values read back from files of them.
#include <string>

#include "catch.hpp"
#include "core/error.hpp"
#include "records/compare_runs.hpp"
#include "records/metrics_reader.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

StepMetrics step(std::int64_t number, double loss) {
  StepMetrics metrics;
  metrics.step = number;
  metrics.loss = loss;
  metrics.grad_norm = 1.0 / 3;
  metrics.lr = 3e-4;
  metrics.tokens = 64;
  metrics.seconds = 0.5;
  metrics.tokens_per_second = 128;
  metrics.memory_bytes = {1000, std::nullopt};
  metrics.applied_steps = number - 1;
  metrics.input_wait = 0.01;
  metrics.stage_bubble = {0.25, 0.5};
  return metrics;
}

std::string lines(std::int64_t first, std::int64_t last) {
  std::string text;
  for (std::int64_t number = first; number <= last; ++number)
    text += to_json_line(step(number, 1.0 / static_cast<double>(number))) + "\n";
  return text;
}

std::string refusal(const std::string& text) {
  const TempFolder folder;
  try {
    read_metrics(folder.write("m", text));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a line of metrics reads back to the bit") {
  const StepMetrics metrics = step(7, 0.1), back = *parse_metrics_line(to_json_line(metrics), "here");
  CHECK(back.step == 7);
  CHECK(back.loss == metrics.loss);
  CHECK(back.grad_norm == metrics.grad_norm);
  CHECK(back.lr == metrics.lr);
  CHECK(back.tokens == 64);
  CHECK(back.memory_bytes == metrics.memory_bytes);
  CHECK(back.applied_steps == 6);
  CHECK(back.input_wait == metrics.input_wait);
  CHECK(back.stage_bubble == metrics.stage_bubble);
  CHECK(!back.mfu);
  CHECK(!parse_metrics_line(R"({"step":3,"eval_loss":2.5,"perplexity":12})", "here"));
}

TEST_CASE("evaluations are kept between the steps and removed with them") {
  const EvaluationMetrics evaluation{.step = 2, .eval_loss = 0.1, .perplexity = 1.5};
  const std::string line = to_json_line(evaluation);
  CHECK(
      line ==
      R"({"step":2,"eval_loss":0.10000000000000001,"perplexity":1.5,"accuracy":null,"f1":null)"
      R"(,"reward_chosen":null,"reward_rejected":null,"reward_margin":null,"reward_accuracy":null,"logp_chosen":null,"logp_rejected":null,"kl":null})");
  CHECK(parse_evaluation_line(line, "here")->eval_loss == 0.1);
  CHECK(!parse_evaluation_line(line, "here")->accuracy);
  CHECK(!parse_evaluation_line(to_json_line(step(1, 2)), "here"));
  const TempFolder folder;
  const auto evaluations_in = [&](const std::string& text) {
    MetricsReader reader(folder.write("m", text));
    reader.read();
    CHECK(reader.steps().size() == 3);
    return reader.evaluations().size();
  };
  CHECK(evaluations_in(lines(1, 2) + line + "\n" + lines(3, 3)) == 1);
  CHECK(evaluations_in(lines(1, 2) + line + "\n" + line + "\n" + lines(3, 3)) == 1);  // a resumed run evaluated again
  CHECK(evaluations_in(lines(1, 2) + line + "\n" + lines(2, 3)) == 0);                // one that resumed from before it
}

TEST_CASE("a file of metrics is read while it grows, and anew where it became shorter") {
  const TempFolder folder;
  const auto file = folder.write("m", lines(1, 3) + R"({"step":4,"loss":)");
  MetricsReader reader(file);
  CHECK(reader.read());
  REQUIRE(reader.steps().size() == 3);
  CHECK(reader.steps()[0].memory_bytes.empty());  // only the newest step has it
  CHECK(reader.steps()[2].memory_bytes.size() == 2);
  CHECK(!reader.read());
  folder.write("m", lines(1, 5));
  CHECK(reader.read());
  CHECK(reader.steps().size() == 5);
  folder.write("m", lines(1, 2));
  CHECK(reader.read());
  CHECK(reader.steps().size() == 2);
  folder.write("m", lines(1, 4) + lines(3, 6));  // a stream that a resumed run appended to
  reader.read();
  REQUIRE(reader.steps().size() == 6);
  CHECK(reader.steps()[5].step == 6);
}

TEST_CASE("a file of metrics in a folder is found by its first line") {
  const TempFolder folder;
  folder.write("notes.txt", "hello");
  CHECK_THROWS_WITH(find_metrics_file(folder.path()), Contains("holds no file of metrics"));
  const auto file = folder.write("any name", lines(1, 1));
  CHECK(find_metrics_file(folder.path()) == file);
  CHECK(find_metrics_file(file) == file);
  folder.write("b", lines(1, 1));
  CHECK_THROWS_WITH(find_metrics_file(folder.path()), Contains("several files of metrics, any name and b"));
  CHECK_THROWS_WITH(find_metrics_file(folder.path() / "none"), Contains("no such file"));
}

TEST_CASE("wrong files of metrics are refused with file, line and what is wrong") {
  CHECK_THAT(refusal(""), Contains("has no step"));
  CHECK_THAT(refusal("\n"), Contains("m:1: "));
  CHECK_THAT(refusal("hello\n"), Contains("m:1: "));
  CHECK_THAT(refusal("[1]\n"), Contains("m:1: is not a line of metrics"));
  CHECK_THAT(refusal("{\"loss\":1}\n"), Contains("m:1: is not a line of metrics"));
  CHECK_THAT(refusal(lines(1, 2) + R"({"step":"x","loss":1})" + "\n"), Contains("m:3: step is not a whole number"));
  CHECK_THAT(refusal(R"({"step":0,"loss":1})"
                     "\n"),
             Contains("m:1: step is below 1"));
  CHECK_THAT(refusal(R"({"step":18446744073709551615,"loss":1})"
                     "\n"),
             Contains("m:1: step is not a whole number"));
  CHECK_THAT(refusal(R"({"step":1,"loss":"low"})"
                     "\n"),
             Contains("m:1: loss is not a number"));
  CHECK_THAT(refusal(R"({"step":1,"loss":1,"memory_bytes":3})"
                     "\n"),
             Contains("m:1: memory_bytes is not a list"));
  CHECK_THAT(refusal(R"({"step":1,"loss":1,"bubble":1e999})"
                     "\n"),
             Contains("m:1: "));
  CHECK_THAT(refusal(std::string(5 << 20, 'x')), Contains("m:1: is not a line of metrics: longer than 4 MiB"));
}

TEST_CASE("runs are compared step by step, to the bit and within what") {
  const std::vector<StepMetrics> a = {step(1, 4), step(2, 3), step(3, 2)};
  std::vector<StepMetrics> b = {step(2, 3), step(3, 2), step(4, 1)};
  const RunComparison equal = compare_runs(a, b);
  CHECK(equal.common_steps == 2);
  CHECK(equal.equal_to_the_bit());
  CHECK(equal.equal_within(0));

  b[1].loss = 2 * (1 + 1e-6);
  const RunComparison near = compare_runs(a, b);
  CHECK(!near.equal_to_the_bit());
  REQUIRE(near.first);
  CHECK(near.first->step == 3);
  CHECK(near.first->value == "loss");
  CHECK(near.loss.relative == Approx(1e-6).epsilon(1e-3));
  CHECK(near.loss.step == 3);
  CHECK(near.grad_norm.step == 0);
  CHECK(near.equal_within(2e-6));
  CHECK(!near.equal_within(1e-7));

  b[0].tokens = 65;  // no tolerance makes other work equal
  const RunComparison other = compare_runs(a, b);
  CHECK(other.first->value == "tokens");
  CHECK(!other.equal_within(1));
  b[0].loss.reset();  // nor an unknown loss
  CHECK(compare_runs(a, b).loss.relative == 1);
}

TEST_CASE("a run's figures are medians without the step that warms up") {
  std::vector<StepMetrics> steps;
  for (const double seconds : {9.0, 1.0, 3.0, 2.0}) {
    steps.push_back(step(static_cast<std::int64_t>(steps.size()) + 1, 1));
    steps.back().seconds = seconds;
  }
  const RunFigures figures = compare_runs(steps, steps).a;
  CHECK(figures.seconds == 2.0);
  CHECK(figures.first_step == 1);
  CHECK(figures.last_step == 4);
  CHECK(figures.memory_bytes == 1000);
  CHECK(!figures.mfu);
}
