// Configuration files that are wrong in 200 named ways, of pipetrain and of other systems: each is refused in one line
// that names the file and the line in it.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/options/train_options.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

struct Case {
  std::string name, file, text;
  int line = 1;
};

// For TOML and JSON alike.
const std::vector<std::pair<const char*, const char*>> wrong_counts = {{"a text", R"("many")"},
                                                                       {"negative", "-1"},
                                                                       {"zero", "0"},
                                                                       {"a fraction", "1.5"},
                                                                       {"a list", "[1, 2]"},
                                                                       {"a switch", "true"},
                                                                       {"a blank", R"("  ")"},
                                                                       {"beyond 64 bits", "99999999999999999999"},
                                                                       {"a number and more", R"("2x")"},
                                                                       {"an empty list", "[]"}};
const std::vector<std::pair<const char*, const char*>> wrong_rates = {
    {"a text", R"("high")"}, {"negative", "-0.5"}, {"a list", "[0.1, 0.2]"}, {"a switch", "false"}, {"a blank", R"("")"}};

// Adds pipetrain's own options, in both forms, on line 2.
void add_ours(std::vector<Case>& cases) {
  const auto add = [&](const std::string& key, const char* what, const std::string& value) {
    cases.push_back({fmt::format("{} is {}", key, what), "run.toml", fmt::format("# ours\n{} = {}\n", key, value), 2});
    cases.push_back({fmt::format("{} is {}", key, what), "run.json", fmt::format("{{\n\"{}\": {}}}", key, value), 2});
  };
  for (const char* key : {"pp", "microbatch", "seq-len", "steps", "save-keep"})
    for (const auto& [what, value] : wrong_counts) add(key, what, value);
  for (const char* key : {"lr", "weight-decay", "clip-grad"})
    for (const auto& [what, value] : wrong_rates) add(key, what, value);
  for (const char* key : {"schedule", "precision", "recompute", "lr-schedule", "shuffle", "deterministic", "order", "pack"}) {
    add(key, "a word that is none of its", R"("otherwise")");
    add(key, "a number", "17");
  }
  for (const char* key : {"ppp", "config", "help", "micro-batch"}) add(key, "no option of a file", "1");
}

void add_broken_texts(std::vector<Case>& cases) {
  cases.insert(cases.end(), {{"a table", "run.toml", "[pp]\nx = 1\n", 1},
                             {"a key twice", "run.toml", "pp = 1\npp = 1\n", 2},
                             {"two values", "run.toml", "tp = 1\npp = 1 2\n", 2},
                             {"no value", "run.toml", "pp =\n", 1},
                             {"a string that is not closed", "run.toml", "\nmodel = 'tiny\n", 2},
                             {"a key twice", "run.json", "{\"pp\": 1,\n\"pp\": 1}", 2},
                             {"no end", "run.json", "{\"pp\": 1", 1},
                             {"a comma too many", "run.json", "{\"pp\": 1,\n}", 2},
                             {"a list", "run.json", "[\"pp\"]", 1},
                             {"text behind", "run.json", "{\"pp\": 1}\n{}", 2},
                             {"half a character", "run.json", "{\n\"data\": \"\xc3\"}", 2},
                             {"half a surrogate", "run.json", "{\n\"data\": \"\\ud800\"}", 2}});
}

void add_deepspeed(std::vector<Case>& cases) {
  const auto add = [&](const std::string& value) {
    cases.push_back({value, "ds.json", "{\"train_micro_batch_size_per_gpu\": 1,\n" + value + "}", 2});
  };
  for (const char* value : {R"("train_batch_size": "all")",
                            R"("train_batch_size": 0)",
                            R"("gradient_accumulation_steps": -1)",
                            R"("gradient_accumulation_steps": [1])",
                            R"("gradient_clipping": "hard")",
                            R"("gradient_clipping": -1)",
                            R"("optimizer": {"type": "Lamb"})",
                            R"("optimizer": {"type": 1})",
                            R"("optimizer": {"params": {"lr": "fast"}})",
                            R"("optimizer": {"params": {"betas": 0.9}})",
                            R"("optimizer": {"params": {"betas": [0.9, 0.95, 0.99]}})",
                            R"("optimizer": {"params": {"betas": [0.9, 2]}})",
                            R"("optimizer": {"params": {"eps": -1}})",
                            R"("optimizer": {"params": {"momentum": 0.9}})",
                            R"("optimizer": {"params": {"amsgrad": true}})",
                            R"("scheduler": {"type": "OneCycle"})",
                            R"("scheduler": {"params": {"warmup_num_steps": -5}})",
                            R"("scheduler": {"params": {"total_num_steps": 0}})",
                            R"("scheduler": {"params": {"warmup_type": "log"}})",
                            R"("bf16": {"enabled": "maybe"})",
                            R"("fp16": {"enabled": true, "initial_scale_power": 99})",
                            R"("fp16": {"enabled": true, "loss_scale_window": 0})",
                            R"("zero_optimization": {"stage": 4})",
                            R"("zero_optimization": {"stage": "two"})",
                            R"("zero_optimization": {"stage": 0, "offload_param": {"device": "nvme"}})",
                            R"("pipeline": {"stages": 0})",
                            R"("pipeline": {"stages": "all"})",
                            R"("steps_per_print": -1)",
                            R"("wandb": {"enabled": true})",
                            R"("amp": {"enabled": true})",
                            R"("sparse_attention": {"mode": "variable"})",
                            R"("activation_checkpointing": {"cpu_checkpointing": true})",
                            R"("seed": "mine")",
                            R"("curriculum_learning": {"a": 1})",
                            R"("communication_data_type": "fp16")"})
    add(value);
}

void add_torchtitan(std::vector<Case>& cases) {
  const auto add = [&](const std::string& table, const std::string& line) {
    cases.push_back({table + ": " + line, "tt.toml", fmt::format("[job]\ndescription = 'theirs'\n[{}]\n{}\n", table, line), 4});
  };
  for (const char* line :
       {"local_batch_size = 0", "local_batch_size = 'big'", "seq_len = -1", "steps = 1.5", "max_norm = 'none'",
        "mixed_precision_param = 'int8'", "dataset = 'c4'", "mixed_precision_reduce = 'bfloat16'", "foo = 1"})
    add("training", line);
  for (const char* line :
       {"pipeline_parallel_degree = 0", "pipeline_parallel_degree = 'two'", "tensor_parallel_degree = -2",
        "context_parallel_degree = 0", "pipeline_parallel_schedule = 'MySchedule'", "expert_parallel_degree = 2", "bar = 2"})
    add("parallelism", line);
  for (const char* line : {"name = 'SGD'", "lr = 'low'", "lr = -1", "eps = []", "beta1 = 7"}) add("optimizer", line);
  for (const char* line : {"warmup_steps = -1", "decay_type = 'sqrt'", "min_lr_factor = 'x'"}) add("lr_scheduler", line);
  for (const char* line : {"mode = 'sometimes'", "mode = 3"}) add("activation_checkpoint", line);
  for (const char* line : {"log_freq = 0", "enable_wandb = true"}) add("metrics", line);
}

void add_megatron(std::vector<Case>& cases) {
  for (const char* line : {"--pipeline-model-parallel-size 0",
                           "--pipeline-model-parallel-size two",
                           "--tensor-model-parallel-size -1",
                           "--micro-batch-size",
                           "--micro-batch-size 1 2",
                           "--global-batch-size 1.5",
                           "--train-iters none",
                           "--seq-length 0",
                           "--lr fast",
                           "--lr",
                           "--min-lr -1",
                           "--lr-decay-style wavy",
                           "--clip-grad off",
                           "--adam-beta1 2",
                           "--adam-eps zero",
                           "--optimizer soap",
                           "--recompute-granularity most",
                           "--split 90,5,5",
                           "--num-layers 3",
                           "--hidden-size 64",
                           "--num-experts 8",
                           "--context-parallel-size two",
                           "--rampup-batch-size 16 16 1000",
                           "--lr $RATE",
                           "lr 1",
                           "--lr '1",
                           "--lr 1 \"",
                           "--",
                           "--seed x",
                           "--nothing-like-it 4",
                           "--save-interval 0"})
    cases.push_back({line, "m.args", fmt::format("# theirs\n{}\n", line), 2});
}

}  // namespace

TEST_CASE("configuration files that are wrong in 200 named ways are refused, each by its file and line") {
  std::vector<Case> cases;
  add_ours(cases);
  add_broken_texts(cases);
  add_deepspeed(cases);
  add_torchtitan(cases);
  add_megatron(cases);
  CHECK(cases.size() >= 200);
  for (const Case& wrong : cases) {
    INFO(wrong.file << ": " << wrong.name);
    const TempFolder folder;
    const std::string path = folder.write(wrong.file, wrong.text).string();
    try {
      parse_train_options({"--config", path, "--save", (folder.path() / "run").string()}, {}, {.gpus = 8, .cores = 8});
      FAIL_CHECK("it is taken");
    } catch (const Error& error) {
      const std::string text = error_line(error);
      CAPTURE(text);
      CHECK(error.kind() == ErrorKind::input);
      CHECK(text.find('\n') == std::string::npos);
      CHECK(text.find(fmt::format("{}:{}: ", path, wrong.line)) != std::string::npos);
    }
  }
}
