// The metrics file and the progress display.
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/train/metrics_file.hpp"
#include "apps/train/progress.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "run_program.hpp"

using namespace pipetrain;

namespace {

StepProgress some_progress() {
  StepProgress progress;
  progress.step = 50;
  progress.total = 200;
  progress.loss = 4.53211;
  progress.grad_norm = 1.2344;
  progress.lr = 3e-4;
  progress.tokens_per_second = 12345.4;
  progress.bubble = 0.123;
  progress.eta_seconds = 3723;
  return progress;
}

}  // namespace

TEST_CASE("a metrics line has all keys in the contract's order, and null for what is unknown") {
  StepMetrics metrics;
  metrics.step = 3;
  metrics.tokens = 1024;
  metrics.seconds = 0.5;
  metrics.elapsed = 2;
  CHECK(
      to_json_line(metrics) ==
      R"({"step":3,"loss":null,"grad_norm":null,"lr":null,"tokens":1024,"seconds":0.5,"elapsed":2,"tokens_per_second":null,)"
      R"("tokens_per_second_per_device":null,"tflops_per_device":null,"mfu":null,"bubble":null,"memory_bytes":null,)"
      R"("loss_scale":null,"skipped":false,"applied_steps":null,"aux_loss":null,"z_loss":null,"expert_load_max":null,)"
      R"("expert_load_cv":null,"expert_dropped":null,"trainable_parameters":null,"membership":null,"takeovers":null,"total_steps":null)"
      R"(,"reward_chosen":null,"reward_rejected":null,"reward_margin":null,"reward_accuracy":null,"logp_chosen":null,"logp_rejected":null,"kl":null})");
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.memory_bytes = {1000, std::nullopt};
  metrics.skipped = true;
  metrics.applied_steps = 2;
  metrics.input_wait = 0.25;
  metrics.expert_load_max = 1.5;
  metrics.trainable_parameters = 124;
  const auto parsed = nlohmann::json::parse(to_json_line(metrics));
  CHECK(parsed["loss"].is_null());
  CHECK(parsed["memory_bytes"].dump() == "[1000,null]");
  CHECK(parsed["skipped"] == true);
  CHECK(parsed["applied_steps"] == 2);
  CHECK(parsed["input_wait"] == 0.25);
  CHECK(parsed["expert_load_max"] == 1.5);
  CHECK(parsed["trainable_parameters"] == 124);
}

TEST_CASE("losses and norms read back to the bit") {
  StepMetrics metrics;
  for (const double value : {0.1, 1.0 / 3, 5.5451774444795623, 1e-300, 3.0, 12345678.901234567}) {
    metrics.loss = metrics.grad_norm = metrics.lr = value;
    metrics.tokens_per_second = value;
    const auto parsed = nlohmann::json::parse(to_json_line(metrics));
    CHECK(parsed["loss"].get<double>() == value);
    CHECK(parsed["grad_norm"].get<double>() == value);
    CHECK(parsed["lr"].get<double>() == value);
    CHECK(parsed["tokens_per_second"].get<double>() == value);
  }
}

TEST_CASE("a metrics file starts anew, or continues after the steps that were done") {
  TempFolder folder;
  const auto path = folder.write("m.jsonl", "old\n");
  StepMetrics metrics;
  metrics.step = 1;
  {
    MetricsFile file(path, 0);
    file.write(metrics);
    CHECK(read_file(path) == to_json_line(metrics) + "\n");  // written before the file is closed
  }
  const std::string first = read_file(path);
  std::ofstream(path, std::ios::app) << R"({"step":2,"lo)";  // left by a killed run
  metrics.step = 2;
  MetricsFile(path, 1).write(metrics);
  const std::string second = first + to_json_line(metrics) + "\n";
  CHECK(read_file(path) == second);
  metrics.step = 3;
  MetricsFile(path, 2).write(metrics);
  metrics.step = 2;
  MetricsFile(path, 1).write(metrics);  // resumed from a checkpoint before the last lines
  CHECK(read_file(path) == second);
}

TEST_CASE("a metrics file that cannot be written is an input error") {
  TempFolder folder;
  try {
    MetricsFile(folder.path() / "none" / "m.jsonl", 0);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK_THAT(error.what(), Catch::Matchers::StartsWith("--metrics ") && Catch::Matchers::Contains("No such file"));
  }
  if (std::filesystem::exists("/dev/full")) {
    MetricsFile full("/dev/full", 0);
    CHECK_THROWS_WITH(full.write(StepMetrics{}), Catch::Matchers::Contains("No space left"));
  }
}

TEST_CASE("progress shows step, loss, norm, rate, speed, bubble and remaining time") {
  CHECK(plain_line(some_progress()) ==
        "step 50/200  loss 4.5321  grad norm 1.234  lr 3.00e-04  12,345 tokens/s  bubble 12.3 %  ETA 1:02:03");
  StepProgress progress = some_progress();
  progress.input_wait = 0.002;
  CHECK_THAT(plain_line(progress), Catch::Matchers::Contains("bubble 12.3 %  input 0.2 %  ETA"));
  progress.input_wait.reset();
  progress.total = 0;
  progress.bubble.reset();
  progress.eta_seconds.reset();
  progress.skipped = true;
  CHECK(plain_line(progress) == "step 50  skipped  loss 4.5321  grad norm 1.234  lr 3.00e-04  12,345 tokens/s");
  progress.loss.reset();
  CHECK_THAT(plain_line(progress), Catch::Matchers::StartsWith("step 50  skipped  no label  grad norm"));
  CHECK(format_duration(5.2) == "0:05");
  CHECK(format_duration(754) == "12:34");
  CHECK(format_duration(std::numeric_limits<double>::infinity()) == "?");
  CHECK(format_thousands(999) == "999");
  CHECK(format_thousands(-1234567) == "-1,234,567");
}

TEST_CASE("the bar fits its terminal") {
  CHECK_THAT(bar_line(some_progress(), 200), Catch::Matchers::StartsWith("[=====               ] step 50/200  loss"));
  for (int width = 0; width < 140; ++width) CHECK(bar_line(some_progress(), width).size() <= static_cast<std::size_t>(width));
  CHECK(bar_line(some_progress(), 79) == "50/200 loss 4.5321 norm 1.234 lr 3.0e-04 12,345 tok/s bubble 12% ETA 1:02:03");
  CHECK(bar_line(some_progress(), 30) == "50/200 loss 4.5321 norm 1.234");
}

TEST_CASE("plain lines appear at the interval, first and last; notes appear between them") {
  std::string out;
  Progress::Style style;
  style.log_interval = 10;
  Progress progress([&](std::string_view text) { out += text; }, style);
  StepProgress state = some_progress();
  state.total = 25;
  for (state.step = 1; state.step <= 25; ++state.step) progress.step(state);
  progress.note("a note");
  progress.finish();
  CHECK(std::count(out.begin(), out.end(), '\n') == 5);
  for (const char* line : {"step 1/25 ", "step 10/25 ", "step 20/25 ", "step 25/25 ", "a note\n"})
    CHECK_THAT(out, Catch::Matchers::Contains(line));
  CHECK(out.find('\r') == std::string::npos);
  CHECK(out.find('\x1b') == std::string::npos);
}

TEST_CASE("a terminal's bar is redrawn in place, in colour only if wanted") {
  std::string out;
  Progress::Style style;
  style.terminal = true;
  style.color = GENERATE(false, true);
  style.width = [] { return 60; };
  const auto write = [&](std::string_view text) { out += text; };
  Progress progress(write, style);
  progress.step(some_progress());
  CHECK(out.front() == '\r');
  CHECK(out.find('\n') == std::string::npos);
  CHECK((out.find("\x1b[36m") != std::string::npos) == style.color);
  out.clear();
  progress.note("a note");
  CHECK_THAT(out, Catch::Matchers::StartsWith("\r\x1b[Ka note\n\r"));
  progress.finish();
  CHECK(out.back() == '\n');
  out.clear();
  { Progress(write, style).step(some_progress()); }
  CHECK(out.back() == '\n');  // even if an exception ends the run
}
