#include "apps/options/train_options.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "apps/help/overview.hpp"
#include "apps/options/option_table.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "ops/half_products.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using pipetrain::TempFolder;

namespace {

using Words = std::vector<std::string>;

const Machine no_gpu{0, 8};
const Machine four_gpus{4, 8};

Words words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

TrainOptions parse_train(const Words& arguments, const Environment& environment = {}, const Machine& machine = no_gpu) {
  return parse_train_options(arguments, environment, machine);
}

}  // namespace

TEST_CASE("defaults are the contract's") {
  const TrainOptions options = parse_train({});
  CHECK(options.run.model.name == "tiny");
  CHECK_FALSE(options.run.model.load_weights);
  CHECK_FALSE(options.run.model.layers);
  CHECK(options.run.data.inputs.empty());
  CHECK((options.run.layout.pp == 1 && options.run.layout.tp == 1 && options.run.batch.dp == 1));
  CHECK_FALSE(options.run.layout.sequence_parallel);
  CHECK((options.run.batch.dp == 1 && options.run.batch.microbatches == 4 && options.run.batch.microbatch == 1));
  CHECK(options.run.layout.schedule == "1f1b");
  CHECK(options.run.layout.chunks == 1);
  CHECK(options.run.layout.order == schedules::Order::planned);
  CHECK_FALSE(options.run.data.sequence_length);
  CHECK(options.run.samples.shuffle);
  CHECK(options.run.samples.seed == 0);
  CHECK_FALSE(options.run.length.steps);
  CHECK_FALSE(options.run.length.epochs);
  CHECK(options.run.learning_rate.peak == 3e-4);
  CHECK(options.run.learning_rate.minimum == 0);
  CHECK(options.run.learning_rate.kind == LearningRate::Kind::cosine);
  CHECK(options.run.learning_rate.warmup_steps == 0);
  CHECK_FALSE(options.run.learning_rate.warmup_ratio);
  CHECK(options.run.optimizer.beta1 == 0.9F);
  CHECK(options.run.optimizer.beta2 == 0.95F);
  CHECK(options.run.optimizer.eps == 1e-8F);
  CHECK(options.run.optimizer.weight_decay == 0.1F);
  CHECK(options.run.clip_norm == 1.0);
  CHECK(options.run.numerics.precision == Precision::fp32());
  CHECK(options.run.numerics.recompute == Recompute::none);
  CHECK(options.run.numerics.deterministic);
  CHECK(options.run.devices.kind == DeviceKind::cpu);
  CHECK(options.run.devices.threads == 8);
  CHECK_FALSE(options.run.saving.folder);
  CHECK_FALSE(options.records.metrics);
  CHECK_FALSE(options.run.saving.resume);
  CHECK_FALSE(options.dry_run);
  CHECK(options.notes.size() == 1);  // auto found no GPU
}

TEST_CASE("options reach their places") {
  TempFolder folder;
  const std::string data = folder.write("a.txt", "text").string();
  const std::string dir = folder.path().string();
  const TrainOptions options = parse_train(words(
      "--model llama2-7b --layers 2 --data " + data + ":2 " + data +
      ":1 --shuffle off --seed 7 --pp 2 --tp=4 --dp 3 --order ready " +
      "--steps 10 --epochs 2 --lr 1e-3 --min-lr 1e-4 --lr-schedule linear --warmup-ratio 0.1 --clip-grad 0 --device cpu " +
      "--threads 3 --seq-len 64 --schedule gpipe --log-interval 10 --save " + dir + "/new/run --metrics " + dir + "/m.jsonl"));
  CHECK(options.run.model.name == "llama2-7b");
  CHECK(options.run.model.layers == 2);
  REQUIRE(options.run.data.inputs.size() == 2);
  CHECK(options.run.data.inputs[0].path == data);
  CHECK(options.run.data.inputs[0].weight == 2.0);
  CHECK_FALSE(options.run.samples.shuffle);
  CHECK(options.run.samples.seed == 7);
  CHECK((options.run.layout.pp == 2 && options.run.layout.tp == 4 && options.run.batch.dp == 3 && options.run.ranks() == 24));
  CHECK(options.run.layout.sequence_parallel);
  CHECK(options.run.batch.microbatches == 8);
  CHECK(options.run.batch.global_batch() == 24);
  CHECK(options.run.layout.order == schedules::Order::ready);
  CHECK(options.run.layout.schedule == "gpipe");
  CHECK(options.run.length.steps == 10);
  CHECK(options.run.length.epochs == 2);
  CHECK(options.run.learning_rate.peak == 1e-3);
  CHECK(options.run.learning_rate.minimum == 1e-4);
  CHECK(options.run.clip_norm == 0);
  CHECK(options.run.devices.threads == 3);
  CHECK(*options.run.saving.folder == dir + "/new/run");
  CHECK_FALSE(std::filesystem::exists(dir + "/new"));  // checked, but not created
  CHECK(*options.records.metrics == dir + "/m.jsonl");
  CHECK(options.log_interval == 10);
  CHECK(options.run.data.sequence_length == 64);
  CHECK(options.notes.empty());
  const LearningRate rate = options.run.learning_rate.over(15);
  CHECK(rate.kind == LearningRate::Kind::linear);
  CHECK(rate.warmup_steps == 2);
  CHECK(rate.total_steps == 15);
  CHECK(parse_train({"--data", data, "--data", data}).run.data.inputs.size() == 2);
  // The last one counts, so that scripts can add options to a line.
  CHECK(parse_train({"--pp", "2", "--pp", "3"}).run.layout.pp == 3);
}

TEST_CASE("checkpoint options and switches reach their places") {
  TempFolder folder;
  const std::string dir = folder.path().string();
  CHECK(parse_train({"--save", dir, "--save-interval", "5"}).run.saving.interval == 5);
  CHECK(parse_train({"--save", dir, "--save-keep", "2"}).run.saving.keep == 2);
  CHECK(*parse_train({"--load", dir}).run.saving.load == dir);
  CHECK(parse_train({"--dry-run"}).dry_run);
  CHECK(parse_train({"--save", dir, "--resume"}).run.saving.resume);
  CHECK(parse_train({"--save", dir}, {{"PIPETRAIN_RESUME", "1"}}).run.saving.resume);
  CHECK_FALSE(parse_train({"--save", dir, "--resume=off"}, {{"PIPETRAIN_RESUME", "1"}}).run.saving.resume);
}

TEST_CASE("the batch sizes that are not given follow from the others") {
  const auto sizes = [](Words words) {
    const BatchShape shape = parse_train(words).run.batch;
    return std::vector<std::int64_t>{shape.dp, shape.microbatches, shape.microbatch};
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes({"--pp", "3", "--microbatch", "2"}) == Sizes{1, 12, 2});
  CHECK(sizes({"--dp", "2", "--global-batch", "12"}) == Sizes{2, 6, 1});
  CHECK(sizes({"--dp", "2", "--global-batch", "12", "--microbatch", "3"}) == Sizes{2, 2, 3});
  CHECK(sizes({"--dp", "2", "--global-batch", "12", "--microbatches", "3"}) == Sizes{2, 3, 2});
  CHECK(sizes({"--dp", "2", "--global-batch", "12", "--microbatches", "3", "--microbatch", "2"}) == Sizes{2, 3, 2});
}

TEST_CASE("the command line wins over the environment, that over the file, that over the default") {
  TempFolder folder;
  const std::string toml = folder
                               .write("run.toml",
                                      "# comment\npp = 2\ntp = 2\ndp = 2\nlr = 1e-3\nshuffle = false\n"
                                      "schedule = \"gpipe\"\nlog_interval = 3\n")
                               .string();
  const TrainOptions options =
      parse_train({"--config", toml, "--pp", "4"}, {{"PIPETRAIN_PP", "3"}, {"PIPETRAIN_TP", "4"}, {"PIPETRAIN_SEQ_LEN", "17"}});
  CHECK(options.run.layout.pp == 4);
  CHECK(options.run.layout.tp == 4);
  CHECK(options.run.batch.dp == 2);
  CHECK(options.run.learning_rate.peak == 1e-3);
  CHECK_FALSE(options.run.samples.shuffle);
  CHECK(options.run.layout.schedule == "gpipe");
  CHECK(options.log_interval == 3);
  CHECK(options.run.data.sequence_length == 17);
  CHECK(options.run.learning_rate.minimum == 0);

  const std::string json = folder
                               .write("run.json", R"({"pp": 2, "lr": 0.01, "steps": null, "data": ["a.txt:1", "b.txt:2"],
    "shuffle": false, "seq_len": 12})")
                               .string();
  const TrainOptions from_json = parse_train({}, {{"PIPETRAIN_CONFIG", json}, {"PIPETRAIN_DP", ""}});
  CHECK(from_json.run.layout.pp == 2);
  CHECK(from_json.run.batch.dp == 1);
  CHECK(from_json.run.learning_rate.peak == 0.01);
  CHECK_FALSE(from_json.run.length.steps);
  CHECK(from_json.run.data.inputs.size() == 2);
  CHECK(from_json.run.data.sequence_length == 12);
  CHECK_FALSE(from_json.run.samples.shuffle);

  const TrainOptions two =
      parse_train({"--device", "cpu"}, {{"PIPETRAIN_DATA", "a.txt b.txt"}, {"PIPETRAIN_FAULT", "0:1:nan"}});
  CHECK(two.run.data.inputs.size() == 2);
  CHECK(two.notes.empty());
  const auto note = [](const char* name) { return parse_train({"--device", "cpu"}, {{name, "2"}}).notes.at(0); };
  const std::string passed_over = " is no option of pipetrain and is ignored; ";
  CHECK(note("PIPETRAIN_PPP") == "the environment variable PIPETRAIN_PPP" + passed_over + "did you mean PIPETRAIN_PP?");
  CHECK(note("PIPETRAIN_PP_SIZE") == "the environment variable PIPETRAIN_PP_SIZE" + passed_over + "here it is PIPETRAIN_PP");
  CHECK_THROWS_AS(parse_train({}, {{"PIPETRAIN_ZERO", "2"}}), pipetrain::Error);  // there is one replica
  CHECK(parse_train({}, {{"PIPETRAIN_LOSS_SCALE", "2"}}).run.loss_scale.initial == 2);
}

TEST_CASE("a section that a DeepSpeed file turns off sets no option") {
  const TempFolder folder;
  const auto from = [&](const std::string& name, const std::string& content, Words words = {}) {
    words.insert(words.end(), {"--config", folder.write(name, content).string()});
    return parse_train(words, {}, four_gpus);
  };
  const TrainOptions options = from("ds.json", R"({"pp": 2, "clip_grad": 0.5, "fp16": {"enabled": false, "loss_scale": 0},
      "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "none"}, "overlap_comm": true},
      "flops_profiler": {"enabled": false}, "tensorboard": {"enabled": false}, "gradient_checkpointing": false})");
  CHECK(options.run.layout.pp == 2);
  CHECK(options.run.clip_norm == 0.5);
  CHECK(options.run.numerics.precision == Precision::bf16());
  CHECK(from("ds.toml", "fp16 = false\n[zero_optimization]\nstage = 0\n[zero_optimization.offload_param]\ndevice = 'none'\n")
            .run.layout.pp == 1);

  const std::string off = R"({"bf16": {"enabled": false}})";
  CHECK(from("ds.json", off).run.numerics.precision == Precision::fp32());
  CHECK(from("ds.json", off, {"--precision", "bf16"}).run.numerics.precision == Precision::bf16());
  CHECK(from("ds.json", R"({"bf16": false, "precision": "fp32"})").run.numerics.precision == Precision::fp32());
}

TEST_CASE("the options of offloading name what is offloaded, and where to") {
  CHECK_FALSE(parse_train({"--zero", "0", "--offload", "off"}).run.offload.any());
  CHECK_FALSE(parse_train({"--offload", "none"}).run.offload.any());
  CHECK(parse_train({"--offload", "optimizer"}).run.offload == Offload{.optimizer = true});
  CHECK(parse_train({"--offload", "optimizer", "--offload-to", "d"}).run.offload == Offload{.optimizer = true, .folder = "d"});
  const RunSettings weights = parse_train({"--offload", "optimizer,parameters", "--zero-prefetch", "3"}).run;
  CHECK(weights.offload == Offload{.optimizer = true, .parameters = true});
  CHECK(weights.zero == Zero{.stage = 0, .prefetch = 3});
  CHECK(parse_train({"--offload", "parameters", "--dp", "2", "--zero", "3"}).run.zero.stage == 3);
  CHECK(parse_train({"--offload", "gradients"}).run.offload == Offload{.gradients = true});
  CHECK(parse_train({"--offload", "activations,optimizer", "--activation-offload-fraction", "0.5"}).run.offload ==
        Offload{.optimizer = true, .activations = true, .activation_fraction = 0.5});
  CHECK(parse_train({"--offload", "optimizer", "--optimizer-offload-fraction", "0.25"}).run.offload ==
        Offload{.optimizer = true, .optimizer_fraction = 0.25});
}

TEST_CASE("another --offload of a live run forgets the shares and bounds of the one before") {
  const TrainOptions shares =
      parse_train({"--save", "run", "--offload", "optimizer,activations", "--optimizer-offload-fraction", "0.5",
                   "--activation-offload-fraction", "0.25", "--offload-to", "/tmp"});
  CHECK(shares.changed({"--pp", "2"}, {}).run.offload == shares.run.offload);
  CHECK_FALSE(shares.changed({"--offload", "none"}, {}).run.offload.any());
  CHECK(shares.changed({"--offload", "optimizer"}, {}).run.offload ==
        Offload{.optimizer = true, .optimizer_fraction = 0.5, .folder = "/tmp"});
  CHECK(shares.changed({"--offload", "auto"}, {}).placement.has_value());
  const TrainOptions chosen =
      parse_train({"--save", "run", "--offload", "auto", "--offload-to", "/tmp", "--memory", "8", "--offload-bandwidth", "2"});
  CHECK(chosen.placement->offload_rate == 2e9);
  const TrainOptions host = chosen.changed({"--offload", "optimizer"}, {});
  CHECK(host.run.offload == Offload{.optimizer = true});
  CHECK_FALSE(host.placement.has_value());
}

TEST_CASE("dropout is a share below 1, and the model's own where it is not given") {
  CHECK_FALSE(parse_train({}).run.model.dropout);
  CHECK(parse_train({"--dropout", "0.25"}).run.model.dropout == 0.25);
  CHECK(parse_train({"--dropout", "0"}).run.model.dropout == 0.0);
  for (const char* wrong : {"1", "-0.1", "nan", "x"}) CHECK_THROWS_AS(parse_train({"--dropout", wrong}), pipetrain::Error);
}

TEST_CASE("names with underscores, words after switches and words in capitals are understood") {
  CHECK(parse_train({"--seq_len", "8", "--log_interval=3"}).run.data.sequence_length == 8);
  CHECK(parse_train({"--dry_run", "true", "--pp", "2"}).run.layout.pp == 2);
  CHECK_FALSE(parse_train({"--dry-run", "off"}).dry_run);
  CHECK(parse_train({"--dry-run", "on"}).dry_run);
  CHECK(parse_train({"--dry-run=True"}).dry_run);
  CHECK_FALSE(parse_train({"--shuffle", "OFF"}).run.samples.shuffle);
  CHECK(parse_train({"--warmup-ratio", "1"}).run.learning_rate.warmup_ratio == 1);
}

TEST_CASE("lists in a file are what commas are on the command line, and auto is the default of a number") {
  TempFolder folder;
  const std::string toml = folder.write("run.toml", "devices = [3, 1]\npp = 2\nlr = \"auto\"\n").string();
  const TrainOptions options = parse_train({"--config", toml}, {}, four_gpus);
  CHECK(options.run.devices.gpus == std::vector<int>{3, 1});
  CHECK(options.run.learning_rate.peak == 3e-4);
}

TEST_CASE("recomputation has three modes") {
  CHECK(parse_train({"--recompute", "none"}).run.numerics.recompute == Recompute::none);
  CHECK(parse_train({"--recompute", "selective"}).run.numerics.recompute == Recompute::selective);
  CHECK(parse_train({}, {{"PIPETRAIN_RECOMPUTE", "full"}}).run.numerics.recompute == Recompute::full);
  CHECK_FALSE(parse_train({"--recompute", "full"}).run.numerics.recompute_layers);
  CHECK(parse_train({}).run.numerics.loss_chunks == 1);
  CHECK(parse_train({"--loss-chunks", "8"}).run.numerics.loss_chunks == 8);
  CHECK(parse_train({"--recompute", "full", "--recompute-num-layers", "6"}).run.numerics.recompute_layers == 6);
}

TEST_CASE("GPUs are taken when there are enough") {
  const TrainOptions gpu = parse_train({"--pp", "2", "--tp", "2"}, {}, four_gpus);
  CHECK(gpu.run.devices.kind == DeviceKind::cuda);
  CHECK(gpu.run.devices.gpus == std::vector<int>{0, 1, 2, 3});
  CHECK(gpu.run.numerics.precision == Precision::bf16());
  CHECK(gpu.run.numerics.deterministic);
  CHECK(gpu.notes.empty());
  CHECK_FALSE(parse_train({"--deterministic", "off"}, {}, four_gpus).run.numerics.deterministic);
  const auto fp8 = parse_train({"--precision", "fp8", "--num-layers-at-start-in-bf16", "2"}, {}, four_gpus).run.numerics;
  CHECK(fp8.precision == Precision::fp8());
  CHECK(fp8.bf16_layers.at_start == 2);
  CHECK(fp8.bf16_layers.at_end == 0);
  CHECK(fp8.deterministic);
  const auto recipe = [](const char* name) {
    return parse_train({"--precision", "fp8", "--fp8-recipe", name}, {}, four_gpus).run.numerics.precision;
  };
  CHECK(recipe("tensorwise") == Precision::fp8());
  CHECK(recipe("blockwise") == Precision::fp8_of_blocks());
  CHECK(parse_train({"--pp", "2", "--devices", "3,1"}, {}, four_gpus).run.devices.gpus == std::vector<int>{3, 1});
  const TrainOptions cpu = parse_train({"--pp", "5"}, {}, four_gpus);
  CHECK(cpu.run.devices.kind == DeviceKind::cpu);
  CHECK(cpu.run.devices.threads == 1);
  REQUIRE(cpu.notes.size() == 1);
  CHECK(cpu.notes[0] == "pp 5 x tp 1 x dp 1 takes 5 GPUs, and 4 are visible: using the CPU");
  CHECK(parse_train({"--device", "cpu", "--pp", "2"}, {}, four_gpus).run.devices.threads == 4);
}

TEST_CASE("a CPU computes in bf16 and fp16, and a note says if its processor has no instructions for them") {
  for (const DType type : {DType::bf16, DType::f16}) {
    const std::string name = type == DType::bf16 ? "bf16" : "fp16";
    const auto options = parse_train({"--precision", name, "--device", "cpu"});
    CHECK(options.run.numerics.precision.compute == type);
    const std::string note = name + " on this CPU: products are widened to fp32, which is slower than --precision fp32";
    CHECK(std::count(options.notes.begin(), options.notes.end(), note) == (half_products(type).native ? 0 : 1));
  }
}

TEST_CASE("each optimizer has its own decays where none are given") {
  const auto optimizer = [](Words words, const Environment& environment = {}) {
    return parse_train(words, environment).run.optimizer;
  };
  const OptimizerSettings adamw = optimizer({}), lion = optimizer({"--optimizer", "lion"});
  CHECK(adamw.name == "adamw");
  CHECK(adamw.beta2 == 0.95F);
  CHECK(adamw.weight_decay == 0.1F);
  CHECK(lion.name == "lion");
  CHECK(lion.beta1 == 0.9F);
  CHECK(lion.beta2 == 0.99F);
  CHECK(lion.weight_decay == 0.1F);
  CHECK(optimizer({"--optimizer", "lion", "--beta2", "0.98"}).beta2 == 0.98F);
  CHECK(optimizer({}, {{"PIPETRAIN_OPTIMIZER", "lion"}}).name == "lion");
}

TEST_CASE("help names every option of the contract") {
  const std::string help = train_help();
  for (const std::string& name : words(
           "model init layers data tokenizer pp tp dp sequence-parallel microbatch microbatches global-batch "
           "schedule chunks order seq-len shuffle seed steps epochs lr min-lr lr-schedule warmup-steps "
           "warmup-ratio optimizer beta1 beta2 adam-eps weight-decay clip-grad precision recompute recompute-num-layers "
           "loss-chunks "
           "deterministic "
           "device "
           "devices threads save save-interval save-keep save-keep-every load resume metrics tensorboard trace profile report "
           "log-interval config dry-run help version"))
    CHECK_THAT(help, Catch::Matchers::Contains("\n  --" + name));
}

TEST_CASE("a loss scale is dynamic in fp16, and of other runs as it is given") {
  const auto scale = [](Words words) { return parse_train(words, {}, four_gpus).run.loss_scale; };
  CHECK(scale({}) == LossScaleSettings{});
  CHECK(scale({"--precision", "fp16"}) == LossScaleSettings{true, 65536, 1000, 2, 1});
  CHECK(scale({"--precision", "fp16", "--loss-scale", "512"}) == LossScaleSettings{.initial = 512});
  CHECK(scale({"--loss-scale", "dynamic", "--loss-scale-initial", "0.5", "--loss-scale-window", "7", "--loss-scale-hysteresis",
               "3", "--loss-scale-min", "0.25"}) == LossScaleSettings{true, 0.5, 7, 3, 0.25});
  CHECK(scale({"--loss-scale", "0"}).dynamic);
}
