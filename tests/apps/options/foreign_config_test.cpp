// --config with the files of other systems: their meaning here, requests that are refused, and what --save-config
// writes for them.
#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using Words = std::vector<std::string>;

namespace {

TrainOptions from(const std::string& name, const std::string& content, Words words = {}) {
  const TempFolder folder;
  words.insert(words.end(), {"--config", folder.write(name, content).string()});
  return parse_train_options(words, {}, {.gpus = 8, .cores = 8});
}

std::string foreign_error(const std::string& name, const std::string& content, const Words& words = {}) {
  try {
    from(name, content, words);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    const std::string text = error.what();
    return text.substr(std::min(text.find(name), text.size()));
  }
  return "no error";
}

const std::string batch = R"("train_micro_batch_size_per_gpu": 2, )";

const std::string torchtitan_file = R"(
[job]
dump_folder = "out"
description = "a run"
[profiling]
enable_profiling = false
save_traces_folder = "profile_trace"
[metrics]
log_freq = 10
enable_tensorboard = true
save_tb_folder = "tb"
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
lr = 3e-4
eps = 1e-8
[lr_scheduler]
warmup_steps = 200
decay_type = "cosine"
min_lr_factor = 0.1
[training]
local_batch_size = 8
seq_len = 8192
max_norm = 1.0
steps = 1000
mixed_precision_param = "bfloat16"
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 1
tensor_parallel_degree = 2
enable_async_tensor_parallel = false
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "ZBVZeroBubble"
pipeline_parallel_microbatch_size = 2
context_parallel_degree = 1
[checkpoint]
enable = false
folder = "checkpoint"
interval = 500
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)";

}  // namespace

TEST_CASE("a DeepSpeed file says the same here") {
  const TrainOptions options = from("ds.json", R"({
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.05}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.0001, "warmup_num_steps": 20,
                  "total_num_steps": 500, "warmup_type": "linear"}},
    "gradient_clipping": 0.5, "steps_per_print": 10, "bf16": {"enabled": true}, "fp16": {"enabled": false, "loss_scale": 0},
    "zero_optimization": {"stage": 0, "overlap_comm": true, "reduce_bucket_size": 5e8, "offload_optimizer": {"device": "none"}},
    "pipeline": {"stages": 4, "partition_method": "uniform", "activation_checkpoint_interval": 1},
    "tensorboard": {"enabled": false, "output_path": "/nowhere/at/all"}, "wandb": {"enabled": false, "project": "x"},
    "wall_clock_breakdown": false, "flops_profiler": {"enabled": true, "profile_step": 1}})");
  const RunSettings& run = options.run;
  CHECK(run.batch.microbatch == 2);
  CHECK(run.batch.microbatches == 16);
  CHECK(run.layout.pp == 4);
  CHECK(run.learning_rate.peak == 1e-4);
  CHECK(run.learning_rate.kind == LearningRate::Kind::linear);
  CHECK(run.learning_rate.warmup_steps == 20);
  CHECK(run.length.steps == 500);
  CHECK(run.optimizer.beta2 == 0.98F);
  CHECK(run.optimizer.eps == 1e-6F);
  CHECK(run.clip_norm == 0.5);
  CHECK(run.numerics.precision == Precision::bf16());
  CHECK(run.numerics.recompute == Recompute::full);
  CHECK(options.log_interval == 10);
  CHECK(!options.records.tensorboard);
  CHECK(from("ds.json", "{" + batch + R"("bf16": {"enabled": false}})").run.numerics.precision == Precision::fp32());
  CHECK(from("ds.json", "{" + batch + R"("gradient_clipping": 1})", {"--clip-grad", "3"}).run.clip_norm == 3);
}

TEST_CASE("a DeepSpeed file's Lion is ours, with its own decays") {
  const auto optimizer = [](const std::string& rest) {
    return from("ds.json", "{" + batch + R"("optimizer": {"type": )" + rest + "}}").run.optimizer;
  };
  CHECK(optimizer(R"("Lion")").name == "lion");
  CHECK(optimizer(R"("FusedLion", "params": {"lr": 1e-4})").beta2 == 0.99F);
  CHECK(optimizer(R"("Lion", "params": {"betas": [0.95, 0.98]})").beta1 == 0.95F);
  CHECK(optimizer(R"("Adam")").name == "adamw");
}

TEST_CASE("a DeepSpeed file's fp16 is ours, with its loss scale") {
  const auto run = from("ds.json", "{" + batch + R"("fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12,
      "loss_scale_window": 500, "hysteresis": 3, "min_loss_scale": 2, "consecutive_hysteresis": false}})")
                       .run;
  CHECK(run.numerics.precision == Precision::fp16());
  CHECK(run.loss_scale == LossScaleSettings{true, 4096, 500, 3, 2});
  CHECK(from("ds.json", "{" + batch + R"("fp16": {"enabled": true, "loss_scale": 128}})").run.loss_scale ==
        LossScaleSettings{.dynamic = false, .initial = 128});
}

TEST_CASE("a DeepSpeed file's optimizer on the CPU is offloaded") {
  const auto run =
      from("ds.json", "{" + batch + R"("zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}})").run;
  CHECK(run.offload == Offload{.optimizer = true});
  const std::string share = R"("zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu", "ratio": 0.3}}})";
  CHECK(from("ds.json", "{" + batch + share).run.offload == Offload{.optimizer = true, .optimizer_fraction = 0.3});
}

TEST_CASE("an unsupported value in a DeepSpeed file is refused by its key") {
  const auto answer = [](const std::string& rest) { return foreign_error("ds.json", "{\n" + batch + "\n" + rest + "}"); };
  CHECK_THAT(answer(R"("optimizer": {"type": "Lamb"})"),
             StartsWith("ds.json:3: optimizer.type: lamb is not built; known are AdamW, Adam, FusedAdam, Lion"));
  CHECK_THAT(answer(R"("optimizer": {"type": "AdamW", "params": {"betas": [0.9]}})"),
             Contains("optimizer.params.betas: must be a list of 2"));
  CHECK_THAT(answer(R"("scheduler": {"type": "OneCycle"})"),
             Contains("scheduler.type: onecycle is not built; known are WarmupLR"));
  CHECK_THAT(answer(R"("zero_optimization": {"stage": 2})"),
             Contains("zero_optimization.stage = 2") && Contains("there is one; give dp 2"));
  CHECK_THAT(answer(R"("zero_optimization": {"stage": 0, "offload_param": {"device": "cpu"}})"),
             Contains("offload_param.device: cpu is not supported here: weights are offloaded by --offload parameters"));
  CHECK_THAT(answer(R"("fp16": {"enabled": true, "fp16_master_weights_and_grads": true})"),
             Contains("master weights and gradients are fp32"));
  CHECK_THAT(answer(R"("elasticity": {"enabled": true})"),
             Contains("elasticity.enabled: is not a key of DeepSpeed's that is known here"));
  CHECK_THAT(answer(R"("wandb": {"enabled": true})"), Contains("wandb.enabled: nothing is sent over the network"));
  CHECK_THAT(answer(R"("gradient_clipping": {"x": {"y": 1}})"), Contains("gradient_clipping.x.y: is not a key"));
  CHECK_THAT(answer(R"("bf16": {"enabled": "yes"})"), Contains("bf16.enabled: must be true or false"));
  CHECK_THAT(answer(R"("optimizer": {"params": {"lr": 1}}, "scheduler": {"params": {"warmup_max_lr": 2}})"),
             Contains("scheduler.params.warmup_max_lr = 2: but ") && Contains("optimizer.params.lr = 1; keep one of them"));
}

TEST_CASE("a torchtitan file says the same here") {
  const TrainOptions options = from("tt.toml", torchtitan_file);
  const RunSettings& run = options.run;
  CHECK(run.model.name == "llama3-8b");
  CHECK(run.layout.pp == 4);
  CHECK(run.layout.tp == 2);
  CHECK(run.layout.schedule == "zb-v");
  CHECK(run.batch.microbatch == 2);
  CHECK(run.batch.microbatches == 4);
  CHECK(run.learning_rate.minimum == Approx(3e-5));
  CHECK(run.learning_rate.warmup_steps == 200);
  CHECK(run.numerics.recompute == Recompute::selective);
  CHECK(options.records.tensorboard == std::filesystem::path("out/tb"));
  CHECK(!run.saving.folder);  // not enabled
}

TEST_CASE("sharded replicas of other systems are --zero here") {
  const auto replicas = [](const TrainOptions& options) { return std::pair{options.run.batch.dp, options.run.zero.stage}; };
  const std::string degree = "[parallelism]\ndata_parallel_shard_degree = 4\n";
  CHECK(replicas(from("tt.toml", degree)) == std::pair<std::int64_t, int>{4, 3});
  CHECK(replicas(from("tt.toml", degree + "fsdp_reshard_after_forward = 'never'\n")) == std::pair<std::int64_t, int>{4, 2});
  CHECK(replicas(from("tt.toml", "[parallelism]\ndata_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\n")) ==
        std::pair<std::int64_t, int>{4, 0});
  const std::string batch_of_one = "{\"train_micro_batch_size_per_gpu\": 1, ";
  CHECK(replicas(from("ds.json", batch_of_one + R"("zero_optimization": {"stage": 3}})", {"--dp", "2"})) ==
        std::pair<std::int64_t, int>{2, 3});
  CHECK(replicas(from("mega.args", "--use-distributed-optimizer", {"--dp", "2"})) == std::pair<std::int64_t, int>{2, 1});
}

TEST_CASE("an unsupported value in a torchtitan file is refused by its key, unless the command line gives the option") {
  CHECK_THAT(foreign_error("tt.toml", "[training]\ndataset = 'c4'\n"),
             StartsWith("tt.toml:2: training.dataset: data is files here: give --data PATH"));
  const TempFolder folder;
  CHECK(from("tt.toml", "[training]\ndataset = 'c4'\n", {"--data", folder.write("x.txt", "hello").string()})
            .run.data.inputs.size() == 1);
  CHECK(from("tt.toml", "[parallelism]\ncontext_parallel_degree = 2\n", {"--device", "cpu"}).run.layout.cp == 2);
  CHECK_THAT(foreign_error("tt.toml", "[parallelism]\ncontext_parallel_degree = 0\n"), Contains("tt.toml:2: "));
  CHECK_THAT(foreign_error("tt.toml", "[parallelism]\ndata_parallel_shard_degree = -1\n"), Contains("number of replicas"));
  CHECK_THAT(foreign_error("tt.toml", "[parallelism]\ndata_parallel_shard_degree = 2\ndata_parallel_replicate_degree = 2\n"),
             Contains("sharded replicas are not built"));
  CHECK_THAT(foreign_error("tt.toml",
                           "[training]\nlocal_batch_size = 3\n[parallelism]\npipeline_parallel_degree = "
                           "2\npipeline_parallel_microbatch_size = 2\n"),
             Contains("is not a multiple of pipeline_parallel_microbatch_size"));
  const std::string text = folder.write("a.txt", "hello").string();
  const TrainOptions evaluates =
      from("tt.toml",
           "[training]\nsteps = 3\n[validation]\nenable = true\nfreq = 20\nsteps = -1\ndataset_path = '" + text + "'\n", {});
  CHECK(evaluates.run.evaluation.interval == 20);
  CHECK(evaluates.run.evaluation.inputs.size() == 1);
  CHECK(!from("tt.toml", "[validation]\nenable = false\nfreq = 20\n[training]\nsteps = 3\n", {}).run.evaluation.wanted());
  CHECK_THAT(foreign_error("tt.toml", "[training]\nsteps = 3\n[validation]\nenable = true\nsteps = 10\n"),
             Contains("an evaluation uses all of its data"));
  CHECK_THAT(foreign_error("tt.toml", "[training]\nfoo = 1\n"), Contains("training.foo: is not a key of torchtitan's"));
}

TEST_CASE("Megatron-LM's number of layers to recompute is ours where its method recomputes the first ones") {
  const auto layers = [](const std::string& method) {
    const std::string text = "--recompute-granularity full --recompute-num-layers 3 --recompute-method " + method;
    return from("m.args", text, {}).run.numerics.recompute_layers;
  };
  CHECK(layers("block") == 3);
  CHECK_FALSE(layers("uniform"));  // units of 3 layers, all of which recompute
}

TEST_CASE("a line of Megatron-LM's arguments says the same here") {
  const TempFolder folder;
  const std::string a = folder.write("a.txt", "hello").string(), b = folder.write("b.txt", "hello").string();
  const TrainOptions options =
      from("m.args",
           "# a run\n--pipeline-model-parallel-size 2 --tensor-model-parallel-size=2 \\\n --sequence-parallel\n"
           "--micro-batch-size 1 --global-batch-size 16 --train-iters 100 --seq-length 128\n"
           "--lr 1e-4 --min-lr 1.0e-5 --lr-decay-style cosine --lr-warmup-iters 10 --clip-grad 1.0 --bf16\n"
           "--adam-beta1 0.9 --adam-beta2 0.95 --recompute-granularity full --recompute-method uniform\n"
           "--use-flash-attn --overlap-grad-reduce --no-masked-softmax-fusion --eval-iters 0 --eval-interval 100\n"
           "--lr-warmup-init 1e-6\n"
           "--num-layers 16 --hidden-size 2048 --swiglu --data-path 0.25 '" +
               a + "' 0.75 \"" + b + "\" --log-interval 5\n",
           {"--model", "llama3.2-1b"});
  const RunSettings& run = options.run;
  CHECK(run.layout.pp == 2);
  CHECK(run.layout.tp == 2);
  CHECK(run.layout.sequence_parallel);
  CHECK(run.batch.microbatches == 16);
  CHECK(run.length.steps == 100);
  CHECK(run.learning_rate.minimum == 1e-5);
  CHECK(run.numerics.recompute == Recompute::full);
  CHECK_FALSE(run.numerics.recompute_layers);
  REQUIRE(run.data.inputs.size() == 2);
  CHECK(run.data.inputs[0].weight == 0.25);
  CHECK(run.data.inputs[1].path == b);
  CHECK(options.log_interval == 5);
  CHECK(run.learning_rate.warmup_initial == 1e-6);
  CHECK(!run.evaluation.interval);  // nothing is evaluated
  const TrainOptions evaluates = from("m.args", "--valid-data-path '" + a + "' --eval-interval 100", {});
  REQUIRE(evaluates.run.evaluation.inputs.size() == 1);
  CHECK(evaluates.run.evaluation.interval == 100);

  CHECK_THAT(foreign_error("m.args", "--split 949,50,1"),
             Contains("split: 949,50,1 is not supported here: the share of the samples to evaluate"));
  CHECK_THAT(foreign_error("m.args", "--lr 1\n--num-layers 16\n"),
             StartsWith("m.args:2: num-layers: the model's shape comes from --model"));
  CHECK_THAT(foreign_error("m.args", "--eval-iters 10"),
             Contains("eval-iters: 10 is not supported here: an evaluation uses all of its data"));
  CHECK_THAT(foreign_error("m.args", "--lr $LR"), Contains("m.args:1: contains a shell variable"));
  CHECK_THAT(foreign_error("m.args", "torchrun pretrain.py --lr 1"), Contains("m.args:1: torchrun: arguments begin with --"));
  CHECK_THAT(foreign_error("m.args", "--lr '1"), Contains("a quote is not closed"));
  CHECK_THAT(foreign_error("m.args", "--lr 1 2"), Contains("m.args:1: "));
  CHECK_THAT(foreign_error("m.args", "--moe-router-topk 2"), Contains("moe-router-topk: is not a key of Megatron-LM's"));
  CHECK_THAT(foreign_error("m.args", "--flash-attention"), EndsWith("known here; this is always on here, leave it out"));
}

TEST_CASE("the options of a run are saved as a file that asks for the same run") {
  const TempFolder folder;
  const std::string
      ds =
          folder.write("ds.json", "{" + batch + R"("gradient_clipping": 0.5, "optimizer": {"params": {"lr": 1e-3}}})").string(),
      saved = (folder.path() / "ours.toml").string(), again = (folder.path() / "again.toml").string(),
      data = folder.write("a \"b\".txt", std::string(4000, 'x')).string();
  const Result first = run("--config " + ds + " --device cpu --seq-len 8 --layers 1 --steps 2 --data '" + data +
                               "' --dry-run --save-config " + saved,
                           "PIPETRAIN_PP=2");
  INFO(first.err);
  REQUIRE(first.status == 0);
  const std::string text = read_file(saved);
  CHECK_THAT(text, Contains("pp = 2\n") && Contains("microbatch = 2\n") && Contains("lr = \"0.001\"\n") &&
                       Contains("clip-grad = \"0.5\"\n") && Contains("a \\\"b\\\".txt") && !Contains("config") &&
                       !Contains("dry-run"));
  const Result second = run("--config " + saved + " --dry-run --save-config " + again);
  INFO(second.err);
  REQUIRE(second.status == 0);
  CHECK(second.out == first.out);
  CHECK(read_file(again) == text);
  CHECK_THAT(refused("--dry-run --config " + saved + " --save-config " + saved), Contains("give each its own path"));
}
