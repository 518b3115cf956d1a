// Every mistake on the command line ends in one line that says what to do.
#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using pipetrain::TempFolder;

namespace {

std::string option_error(const std::vector<std::string>& arguments, const Environment& environment = {},
                         const Machine& machine = {0, 8}) {
  try {
    parse_train_options(arguments, environment, machine);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error_line(error);
  }
  return "no error";
}

std::string config_error(const std::string& name, const std::string& content) {
  TempFolder folder;
  std::string error = option_error({"--config", folder.write(name, content).string()});
  const std::string prefix = folder.path().string() + "/";
  if (const auto at = error.find(prefix); at != std::string::npos) error.erase(at, prefix.size());
  return error;
}

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

}  // namespace

TEST_CASE("an unknown option is answered with the nearest, or with what it is called here") {
  CHECK(option_error({"--microbach", "2"}) == "--microbach: unknown option; did you mean --microbatch?");
  CHECK(option_error({"--microbatchs", "2"}) == "--microbatchs: unknown option; did you mean --microbatches?");
  CHECK(option_error({"--seq_lem", "2"}) == "--seq_lem: unknown option; did you mean --seq-len?");
  CHECK(option_error({"--pipeline-model-parallel-size=2"}) ==
        "--pipeline-model-parallel-size: unknown option; here it is --pp");
  CHECK(option_error({"--micro-batch-size", "2"}) == "--micro-batch-size: unknown option; here it is --microbatch");
  CHECK(option_error({"--gradient_accumulation_steps", "2"}) ==
        "--gradient_accumulation_steps: unknown option; here it is --microbatches");
  CHECK(option_error({"-p", "zero2"}) == "-p: unknown option; here it is --pp, --tp, --dp, --zero and --offload");
  CHECK(option_error({"--flash_attention"}) == "--flash_attention: unknown option; this is always on here, leave it out");
  CHECK(option_error({"--zero_stage", "1"}) == "--zero_stage: unknown option; here it is --zero");
  CHECK_THAT(option_error({"--growth_interval", "9"}), Contains("here it is --loss-scale-window"));
  CHECK_THAT(option_error({"--fp16"}), Contains("here it is --precision fp16"));
  CHECK_THAT(option_error({"--nproc_per_node", "8"}), Contains("here it is --nproc"));
  CHECK(option_error({"--allgather_bucket_size=5"}) ==
        "--allgather_bucket_size: unknown option; this is automatic here, leave it out");
  CHECK(option_error({"--parallelism.pipeline_parallel_degree", "2"}) ==
        "--parallelism.pipeline_parallel_degree: unknown option; here it is --pp");
  CHECK(option_error({"--training.seq_len=8"}) == "--training.seq_len: unknown option; here it is --seq-len");
  CHECK(option_error({"--seq", "4"}) == "--seq: unknown option; did you mean --seq-len?");
  CHECK(option_error({"--zyx"}) == "--zyx: unknown option; --help lists them all");
  CHECK_THAT(option_error({"train", "--pp", "2"}), StartsWith("train: unexpected argument"));
  CHECK_THAT(option_error({"--pp", "2", "4"}), StartsWith("4: unexpected argument"));
}

TEST_CASE("a cut has a count of blocks for each virtual stage") {
  CHECK(option_error({"--pp", "2", "--cut", "5,0"}) ==
        "--cut 5,0: leaves a virtual stage without a block; give each at least 1, or use fewer stages");
  for (const char* word : {"5,x", "5,", ",5", "5,-3", "5;3", "5,3.5", "5, 3", "5,99999999999999999999"})
    CHECK_THAT(option_error({"--pp", "2", std::string("--cut=") + word}),
               Contains("is no number of blocks; give one for each"));
  CHECK(option_error({"--pp", "2", "--cut", "3,3,2"}) ==
        "--cut 3,3,2: cuts the model into 3 parts, and pp 2 x chunks 1 is 2 virtual stages; give one number for each");
  CHECK_THAT(option_error({"--pp", "2", "--schedule", "zb-v", "--cut", "4,4"}),
             Contains("pp 2 x chunks 2 is 4 virtual stages"));
  CHECK_THAT(option_error({"--cut", ""}), StartsWith("--cut"));
  CHECK_THAT(option_error({}, {{"PIPETRAIN_CUT", "3,5"}}), StartsWith("PIPETRAIN_CUT=3,5: cuts the model into 2 parts"));
  CHECK_THAT(config_error("run.toml", "pp = 2\ncut = \"8\"\n"), StartsWith("run.toml:2: cut = 8: cuts the model into 1 part"));
  CHECK_THAT(option_error({"--pipeline-model-parallel-layout", "Et*3|t*4,L"}), Contains("here it is --cut"));
}

TEST_CASE("dividing state among replicas where that makes no sense is refused") {
  for (const char* stage : {"1", "2", "3"})
    CHECK(option_error({"--zero", stage}) ==
          std::string("--zero ") + stage +
              ": zero divides state among replicas, and there is one; give dp 2 or more, or leave it out");
  CHECK_THAT(option_error({"--zero", "4", "--dp", "2"}), StartsWith("--zero 4: must be from 0 to 3"));
  CHECK_THAT(option_error({"--zero", "2", "--dp", "2", "--zero-prefetch", "2"}),
             StartsWith("--zero-prefetch 2: applies to --zero 3") && Contains("--zero is 2"));
  CHECK_THAT(option_error({"--zero", "3", "--dp", "2", "--order", "ready"}),
             StartsWith("--order ready: replicas gather the weights of zero 3") && Contains("use planned"));
}

TEST_CASE("options and values of later are errors that say so") {
  CHECK_THAT(option_error({"--offload", "1"}), StartsWith("--offload 1: must be none, or names among optimizer"));
  CHECK_THAT(option_error({"--offload", "optimizer,none"}),
             StartsWith("--offload optimizer,none: none cannot be combined with other names"));
  CHECK_THAT(option_error({"--optimizer-offload-fraction", "0.5"}),
             StartsWith("--optimizer-offload-fraction 0.5: applies to --offload optimizer"));
  CHECK_THAT(option_error({"--offload", "auto", "--offload-to", "/tmp", "--optimizer-offload-fraction", "0.5"}),
             StartsWith("--optimizer-offload-fraction 0.5: is chosen by --offload auto"));
  CHECK_THAT(option_error({"--activation-offload-fraction", "0.5"}),
             StartsWith("--activation-offload-fraction 0.5: applies to --offload activations"));
  for (const char* fraction : {"0", "1.5", "half"})
    CHECK_THAT(option_error({"--offload", "activations", "--activation-offload-fraction", fraction}),
               StartsWith("--activation-offload-fraction"));
  CHECK(option_error({"--offload", "parameters,gradients", "--dp", "2", "--zero", "1"}, {}, {4, 8}) == "no error");
  CHECK_THAT(option_error({"--offload-to", "/tmp"}), StartsWith("--offload-to /tmp: there is nothing to put there"));
  CHECK_THAT(option_error({"--offload", "auto", "--device", "cpu"}), StartsWith("--offload auto: needs a disk"));
  CHECK_THAT(option_error({"--offload", "auto", "--offload-to", "/tmp", "--activation-offload-fraction", "0.5"}),
             StartsWith("--activation-offload-fraction 0.5: is chosen by --offload auto"));
  CHECK_THAT(option_error({"--memory", "8"}), StartsWith("--memory 8: is for the choice of --offload auto"));
  CHECK(option_error({"--offload", "auto", "--offload-to", "/tmp", "--memory", "8", "--device", "cpu"}) == "no error");
  CHECK(option_error({"--cp", "1", "--slices", "1", "--post-validation", "off"}) == "no error");
  CHECK(option_error({"--post-validation", "on"}) == "no error");
  CHECK_THAT(option_error({"--post-validation", "on", "--record", "run.rec"}),
             StartsWith("--post-validation on: a record holds one step at a time"));  // found without a run, as --dry-run does
  CHECK_THAT(option_error({"--post-validation", "perhaps"}), StartsWith("--post-validation perhaps: "));
  CHECK(option_error({"--slices", "4", "--pp", "2"}) == "no error");
  CHECK_THAT(option_error({"--slices", "0"}), StartsWith("--slices 0: "));
  CHECK_THAT(option_error({"--slices", "2", "--schedule", "zb-h1"}),
             StartsWith("--slices 2: the schedule passes whole microbatches; use 1f1b or interleaved"));
  CHECK_THAT(option_error({"--slices", "2", "--profile", "costs.json"}),
             StartsWith("--profile costs.json: costs of slices are not measured yet"));
  CHECK_THAT(option_error({"--slices", "2", "--order", "ready"}), StartsWith("--order ready: slices keep the plan's order"));
  CHECK_THAT(option_error({"--loss-chunks", "0"}), StartsWith("--loss-chunks"));
  CHECK_THAT(option_error({"--num-output-chunks", "8"}), Contains("--loss-chunks"));
  CHECK_THAT(option_error({"--context-parallel-size", "2"}), Contains("here it is --cp") && !Contains("not built"));
  CHECK_THAT(option_error({"--precision", "fp8", "--device", "cpu"}),
             StartsWith("--precision fp8: fp8 is not built on the CPU; use fp32, bf16 or fp16"));
  CHECK_THAT(option_error({"--fp8-recipe", "blockwise"}),
             StartsWith("--fp8-recipe blockwise: applies to precision fp8, and this run's is fp32"));
  CHECK_THAT(option_error({"--fp8-recipe", "delayed"}), Contains("must be one of tensorwise, blockwise"));
  CHECK_THAT(option_error({"--num-layers-at-start-in-bf16", "-1"}), StartsWith("--num-layers-at-start-in-bf16 -1: "));
  CHECK_THAT(option_error({"--schedule", "plan.csv"}), StartsWith("--schedule plan.csv: there is no such file"));
  for (const char* precision : {"bf16", "fp16"})
    CHECK(option_error({"--precision", precision, "--device", "cpu"}) == "no error");
  CHECK_THAT(option_error({"--recompute", "all"}), StartsWith("--recompute all: "));
  CHECK_THAT(option_error({"--recompute-num-layers", "2"}),
             StartsWith("--recompute-num-layers 2: ") && Contains("add --recompute full"));
  CHECK_THAT(option_error({"--recompute", "full", "--recompute-num-layers", "0"}),
             StartsWith("--recompute-num-layers 0: must be at least 1"));
}

TEST_CASE("sequences that cannot be shared are refused in a line") {
  CHECK(option_error({"--cp", "2"}) == "no error");
  CHECK_THAT(option_error({"--cp", "0"}), StartsWith("--cp 0: must be at least 1"));
  CHECK_THAT(option_error({"--pp", "300", "--cp", "300"}),
             Contains("pp 300 x cp 300 x tp 1 x dp 1 is more than 65536 devices"));
  CHECK(option_error({"--cp", "2", "--zero", "1"}) == "no error");
  CHECK(option_error({"--cp", "2"}, {}, {8, 8}) == "no error");
  CHECK(option_error({"--cp", "2", "--device", "cpu"}, {}, {8, 8}) == "no error");
  CHECK(option_error({"--cp", "2", "--profile", "costs.json"}) == "no error");
  CHECK(option_error({"--cp", "2"}, {{"PIPETRAIN_FAULT", "2:1:throw"}}) ==
        "PIPETRAIN_FAULT=2:1:throw: there is no rank 2; pp 1 x cp 2 x tp 1 x dp 1 has 2 ranks, counted from 0");
}

TEST_CASE("an error found late names where the option was given") {
  CHECK(config_error("run.toml", "pp = 2\ndata = 'nothing.txt:x'\n").starts_with("run.toml:2: --data nothing.txt:x: "));
  CHECK_THAT(option_error({}, {{"PIPETRAIN_DATA", "nothing.txt:x"}}), StartsWith("PIPETRAIN_DATA: --data nothing.txt:x: "));
  CHECK_THAT(option_error({"--data", "nothing.txt:x"}), StartsWith("--data nothing.txt:x: "));
}

TEST_CASE("a fault has a rank of the layout") {
  CHECK(option_error({"--pp", "2"}, {{"PIPETRAIN_FAULT", "2:1:throw"}}) ==
        "PIPETRAIN_FAULT=2:1:throw: there is no rank 2; pp 2 x tp 1 x dp 1 has 2 ranks, counted from 0");
  CHECK(option_error({"--pp", "2"}, {{"PIPETRAIN_FAULT", "1:1:throw"}}) == "no error");
  CHECK(option_error({}, {{"PIPETRAIN_FAULT", ""}}) == "no error");
}

TEST_CASE("blank values are refused, wherever they are given") {
  for (const char* name : {"data", "model", "save", "lr"}) {
    CHECK(option_error({std::string("--") + name, " \t"}) ==
          "--" + std::string(name) + "  \\t: is blank; give a value or leave it out");
    CHECK_THAT(config_error("run.toml", name + std::string(" = '  '\n")), Contains("is blank; give a value or leave it out"));
  }
  CHECK_THAT(option_error({}, {{"PIPETRAIN_DATA", "  "}}), StartsWith("PIPETRAIN_DATA=  : is blank"));
  CHECK(option_error({}, {{"PIPETRAIN_DATA", ""}}) == "no error");
}

TEST_CASE("letters that are not ASCII outside of a string end in the options file's error") {
  for (const char* text : {"\u00e9pp = 2\n", "pp\u00e9 = 2\n", "pp = \u00e9\n", "pp \u1681= 2\n", "pp = 2 \u2100\n"}) {
    INFO(text);
    CHECK_THAT(config_error("run.toml", text), StartsWith("run.toml:1: is not TOML"));
  }
}

TEST_CASE("brackets are part of a name") {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--data", "[d,e]"}, {"--data=[d,e]"}})
    CHECK(parse_train_options(arguments, {}, {0, 8}).run.data.inputs.front().path == "[d,e]");
  CHECK_THAT(option_error({"--model", "[a]/b"}), StartsWith("--model [a]/b: there is no such folder"));
  CHECK_THAT(option_error({"[x]"}), StartsWith("[x]: unexpected argument"));
  const TempFolder folder;
  const std::string file = folder.write("[d].txt", "text").string();
  CHECK(parse_train_options({"--data", file, "[x].txt:2"}, {}, {0, 8}).run.data.inputs.front().path == file);
}

TEST_CASE("values of megabytes are quoted in part, and cost no time") {
  const std::string large(3'000'000, 'x');
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--" + large}, {"--pp", large}, {"--seed", large}, {"--schedule", large}, {"--device", large}, {"--lr=" + large}})
    CHECK_FALSE(option_error(arguments) == "no error");
  CHECK(option_error({"--pp", large}).size() < 300);
  const std::string key = large.substr(0, 500'000);  // the longest that a file may be
  CHECK_THAT(config_error("run.toml", key + " = 1\n"), Contains("unknown option"));
  CHECK_THAT(config_error("run.json", "{\"" + key + "\": 1}"), Contains("unknown option"));
}

TEST_CASE("missing and surplus values are named") {
  CHECK(option_error({"--pp"}) == "--pp: needs a value; write --pp N");
  CHECK(option_error({"--pp", "--tp", "2"}) == "--pp: needs a value; write --pp N");
  CHECK(option_error({"--data"}) == "--data: needs a value; write --data PATH[:WEIGHT]...");
  CHECK(option_error({"--model="}) == "--model: needs a value; write --model NAME|DIR|FILE");
}

TEST_CASE("numbers out of their range name the rule") {
  for (const char* name : {"pp", "tp", "dp", "microbatch", "microbatches", "global-batch", "layers", "seq-len", "steps",
                           "epochs", "log-interval", "threads"}) {
    const std::string option = std::string("--") + name;
    CHECK(option_error({option, "0"}) == option + " 0: must be at least 1");
    CHECK(option_error({option, "-2"}) == option + " -2: must be at least 1");
    for (const char* value : {"x", "2.5", "1e3", "nan", "2 "})
      CHECK(option_error({option, value}) == option + " " + value + ": must be an integer of at least 1");
    CHECK_THAT(option_error({option, "99999999999999999999"}),
               StartsWith(option + " 99999999999999999999: must be from 1 to "));
  }
  CHECK_THAT(option_error({"--seed", "-1"}), StartsWith("--seed -1: must be an integer from 0"));
  for (const char* name : {"lr", "min-lr", "weight-decay", "clip-grad"}) {
    const std::string option = std::string("--") + name;
    for (const char* value : {"-1", "nan", "inf", "x", "1e999", "1,5"})
      CHECK(option_error({option, value}) == option + " " + value + ": must be a number of at least 0");
  }
  CHECK(option_error({"--warmup-ratio", "1.1"}) == "--warmup-ratio 1.1: must be a number from 0 to 1");
  for (const char* name : {"beta1", "beta2"}) {
    const std::string option = std::string("--") + name;
    for (const char* value : {"-0.1", "1", "nan"})
      CHECK(option_error({option, value}) == option + " " + value + ": must be a number of at least 0 and below 1");
  }
  CHECK(option_error({"--adam-eps", "0"}) == "--adam-eps 0: must be a number above 0");
  CHECK(option_error({"--optimizer", "lion", "--adam-eps", "1e-8"}) ==
        "--adam-eps 1e-8: the optimizer lion has no such factor; leave it out");
  CHECK(option_error({"--momentum", "0.9"}) == "--momentum 0.9: the optimizer adamw has no such factor; leave it out");
  CHECK(option_error({"--optimizer", "muon", "--galore-rank", "8"}) ==
        "--galore-rank 8: the optimizer muon has no such factor; leave it out");
  CHECK(option_error({"--optimizer", "sgd", "--nesterov", "on"}) ==
        "--nesterov on: there is no momentum; give --momentum, or leave it out");
  CHECK(option_error({"--optimizer", "adafactor", "--beta2-decay", "0.5"}) ==
        "--beta2-decay 0.5: must be a number of at least -100 and below 0");
  CHECK_THAT(option_error({"--optimizer", "5"}), StartsWith("--optimizer 5: must be one of adamw, lion, sgd"));
  CHECK_THAT(option_error({"--warmup-steps", "-1"}), StartsWith("--warmup-steps -1: must be at least 0"));
  CHECK_THAT(option_error({"--pp", "60000", "--tp", "60000"}), Contains("is more than 65536 devices"));
}

TEST_CASE("words outside the choices name them") {
  CHECK(option_error({"--shuffle", "maybe"}) == "--shuffle maybe: must be on or off");
  CHECK(option_error({"--order", "redy"}) == "--order redy: must be one of planned, ready; did you mean ready?");
  CHECK(option_error({"--lr-schedule", "wsd"}) == "--lr-schedule wsd: must be one of constant, linear, cosine");
  CHECK(option_error({"--precision", "fp23"}) == "--precision fp23: must be one of fp32, bf16, fp16, fp8; did you mean fp32?");
  CHECK(option_error({"--schedule", "ZBVZeroBubble"}) == "--schedule ZBVZeroBubble: unknown schedule; here it is zb-v");
  CHECK(option_error({"--schedule", "Interleaved_1F1B"}) ==
        "--schedule Interleaved_1F1B: unknown schedule; here it is interleaved");
  CHECK(option_error({"--schedule", "1F1B"}) == "--schedule 1F1B: unknown schedule; here it is 1f1b");
  CHECK(option_error({"--schedule", "1f1"}) == "--schedule 1f1: unknown schedule; did you mean 1f1b?");
  CHECK_THAT(option_error({"--chunks", "2"}), StartsWith("--chunks 2: the schedule 1f1b has 1 chunk on each stage"));
}

TEST_CASE("batch sizes that disagree name the numbers") {
  CHECK(option_error({"--global-batch", "10", "--dp", "4"}) ==
        "--global-batch 10: 10 sequences cannot be split into dp 4 x microbatch 1 = 4; use a multiple of it, such as 8 or 12");
  CHECK(option_error({"--global-batch", "3", "--microbatches", "4"}) ==
        "--global-batch 3: 3 sequences cannot be split into dp 1 x microbatches 4 = 4; use a multiple of it, such as 4");
  CHECK(
      option_error({"--global-batch", "16", "--microbatches", "4", "--microbatch", "2"}) ==
      "--global-batch 16: must be microbatch x microbatches x dp, which is 2 x 4 x 1 = 8; leave one of them out, or make them "
      "agree");
}

TEST_CASE("settings that contradict each other are refused") {
  CHECK_THAT(option_error({"--lr", "1e-4", "--min-lr", "1e-3"}),
             StartsWith("--min-lr 1e-3: must not be above the peak, --lr 0.0001"));
  CHECK_THAT(option_error({"--min-lr", "1e-5", "--lr-schedule", "constant"}),
             StartsWith("--min-lr 1e-5: ") && Contains("--lr-schedule constant keeps it at its peak"));
  CHECK(option_error({"--min-lr", "0", "--lr-schedule", "constant"}) == "no error");
  CHECK_THAT(option_error({"--warmup-init-lr", "1e-5"}), StartsWith("--warmup-init-lr 1e-5: there is no warm-up"));
  CHECK_THAT(option_error({"--warmup-init-lr", "1", "--warmup-steps", "3"}),
             StartsWith("--warmup-init-lr 1: must not be above the peak"));
  CHECK_THAT(option_error({"--warmup-steps", "3", "--warmup-ratio", "0.1"}),
             StartsWith("--warmup-ratio 0.1: --warmup-steps 3 is given"));
  CHECK_THAT(option_error({"--init", "hf"}), StartsWith("--init hf: ") && Contains("tiny is no folder"));
}

TEST_CASE("checkpoint options need what they belong to") {
  TempFolder folder;
  const std::string dir = folder.path().string();
  CHECK_THAT(option_error({"--save-interval", "5"}), StartsWith("--save-interval 5: needs --save"));
  CHECK_THAT(option_error({"--save-keep", "0"}), StartsWith("--save-keep 0: must be at least 1"));
  CHECK_THAT(option_error({"--resume"}), StartsWith("--resume: needs --save"));
  CHECK_THAT(option_error({"--load", dir + "/none"}), Contains("there is no such checkpoint folder"));
  CHECK_THAT(option_error({"--resume", "--save", dir, "--load", dir}), Contains("keep one of them"));
}

TEST_CASE("devices that are not there are refused") {
  CHECK(option_error({"--device", "cuda"}) ==
        "--device cuda: pp 1 x tp 1 x dp 1 takes 1 GPU, and 0 are visible; use smaller sizes, or --device cpu");
  CHECK_THAT(option_error({"--device", "cpu", "--devices", "0"}), StartsWith("--devices 0: names GPUs, but --device is cpu"));
  CHECK_THAT(option_error({"--devices", "0"}), StartsWith("--devices 0: ") && Contains("0 are visible"));
  const Machine four{4, 8};
  CHECK_THAT(option_error({"--devices", "0,1"}, {}, four), Contains("names 2 GPUs, but pp x tp x dp takes 1"));
  CHECK_THAT(option_error({"--devices", "4"}, {}, four), Contains("there is no GPU 4"));
  CHECK_THAT(option_error({"--pp", "2", "--devices", "1,1"}, {}, four), Contains("GPU 1 is listed twice"));
  for (const char* list : {"x", "1,", "", "-1", "1 2"}) CHECK(option_error({"--devices", list}, {}, four) != "no error");
}

TEST_CASE("files and folders that cannot be used are refused before the run") {
  TempFolder folder;
  const std::string dir = folder.path().string(), file = folder.write("file", "x").string();
  CHECK_THAT(option_error({"--metrics", "-"}), Contains("write /dev/stdout for the standard output"));
  CHECK_THAT(option_error({"--metrics", dir}), StartsWith("--metrics " + dir + ": is a folder"));
  CHECK_THAT(option_error({"--metrics", dir + "/none/m.jsonl"}), Contains("there is no folder " + dir + "/none"));
  CHECK_THAT(option_error({"--save", file}), StartsWith("--save " + file) && Contains("is not a folder"));
  CHECK_THAT(option_error({"--save", file + "/sub/run"}), Contains(file + " is not a folder"));
  CHECK_THAT(option_error({"--model", dir + "/none"}), Contains("there is no such folder"));
  CHECK_THAT(option_error({"--data", file + ":x"}), Contains("is not a weight"));
  CHECK_THAT(option_error({"--data", file + ":-1"}), Contains("is not a weight"));
}

TEST_CASE("an error names the layer that gave the value") {
  CHECK(option_error({}, {{"PIPETRAIN_PP", "0"}}) == "PIPETRAIN_PP=0: must be at least 1");
  CHECK(option_error({}, {{"PIPETRAIN_SEQ_LEN", "x"}}) == "PIPETRAIN_SEQ_LEN=x: must be an integer of at least 1");
  CHECK(config_error("run.toml", "tp = 1\n\npp = 0\n") == "run.toml:3: pp = 0: must be at least 1");
  CHECK(config_error("run.json", "{\n\"tp\": 1,\n\"pp\": 0}") == "run.json:3: pp = 0: must be at least 1");
  CHECK(config_error("run.toml", "lr = nan\n") == "run.toml:1: lr = nan: must be a number of at least 0");
  CHECK(config_error("run.toml", "\nmicro_batch_size = 2\n") ==
        "run.toml:2: micro_batch_size: unknown option; here it is --microbatch");
  CHECK(config_error("run.json", "{\"zero\": 1}").find("run.json:1: zero = 1: ") == 0);
}

TEST_CASE("a feature that a DeepSpeed file turns on is answered with the option for it") {
  const auto answer = [](const std::string& content) { return config_error("ds.json", content); };
  CHECK_THAT(answer(R"({"fp16": {"enabled": true}})"), Contains("here it is --precision fp16"));
  CHECK_THAT(answer(R"({"bf16": {"enabled": true}})"), Contains("here it is --precision bf16"));
  CHECK_THAT(answer(R"({"bf16": {"enabled": "auto"}})"), Contains("here it is --precision bf16"));
  for (const char* zero : {R"({"stage": 1})", R"({"stage": 0, "offload_optimizer": {"device": "cpu"}})", "true"})
    CHECK_THAT(answer(R"({"zero_optimization": )" + std::string(zero) + "}"), Contains("here it is --zero"));
  CHECK_THAT(answer(R"({"offload": {"device": "cpu"}})"), StartsWith("ds.json:1: offload: "));
  CHECK_THAT(answer(R"({"pp": {"enabled": false}})"), Contains("has no single value"));
  CHECK_THAT(answer(R"({"overlap_comm": false})"), Contains("automatic here, leave it out"));
  CHECK(answer("{\"precision\": \"bf16\",\n\"bf16\": {\"enabled\": false}}") ==
        "ds.json:2: bf16 is off: this file's precision is bf16; keep one of them");
}

TEST_CASE("a config file that cannot be understood is refused with its line") {
  CHECK_THAT(config_error("run.toml", "pp = 2\ntp = = 3\n"), StartsWith("run.toml:2: is not TOML"));
  CHECK_THAT(config_error("run.toml", "pp = 2\npp = 3\n"), StartsWith("run.toml:2: "));
  CHECK_THAT(config_error("run.toml", "seq-len = 2\nseq_len = 3\n"), Contains("appears twice"));
  CHECK_THAT(config_error("run.toml", "[pp]\nx = 2\n"), StartsWith("run.toml:1: pp: has no single value"));
  CHECK_THAT(config_error("run.toml", "pp = [1, 2]\n"), StartsWith("run.toml:1: pp = 1,2: must be an integer"));
  CHECK_THAT(config_error("run.toml", "config = \"other.toml\"\n"), Contains("is not allowed in a file"));
  CHECK_THAT(config_error("run.json", "{\"pp\": 2,\n \"tp\": }"), StartsWith("run.json:2: not valid JSON: "));
  CHECK(config_error("run.json", "{\"pp\": 2,\n\"pp\": 3}") == "run.json:2: key \"pp\" appears twice; keep one");
  CHECK_THAT(config_error("run.json", "{\"pp\": 2,\n\"seq-len\": 2, \"seq_len\": 3}"),
             StartsWith("run.json:2: ") && Contains("appears twice"));
  CHECK_THAT(config_error("run.json", std::string("{\"pp\": 2}\0, 3", 14)),
             StartsWith("run.json:1: not valid JSON: it holds a NUL byte"));
  CHECK(config_error("run.json", "{\"pp\": 2,\n\"lr\": 1e400}") ==
        "run.json:2: \"lr\": is too large a number; give a smaller one");
  CHECK_THAT(config_error("run.json", "{\"steps\": 99999999999999999999}"), Contains("must be from 1 to 9223372036854775807"));
  CHECK_THAT(config_error("run.json", "[1]"), StartsWith("run.json:1: not a JSON object"));
  CHECK_THAT(config_error("run.yaml", "pp: 2"), Contains("neither .toml nor .json"));
  CHECK_THAT(option_error({"--config", "/nonexistent/run.toml"}), StartsWith("--config /nonexistent/run.toml: cannot be read"));
  TempFolder folder;
  CHECK_THAT(option_error({"--config", folder.path().string()}), Contains("is a folder"));
  std::filesystem::create_directory(folder.path() / "run.toml");
  CHECK_THAT(option_error({"--config", (folder.path() / "run.toml").string()}), Contains("is a folder"));
}

TEST_CASE("a config file that does not end, or holds more than options, is refused at once") {
  TempFolder folder;
  CHECK_THAT(option_error({"--config", "/dev/zero"}), StartsWith("--config /dev/zero: cannot be read: not a regular file"));
  std::filesystem::create_symlink("/dev/zero", folder.path() / "zero.json");
  CHECK_THAT(option_error({"--config", (folder.path() / "zero.json").string()}),
             Contains("zero.json: cannot be read: not a regular file"));
  for (const char* name : {"run.json", "run.toml"})
    CHECK_THAT(config_error(name, std::string((1 << 19) + 1, ' ')), Contains("524289 bytes are more than the 524288 allowed"));
  // Keys like these once overflowed the stack.
  const std::string dots = [] {
    std::string key = "a";
    for (int i = 0; i < 200'000; ++i) key += ".a";
    return key;
  }();
  for (const std::string& text : {"pp = 2\n" + dots + " = 1\n", "\n[" + dots + "]\n", "\nx = {" + dots + " = 1}\n"})
    CHECK(config_error("run.toml", text) == "run.toml:2: has more than 256 dots in a line; break it up");
  CHECK_THAT(config_error("run.toml", "a = " + std::string(100'000, '[') + "\n"), StartsWith("run.toml:1: is not TOML"));
  // Such a file once took time that grew with the square of the keys.
  std::string keys = "{\"zz\": 1";
  for (int i = 0; keys.size() < 450'000; ++i) keys += ",\n\"" + std::to_string(i) + "\": {\"a\": 1}";
  CHECK_THAT(config_error("run.json", keys + "}"), StartsWith("run.json:1: zz: unknown option"));
  std::string off = "{\"a\": {\"enabled\": false}";
  for (int i = 0; off.size() < 450'000; ++i) off += ",\n\"" + std::to_string(i) + "\": {\"enabled\": false}";
  CHECK(config_error("run.json", off + "}") == "no error");
}
