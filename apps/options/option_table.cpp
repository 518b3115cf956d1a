#include "apps/options/option_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/options/optimizer_options.hpp"
#include "apps/options/plan_file.hpp"

namespace pipetrain {

const std::vector<OptionSpec>& train_option_table() {
  static const std::vector<OptionSpec> table = {
      {"Model and data", "model", "NAME|DIR|FILE",
       "a preset (tiny, gpt2, llama-7b, llama2-7b, llama3-8b, llama3.2-1b, ...), a Hugging Face folder with config.json and "
       "*.safetensors, or a model file of llm.c",
       "tiny"},
      {"Model and data", "init", "hf|random", "with a folder: load its weights, or draw them (then config.json is enough)",
       "hf with a folder, else random"},
      {"Model and data", "layers", "N", "keep only the first N layers of the model", "all"},
      {"Model and data", "num-labels", "N",
       "classify sequences: a new head for N classes on a language model; not needed for a folder that has one", "the model's"},
      {"Model and data", "data", "PATH[:WEIGHT]...",
       "text (.txt), JSON lines (.jsonl with rows {\"text\"}, {\"prompt\", \"response\"}, {\"messages\"}, or {\"input_ids\"} "
       "with \"labels\" or without), Parquet (.parquet with such columns, where the build has Apache Arrow), tokens (.tokens "
       "of tokenize, .bin of Megatron-LM or llm.c, .ds of datatrove), or a folder of "
       "these; weights mix several, 1 where only others have one",
       "the text that ships inside", true},
      {"Model and data", "tokenizer", "PATH",
       "turns text into tokens: tokenizer.json, tokenizer.model, vocab.json (merges.txt beside it), or a folder with one",
       "bytes are tokens"},
      {"Model and data", "text-keys", "A,B", "the keys of rows whose texts are read, one behind the other", "text"},
      {"Model and data", "chat-template", "NAME|FILE",
       "how rows {\"messages\"} become text: chatml, llama2 or llama3, or a file with a template in Jinja",
       "the tokenizer's chat template, else as its special tokens tell"},
      {"Model and data", "pack", "none|documents|isolated",
       "each row a sample, padded; or documents one behind the other, cut into samples; or these, with attention and positions "
       "that end with the document",
       "documents for texts, else none"},
      {"Model and data", "seq-len", "N", "tokens of one sequence, or the most of a row",
       "from the data's rows, else the model"},
      {"Model and data", "shuffle", "on|off", "a new order each epoch; off: file order. The last partial batch is dropped",
       "on"},
      {"Model and data", "seed", "N", "of initial weights and of the order of samples", "0"},

      {"Evaluation", "eval-data", "PATH[:WEIGHT]...",
       "data to evaluate on, as --data takes it: each sample once, by forward passes through the same pipeline", "", true},
      {"Evaluation", "split", "F", "instead: keep this share of the samples of --data, drawn by --seed, for evaluation", "0"},
      {"Evaluation", "eval-interval", "N", "evaluate every N steps; always at the end", "after each epoch"},

      {"Layout", "pp", "N", "pipeline stages", "1; the plan's"},
      {"Layout", "tp", "N", "devices that share each layer (tensor parallel)", "1"},
      {"Layout", "dp", "N", "replicas of the model (data parallel)", "1"},
      {"Layout", "cp", "N", "devices that share each sequence (context parallel)", "1"},
      {"Layout", "zero", "0|1|2|3",
       "what the replicas divide: 1 the optimizer's states and master weights, 2 gradients too, 3 weights too: docs/memory.md",
       "0"},
      {"Layout", "zero-prefetch", "N",
       "with --zero 3 and --offload parameters: blocks whose weights come ahead of the one in use", "1"},
      {"Layout", "offload", "none|optimizer|parameters|gradients|activations",
       "what lives outside of the devices, one or several with commas between: the optimizer's states, and master weights that "
       "operations do not read; the weights that they read; gradients of blocks' matrices; activations of microbatches "
       "that wait for their backward. The same "
       "bits: docs/memory.md",
       "none"},
      {"Layout", "activation-offload-fraction", "F",
       "with --offload activations: of each stage's microbatches, how many leave the device at most, those that wait longest "
       "first",
       "1"},
      {"Layout", "offload-to", "DIR", "a folder on a disk for it", "the memory of the GPUs' host"},
      {"Layout", "sequence-parallel", "on|off", "split the norms' sequences over the tensor-parallel devices",
       "on where tp > 1"},
      {"Layout", "schedule", "NAME|FILE",
       fmt::format("order of forwards and backwards: {}; or a plan: .txt ours, .csv PyTorch's",
                   fmt::join(schedule_names(), ", ")),
       "1f1b"},
      {"Layout", "chunks", "V", "model chunks on each stage, for schedules that have several", "the schedule's or plan's own"},
      {"Layout", "cut", "N,N,...",
       "attention and MLP blocks of each virtual stage, in the model's order: two blocks a layer, pp x chunks numbers. The "
       "embedding is with the first, the head with the last: docs/training.md",
       "by cost, embedding and head counted"},
      {"Layout", "slices", "N", "pieces of each sequence that pass the pipeline one behind the other; 1f1b and interleaved",
       "1; the plan's"},
      {"Layout", "post-validation", "on|off",
       "begin the coming step before the global gradient norm is known, and again where clipping or a skipped step asks for "
       "it; in the planned order, without --zero and --offload",
       "off"},
      {"Layout", "order", "planned|ready|replay:FILE",
       "keep the plan's order, run what is ready first, or keep the order that the run of a --record had in each step",
       "planned"},

      {"Batch and length", "microbatch", "N", "sequences in one microbatch", "1"},
      {"Batch and length", "microbatches", "N", "microbatches of one replica in one step", "4 x pp; the plan's"},
      {"Batch and length", "global-batch", "N", "sequences in one step; given some of the three, the others follow",
       "microbatch x microbatches x dp"},
      {"Batch and length", "steps", "N", "stop after N steps", ""},
      {"Batch and length", "epochs", "N", "stop after N passes over the data; with --steps the first limit counts",
       "1; on the inside text until it has learned"},

      {"Optimizer", "optimizer", optimizer_choices(), "what steps the weights: docs/training.md", OptimizerSettings{}.name},
      {"Optimizer", "lr", "RATE", "peak learning rate", "3e-4"},
      {"Optimizer", "min-lr", "RATE", "learning rate at the end", "0"},
      {"Optimizer", "lr-schedule", "constant|linear|cosine", "the way from peak to end", "cosine"},
      {"Optimizer", "warmup-steps", "N", "steps over which the rate rises to its peak", "0"},
      {"Optimizer", "warmup-ratio", "X", "the same as a share of all steps, from 0 to 1", "0"},
      {"Optimizer", "warmup-init-lr", "RATE", "learning rate that the warm-up rises from", "0"},
      {"Optimizer", "beta1", "X", "decay of the first moment; of lion the momentum's share of the update",
       optimizer_default(&OptimizerSettings::beta1)},
      {"Optimizer", "beta2", "X", "decay of the second moment; of lion that of its momentum",
       optimizer_default(&OptimizerSettings::beta2)},
      {"Optimizer", "adam-eps", "X", "added to the root of the second moment", optimizer_default(&OptimizerSettings::eps)},
      {"Optimizer", "weight-decay", "X", "of tensors with two or more dimensions",
       optimizer_default(&OptimizerSettings::weight_decay)},
      {"Optimizer", "dropout", "X", "share to drop of all that the model's family can drop, from 0 to below 1",
       "what the model's config.json says"},
      {"Optimizer", "clip-grad", "X", "largest global gradient norm; 0 turns clipping off", "1.0"},

      {"Numbers and devices", "precision", "fp32|bf16|fp16|fp8",
       "of computation; fp8, on Hopper GPUs: bf16 with the blocks' matrix products in 8 bits", "fp32 on CPU, bf16 on GPU"},
      {"Numbers and devices", "fp8-recipe", "tensorwise|blockwise",
       "with --precision fp8: one scale a tensor, gradients in e5m2; or one for each 128 numbers, of weights for each 128 x "
       "128, "
       "all in e4m3",
       "tensorwise"},
      {"Numbers and devices", "num-layers-at-start-in-bf16", "N", "with --precision fp8: the first N layers multiply in bf16",
       "0"},
      {"Numbers and devices", "num-layers-at-end-in-bf16", "N", "with --precision fp8: the last N layers do", "0"},
      {"Numbers and devices", "loss-scale", "dynamic|X",
       "what the loss is multiplied by before the backward; dynamic (or 0): a step whose gradients overflow is skipped, "
       "which warm-up and decay of the learning rate do not count, and the scale halves",
       "dynamic in fp16, else 1"},
      {"Numbers and devices", "loss-scale-initial", "X", "where a dynamic scale begins", "65536"},
      {"Numbers and devices", "loss-scale-window", "N", "steps without overflow after which it doubles", "1000"},
      {"Numbers and devices", "loss-scale-hysteresis", "N", "overflows since it last doubled, before it halves", "2"},
      {"Numbers and devices", "loss-scale-min", "X", "its smallest value; an overflow there ends the run", "1"},
      {"Numbers and devices", "recompute", "none|selective|full", "what the backward computes again to save memory", "none"},
      {"Numbers and devices", "recompute-num-layers", "N",
       "only the first N layers of each stage (with chunks, of each chunk); the others keep more: with full they recompute as "
       "selective does, with selective nothing",
       "all"},
      {"Numbers and devices", "loss-chunks", "N",
       "the head and the loss take a microbatch's tokens in N chunks, one after the other, so that logits never stand whole; "
       "computes them twice",
       "1"},
      {"Numbers and devices", "deterministic", "on|off", "the same bits in every run and for every pp and schedule", "on"},
      {"Numbers and devices", "device", "auto|cpu|cuda", "auto takes GPUs if pp x tp x dp are there, else the CPU", "auto"},
      {"Numbers and devices", "devices", "LIST", "GPUs to use, in rank order, e.g. 0,1,2,3", "the first ones"},
      {"Numbers and devices", "threads", "N", "compute threads of each CPU device", "cores / devices, at least 1"},

      {"Processes", "master", "HOST:PORT", "where process 0 listens, and the others find it",
       "127.0.0.1:29500, or as the launcher says"},
      {"Processes", "nnodes", "N",
       "hosts of the run, with one process each, or with launch's --nproc; given as 1: a run of its own, whatever launcher has "
       "started it",
       "1, or as the launcher says"},
      {"Processes", "node-rank", "K", "which of them this is, from 0", "0"},
      {"Processes", "nproc", "N", "processes on this host (pipetrain launch only)", ""},
      {"Processes", "restart", "N",
       "after a failure start the whole run again from its last checkpoint, at most N times (pipetrain launch only)", "0"},
      {"Processes", "token-file", "FILE",
       "its first line is the token without which no process joins; also PIPETRAIN_TOKEN. Needed where the master is not on "
       "loopback",
       "none; launch on one host draws one"},
      {"Processes", "rendezvous-timeout", "SECONDS", "how long to wait for the other processes", "300"},
      {"Processes", "stop-grace", "SECONDS",
       "what the launcher leaves between SIGTERM and SIGKILL: where a step and a save do not fit, the last finished step is "
       "saved at once",
       "1 under Open MPI, 30 under torchrun, or as they say"},
      {"Processes", "transport", "auto|inproc|ipc|nccl|nccl-put|nccl-send|ucx",
       "what carries data between processes: memory of GPUs on one host, NCCL between hosts (which puts where it can; with "
       "puts "
       "only, or without), UCX for CPUs",
       "auto"},

      {"Checkpoints", "save", "DIR", "write checkpoints of this one run and, at the end, DIR/model (a Hugging Face folder)",
       ""},
      {"Checkpoints", "save-interval", "N", "a checkpoint every N steps, written while training goes on", "only at the end"},
      {"Checkpoints", "save-keep", "K", "keep the newest K checkpoints", "all"},
      {"Checkpoints", "save-keep-every", "N", "with --save-keep: keep those of every N-th step too", ""},
      {"Checkpoints", "save-dtype", "fp32|bf16|fp16", "of DIR/model's weights; checkpoints keep the optimizer's fp32", "fp32"},
      {"Checkpoints", "save-shard-size", "SIZE", "of one file of DIR/model at most, such as 500MB; more files have an index",
       "5GB"},
      {"Checkpoints", "load", "DIR", "go on from this checkpoint, in any layout", ""},
      {"Checkpoints", "resume", "", "go on from the newest complete checkpoint in --save, or start fresh", "off"},

      {"Reports", "metrics", "FILE", "one JSON line a step", ""},
      {"Reports", "tensorboard", "DIR", "TensorBoard event files, readable while the run goes on", ""},
      {"Reports", "trace", "FILE",
       "the run's actions for Chrome and Perfetto; a page where it ends in .html, a picture in .svg", ""},
      {"Reports", "profile", "FILE", "measured costs for simulate --costs", ""},
      {"Reports", "record", "FILE", "what every stage received and decided, for pipetrain replay", ""},
      {"Reports", "report", "FILE",
       "one HTML page with curves, timelines, memory and settings, written anew while the run goes on", ""},
      {"Reports", "peak-tflops", "X", "TFLOP/s of one device at most, which MFU is a share of", "of known GPUs: as published"},
      {"Reports", "log-interval", "N", "steps between two lines of progress (a terminal shows every step)", "1"},

      {"Watch", "watch-slow", "PERCENT", "tell of a stage that computes for so much longer than simulated; 0: never", "10"},
      {"Watch", "watch-slow-steps", "N", "in so many steps in a row, from the costs of as many first steps", "20"},
      {"Watch", "watch-loss-spike", "X", "tell of a loss X standard deviations above the last 50; 0: never", "8"},
      {"Watch", "watch-norm-growth", "X", "tell of a gradient norm X times the least it has been; 0: never", "10"},

      {"General", "config", "FILE",
       "options from a TOML or JSON file, by their names here; also a DeepSpeed JSON, a torchtitan TOML, or Megatron-LM's "
       "arguments (.args)",
       ""},
      {"General", "save-config", "FILE", "write the options of this run, wherever they came from, as a file for --config", ""},
      {"General", "stall-timeout", "SECONDS",
       "a step in which no action completes for this long fails, and a process that the others wait for so long; 0: never",
       "600"},
      {"General", "dry-run", "", "print the plan and the memory of each device, and stop; status 1 if it does not fit", "off"},
      {"General", "help", "", "print this page", ""},
      {"General", "version", "", "print the version", ""},
  };
  return table;
}

const OptionSpec* find_option(const std::vector<OptionSpec>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const OptionSpec& spec) { return spec.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> option_names(const std::vector<OptionSpec>& table) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : table) names.push_back(spec.name);
  return names;
}

namespace {

constexpr std::size_t help_column = 34;
constexpr std::size_t help_width = 100;

// `text` broken at spaces to fit from help_column to page_width; the first line goes where the cursor is.
std::string wrapped(const std::string& text) {
  std::string result, line;
  const auto flush = [&] {
    if (!result.empty()) result.append("\n").append(help_column, ' ');
    result += line;
    line.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (!line.empty() && help_column + line.size() + 1 + (end - at) > help_width) flush();
    if (!line.empty()) line += ' ';
    line.append(text, at, end - at);
    at = end + 1;
  }
  flush();
  return result;
}

}  // namespace

std::string format_options(const std::vector<OptionSpec>& table) {
  std::string page;
  std::string_view group;
  for (const OptionSpec& spec : table) {
    if (spec.group != group) page += fmt::format("{}{}\n", group.empty() ? "" : "\n", spec.group);
    group = spec.group;
    const std::string left = fmt::format("  --{}{}{}", spec.name, spec.value.empty() ? "" : " ", spec.value);
    std::string help = spec.help;
    if (!spec.default_value.empty()) help += fmt::format(" [{}]", spec.default_value);
    if (!spec.built) help += " (not built yet)";
    const bool own_line = left.size() + 2 > help_column;
    page +=
        fmt::format("{}{}{:{}}{}\n", left, own_line ? "\n" : "", "", help_column - (own_line ? 0 : left.size()), wrapped(help));
  }
  return page;
}

}  // namespace pipetrain
