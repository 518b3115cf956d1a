#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/ranks/named_values.hpp"
#include "actors/training/job/batch_sizes.hpp"
#include "actors/training/job/setting_row.hpp"
#include "data/tokenizers/chat_template.hpp"
#include "model/config/config.hpp"
#include "model/config/mode_names.hpp"
#include "model/optimizer/optimizer.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {

using namespace setting_members;

namespace {

using Run = RunSettings;
using Rows = std::vector<SettingRow>;

constexpr std::int64_t most_devices = 65536, most_layers = 1'000'000, most_pieces = 32767;
constexpr auto below_one = NumberRange::from_to_below(0, 1), share = NumberRange::from_to(0, 1);
constexpr auto below_zero = NumberRange::from_to_below(-100, 0);
constexpr NumberRange bias_range{.has_maximum = true, .maximum = 1, .with_maximum = true};
constexpr NumberRange scale_range{.above = true, .has_maximum = true, .maximum = 1e30};

Choices schedule_choices() {
  Choices names;
  for (const auto& info : schedules::all_schedules()) names.emplace_back(info.name);
  return names;
}

Choices recompute_names() {
  Choices names;
  for (const Recompute mode : recompute_modes) names.emplace_back(name_of(mode));
  return names;
}

std::string schedule_text(const Run& run) {
  return run.layout.plan ? checksum_text(schedules::to_text(*run.layout.plan)) : run.layout.schedule;
}

std::string order_text(const Run& run) {
  if (run.layout.replayed) return fmt::format("replay {:016x}", run.layout.replayed->content);
  return run.layout.order == schedules::Order::planned ? "planned" : "ready";
}

// Returns the default of a setting of the optimizers, such as "0.95; lion 0.99": that of the first optimizer that uses it, then
// those that differ. An empty setting: all optimizers use it.
template <class Type>
std::string optimizer_default(const std::string& setting, Type OptimizerSettings::*factor) {
  std::optional<Type> usual;
  std::string text;
  for (const std::string& name : optimizer_names()) {
    if (!setting.empty() && !optimizer_uses(name, setting)) continue;
    const Type own = default_settings(name).*factor;
    if (!usual) text = text_of(own);
    if (usual && own != *usual) text += fmt::format("; {} {}", name, text_of(own));
    if (!usual) usual = own;
  }
  return text;
}

template <auto path>
SettingRow optimizer_row(const char* name, const char* value, const char* help, SettingMember member) {
  return {name, value, help, std::move(member), compared, optimizer_default(name, path)};
}

void set_optimizer(Run& run, const SettingValue& value) {
  run.optimizer = default_settings(optimizer_names()[static_cast<std::size_t>(std::get<std::int64_t>(value))]);
}

std::string unset(const Run&) { return ""; }

Rows model_rows() {
  return {
      {"model", "NAME|DIR|FILE",
       "a preset (tiny, gpt2, llama3-8b, qwen3-8b, mistral-7b, gemma3-4b, phi-4, phi-4-mini, olmo2-7b, smollm3-3b, granite-3.3-8b, seed-oss-36b, ...), a Hugging Face folder with config.json and *.safetensors, or a model file of llm.c",
       text<&Run::model, &ModelSettings::name>()},
      {"init", "", "with a folder: load its weights, or draw them (then config.json is enough)",
       special(Choices{"hf", "random"}, unset), used_alone, "hf with a folder, else random"},
      {"layers", "N", "keep only the first N layers of the model", integer<&Run::model, &ModelSettings::layers>(1, most_layers),
       compared, "all"},
      {"num-labels", "N",
       "classify sequences: a new head for N classes on a language model; not needed for a folder that has one",
       integer<&Run::model, &ModelSettings::labels>(least_labels, most_labels), compared, "the model's"},
      {"window", "N",
       "each query attends to the last N positions up to its own, in every layer; 0: as the model says: docs/training.md",
       integer<&Run::model, &ModelSettings::attention, &AttentionSettings::window>(0), compared},
      {"sinks", "K", "with `window`: each query also attends to the first K positions",
       integer<&Run::model, &ModelSettings::attention, &AttentionSettings::sinks>(0), compared},
      {"attention-pattern", "NAME,...",
       "what the layers' queries attend to, repeated over the layers: full, window, fixed or longformer, as DeepSpeed defines these two, and nothing after themselves",
       text<&Run::model, &ModelSettings::attention, &AttentionSettings::patterns>(), compared, "as the model says"},
      {"data", "PATH[:WEIGHT]...",
       "text (.txt), JSON lines (.jsonl with rows {\"text\"}, {\"prompt\", \"response\"}, {\"messages\"}, or {\"input_ids\"} with \"labels\" or without), Parquet (.parquet with such columns, where the build has Apache Arrow), tokens (.tokens of tokenize, .bin of Megatron-LM or llm.c, .ds of datatrove), or a folder of these; weights mix several, 1 where only others have one",
       special(TextList{}, unset), used_alone, "the built-in text"},
      {"tokenizer", "PATH",
       "turns text into tokens: tokenizer.json, tokenizer.model, vocab.json (with merges.txt next to it), or a folder with one",
       text<&Run::data, &DataSettings::tokenizer>(), used_alone, "bytes are tokens"},
      {"text-keys", "A,B", "the keys of rows whose texts are read, one after the other",
       special(AnyText{},
               [](const Run& run) {
                 return fmt::format(
                     "{}", fmt::join(run.data.text_keys.chosen ? run.data.text_keys.names : std::vector<std::string>(), ","));
               }),
       compared, "text"},
      {"chat-template", "NAME|FILE",
       fmt::format("how rows {{\"messages\"}} become text: {}, or a file with a template in Jinja",
                   fmt::join(chat_template_names(), ", ")),
       special(AnyText{}, [](const Run& run) { return run.data.chat_template; }), compared,
       "the tokenizer's chat template, else as its special tokens show"},
      {"pack", "",
       "each row a sample, padded; or documents one after the other, cut into samples; or these, with attention and positions that end with the document",
       choice<&Run::data, &DataSettings::pack>(pack_names()), compared, "documents for texts, else none"},
      {"seq-len", "N", "tokens of one sequence, or the most of a row",
       integer<&Run::data, &DataSettings::sequence_length>(1, std::numeric_limits<std::int32_t>::max()), compared,
       "from the data's rows, else the model"},
      {"shuffle", "on|off", "a new order each epoch; off: file order. The last partial batch is dropped",
       on_off<&Run::samples, &SampleOrder::shuffle>(), compared},
      {"seed", "N", "seed of initial weights and of the order of samples",
       member<&Run::samples, &SampleOrder::seed>(UnsignedInteger{}), compared},
  };
}

Rows preference_rows() {
  using Preferences = PreferenceSettings;
  return {
      {"loss", "",
       "lm predicts tokens; the others learn from preferences: dpo and orpo from rows {\"prompt\", \"chosen\", \"rejected\"}, kto from rows {\"prompt\", \"completion\", \"label\"}: docs/preference-tuning.md",
       choice<&Run::preference, &Preferences::loss>({"lm", "dpo", "orpo", "kto"}), compared},
      {"preference-beta", "X", "how strongly preferences count; in dpo and kto, how near the model stays to the reference",
       number<&Run::preference, &Preferences::beta>({.above = true}), compared},
      {"preference-normalize", "on|off", "dpo: divide the log-probabilities of completions by their tokens",
       on_off<&Run::preference, &Preferences::normalize>(), compared},
      {"reference", "DIR",
       "dpo and kto: the Hugging Face folder of the model that preferences are compared with; not given: the model as training begins, new adapters left out",
       text<&Run::preference, &Preferences::reference>()},
      {"precompute-reference", "on|off",
       "dpo: run the reference once over all data before the first step, and then free its memory",
       on_off<&Run::preference, &Preferences::precompute_reference>(), compared},
  };
}

Rows evaluation_rows() {
  return {
      {"eval-data", "PATH[:WEIGHT]...",
       "data to evaluate on, as `data` takes it: each sample once, by forward passes through the same pipeline",
       special(TextList{}, unset)},
      {"split", "F", "instead: keep this share of the samples of `data`, drawn by `seed`, for evaluation",
       number<&Run::evaluation, &EvaluationSettings::split>(below_one), compared, "0"},
      {"eval-interval", "N", "evaluate every N steps; always at the end",
       integer<&Run::evaluation, &EvaluationSettings::interval>(), compared, "after each epoch"},
  };
}

Rows layout_rows() {
  return {
      {"pp", "N", "pipeline stages", integer<&Run::layout, &LayoutSettings::pp>(1, most_devices), compared, "{}; the plan's"},
      {"tp", "N", "devices that share each layer (tensor parallel)",
       integer<&Run::layout, &LayoutSettings::tp>(1, most_devices), compared},
      {"dp", "N", "replicas of the model (data parallel)", integer<&Run::batch, &BatchShape::dp>(1, most_devices), compared},
      {"cp", "N", "devices that share each sequence (context parallel)",
       integer<&Run::layout, &LayoutSettings::cp>(1, most_devices), compared | profiled},
      {"ep", "N", "replicas that divide the routed experts of each layer among them (expert parallel); divides `dp`",
       integer<&Run::layout, &LayoutSettings::ep>(1, most_devices), compared | profiled},
      {"zero", "0|1|2|3",
       "state that the replicas divide: 1 the optimizer's states and master weights, 2 gradients too, 3 weights too: docs/memory.md",
       integer<&Run::zero, &Zero::stage>(0, most_zero_stages), compared | profiled},
      {"zero-prefetch", "N", "with `zero` 3 and `offload` parameters: blocks whose weights are brought ahead of the one in use",
       integer<&Run::zero, &Zero::prefetch>(0, 64), compared},
      {"compress-gradients", "", "sum gradients of matrices over replicas in few bits, with error feedback: docs/training.md",
       choice<&Run::compression, &Compression::gradients>({"none", "int8"}), compared | profiled, "",
       SettingPhrase(", gradients compressed to ")},
      {"offload", "none|optimizer|parameters|gradients|activations",
       "data kept outside of the devices, one or several with commas between: the optimizer's states, and master weights that operations do not read; the weights that they read; gradients of blocks' matrices; activations of microbatches that wait for their backward. The same bits: docs/memory.md",
       special(AnyText{}, [](const Run& run) { return to_string(run.offload); }), compared},
      {"activation-offload-fraction", "F",
       "with `offload` activations: the largest share of each stage's microbatches to offload, those that wait longest first",
       number<&Run::offload, &Offload::activation_fraction>(NumberRange::above_to(0, 1)), compared},
      {"offload-to", "DIR", "a folder on a disk for what is offloaded",
       special(AnyText{}, [](const Run& run) { return run.offload.to_disk() ? "a disk" : ""; }), compared,
       "the memory of the GPUs' host"},
      {"sequence-parallel", "on|off", "split the norms' sequences over the tensor-parallel devices",
       on_off<&Run::layout, &LayoutSettings::sequence_parallel>(), compared, "on where tp > 1"},
      {"schedule", "NAME|FILE",
       fmt::format("order of forwards and backwards: {}; or a plan: .txt ours, .csv PyTorch's",
                   fmt::join(schedule_choices(), ", ")),
       special(AnyText{}, schedule_text), compared},
      {"chunks", "V", "model chunks on each stage, for schedules that have several",
       special(IntegerRange{1, 1024}, [](const Run& run) { return text_of(run.layout.chunks); }), compared,
       "the schedule's or plan's own"},
      {"cut", "N,N,...",
       "attention and MLP blocks of each virtual stage, in the model's order: two blocks a layer, pp x chunks numbers. The embedding is with the first, the head with the last: docs/training.md",
       special(AnyText{}, [](const Run& run) { return cut_text(run.layout.cut); }), compared,
       "by cost, embedding and head counted"},
      {"slices", "N", "pieces of each sequence that pass the pipeline one after the other; 1f1b and interleaved",
       integer<&Run::layout, &LayoutSettings::slices>(1, most_pieces), compared, "{}; the plan's"},
      {"post-validation", "on|off",
       "begin the coming step before the global gradient norm is known, and begin it again after clipping or a skipped step; in the planned order, without `zero` and `offload`",
       on_off<&Run::post_validation>(), compared},
      {"order", "planned|ready|replay:FILE",
       "keep the plan's order, run what is ready first, or keep the order that the run of a `record` had in each step",
       special(Choices{"planned", "ready"}, order_text), compared},
  };
}

Rows batch_rows() {
  return {
      {"microbatch", "N", "sequences in one microbatch", integer<&Run::batch, &BatchShape::microbatch>(1, largest_batch_factor),
       compared},
      {"microbatches", "N", "microbatches of one replica in one step",
       integer<&Run::batch, &BatchShape::microbatches>(1, largest_batch_factor), compared, "4 x pp; the plan's"},
      {"global-batch", "N", "sequences in one step; given some of the three, the others follow",
       special(IntegerRange{1, largest_batch_factor * largest_batch_factor}, unset), used_alone,
       "microbatch x microbatches x dp"},
      {"steps", "N", "stop after N steps", integer<&Run::length, &LengthSettings::steps>(), compared},
      {"epochs", "N", "stop after N passes over the data; with `steps` the first limit counts",
       integer<&Run::length, &LengthSettings::epochs>(), compared, "1; on the built-in text until it has learned"},
  };
}

Rows optimizer_rows() {
  using Rate = LearningRateSettings;
  using Own = OptimizerSettings;
  return {
      {"optimizer", "", "the rule that updates the weights: docs/training.md",
       special(
           optimizer_names(), [](const Run& run) { return run.optimizer.name; }, set_optimizer),
       compared},
      {"lr", "RATE", "peak learning rate", number<&Run::learning_rate, &Rate::peak>(), compared},
      {"min-lr", "RATE", "learning rate at the end", number<&Run::learning_rate, &Rate::minimum>(), compared},
      {"lr-schedule", "", "course of the rate from peak to end",
       choice<&Run::learning_rate, &Rate::kind>({"constant", "linear", "cosine"}), compared},
      {"warmup-steps", "N", "steps over which the rate rises to its peak", integer<&Run::learning_rate, &Rate::warmup_steps>(0),
       compared},
      {"warmup-ratio", "X", "the same as a share of all steps, from 0 to 1",
       number<&Run::learning_rate, &Rate::warmup_ratio>(share), compared, "0"},
      {"warmup-init-lr", "RATE", "learning rate that the warm-up rises from",
       number<&Run::learning_rate, &Rate::warmup_initial>(), compared},
      {"weight-decay", "X",
       "weight decay of tensors with two or more dimensions; sgd adds it to the gradient, lamb to the update",
       number<&Run::optimizer, &Own::weight_decay>(), compared, optimizer_default("", &Own::weight_decay)},
      {"dropout", "X", "dropout wherever the model's family has it, from 0 to below 1",
       number<&Run::model, &ModelSettings::dropout>(below_one), compared, "as in the model's config.json"},
      {"clip-grad", "X", "largest global gradient norm; 0 turns clipping off", number<&Run::clip_norm>(), compared},
  };
}

// The factors that only some optimizers have.
Rows optimizer_factor_rows() {
  using Own = OptimizerSettings;
  constexpr std::int64_t most_galore = 1'000'000;
  return {
      optimizer_row<&Own::beta1>("beta1", "X", "decay of the first moment; in lion, the momentum's share of the update",
                                 number<&Run::optimizer, &Own::beta1>(below_one)),
      optimizer_row<&Own::beta2>("beta2", "X", "decay of the second moment; in lion, that of its momentum",
                                 number<&Run::optimizer, &Own::beta2>(below_one)),
      optimizer_row<&Own::beta3>("beta3", "X", "in came: decay of the squared deviations of updates",
                                 number<&Run::optimizer, &Own::beta3>(below_one)),
      optimizer_row<&Own::beta2_decay>("beta2-decay", "X", "in adafactor: beta2 of step t is 1 - t^X",
                                       number<&Run::optimizer, &Own::beta2_decay>(below_zero)),
      optimizer_row<&Own::eps>(
          "adam-eps", "X",
          "added to the root of the second moment; in adafactor the least root, in came added to squared gradients",
          number<&Run::optimizer, &Own::eps>({.above = true})),
      optimizer_row<&Own::eps2>("eps2", "X",
                                "in adafactor: the least root mean square of a weight; in came: added to squared deviations",
                                number<&Run::optimizer, &Own::eps2>({.above = true})),
      optimizer_row<&Own::clip_threshold>("clip-threshold", "X",
                                          "in adafactor and came: the largest root mean square of an update",
                                          number<&Run::optimizer, &Own::clip_threshold>({.above = true})),
      optimizer_row<&Own::momentum>("momentum", "X", "decay of the momentum of sgd, which 0 turns off, and of muon",
                                    number<&Run::optimizer, &Own::momentum>(below_one)),
      optimizer_row<&Own::nesterov>("nesterov", "on|off", "in sgd and muon: Nesterov's momentum",
                                    on_off<&Run::optimizer, &Own::nesterov>()),
      optimizer_row<&Own::galore_rank>("galore-rank", "N", "in galore: rank of the projected gradients",
                                       integer<&Run::optimizer, &Own::galore_rank>(1, most_galore)),
      optimizer_row<&Own::galore_gap>("galore-update-proj-gap", "N",
                                      "in galore: steps between two computations of the projection",
                                      integer<&Run::optimizer, &Own::galore_gap>(1)),
      optimizer_row<&Own::galore_scale>("galore-scale", "X", "in galore: factor of the update",
                                        number<&Run::optimizer, &Own::galore_scale>({.above = true})),
      {"muon-adjust-lr", "",
       "in muon, how the update of a matrix [rows, columns] is scaled: original, by sqrt(max(1, rows / columns)); match-rms-adamw, by 0.2 sqrt(max(rows, columns)), for rates that suit AdamW",
       choice<&Run::optimizer, &Own::muon_rate>({"original", "match-rms-adamw"}), compared},
  };
}

Rows adapter_rows() {
  using Own = AdapterSettings;
  constexpr std::int64_t most_rank = 65536;
  return {
      {"lora-rank", "N",
       "train low-rank adapters of this rank in place of the model's matrices, which stay as they are; 0: none: docs/adapters.md",
       integer<&Run::model, &ModelSettings::adapter, &Own::rank>(0, most_rank), compared},
      {"lora-alpha", "X", "an adapter's product is scaled by alpha / rank",
       number<&Run::model, &ModelSettings::adapter, &Own::alpha>({.above = true}), compared, "2 x lora-rank"},
      {"lora-dropout", "P", "share of its inputs that an adapter drops, from 0 to below 1",
       number<&Run::model, &ModelSettings::adapter, &Own::dropout>(below_one), compared, "0; the adapter's"},
      {"lora-targets", "all|NAMES",
       "the matrices that get adapters: all of attention and MLP, or names such as q_proj,v_proj with commas between",
       text<&Run::model, &ModelSettings::adapter, &Own::targets>(), compared},
      {"lora-rslora", "", "scale by alpha / sqrt(rank)", on_off<&Run::model, &ModelSettings::adapter, &Own::root_scale>(),
       compared},
      {"lora-dora", "", "train a magnitude for each row of the matrices too (DoRA)",
       on_off<&Run::model, &ModelSettings::adapter, &Own::magnitudes>(), compared},
      {"train-embeddings", "", "train the tables of tokens and of positions besides the adapters",
       on_off<&Run::model, &ModelSettings::adapter, &Own::train_embeddings>(), compared},
      {"train-head", "", "train the output matrix besides the adapters",
       on_off<&Run::model, &ModelSettings::adapter, &Own::train_head>(), compared},
      {"train-norms", "", "train all norms besides the adapters",
       on_off<&Run::model, &ModelSettings::adapter, &Own::train_norms>(), compared},
      {"adapter", "DIR", "go on with the adapter of this folder, as PEFT saves it, on its model",
       text<&Run::model, &ModelSettings::adapter, &Own::folder>()},
  };
}

Rows expert_rows() {
  return {
      {"moe-aux-loss", "X",
       "of models with routed experts: coefficient of the loss that balances their loads over each sequence; 0: none",
       number<&Run::model, &ModelSettings::balance_loss>(), compared, "what the model's config.json says"},
      {"moe-aux-scope", "",
       "one balancing loss for the routed layers together, as transformers has it; or one for each by itself, added up, as Megatron-LM has it",
       choice<&Run::model, &ModelSettings::balance_by_layer>({"model", "layer"}), compared, "model"},
      {"moe-z-loss", "X", "coefficient of the square of the router's log-sum-exp, the mean over a sequence, added over layers",
       number<&Run::model, &ModelSettings::z_loss>(), compared, "0"},
      {"moe-bias-rate", "X",
       "step by which the bias of each expert, which changes the choice of experts alone, falls after a step in which the expert had more than the mean load, and else rises; 0: no biases",
       special(bias_range, [](const Run& run) { return text_of(run.model.router_rules.bias_rate); }), compared, "0"},
      {"moe-capacity", "none|F",
       "most tokens of a sequence that an expert takes, in units of the mean: the first ones by position; the choices of others are dropped",
       special(scale_range,
               [](const Run& run) {
                 const double capacity = run.model.router_rules.capacity;
                 return capacity == 0 ? "none" : text_of(capacity);
               }),
       compared, "none"},
  };
}

Rows loss_scale_rows() {
  return {
      {"loss-scale", "dynamic|X",
       "factor of the loss before the backward; dynamic (or 0): a step whose gradients overflow is skipped, which warm-up and decay of the learning rate do not count, and the scale halves",
       special(scale_range,
               [](const Run& run) { return run.loss_scale.dynamic ? "dynamic" : text_of(run.loss_scale.initial); }),
       compared, "dynamic in fp16, else 1"},
      {"loss-scale-initial", "X", "initial value of a dynamic scale",
       number<&Run::loss_scale, &LossScaleSettings::initial>(scale_range), compared, fmt::format("{}", usual_dynamic_scale)},
      {"loss-scale-window", "N", "steps without overflow after which it doubles",
       integer<&Run::loss_scale, &LossScaleSettings::window>(), compared},
      {"loss-scale-hysteresis", "N", "overflows since it last doubled after which it halves",
       integer<&Run::loss_scale, &LossScaleSettings::hysteresis>(), compared},
      {"loss-scale-min", "X", "its smallest value; an overflow there ends the run",
       number<&Run::loss_scale, &LossScaleSettings::minimum>(scale_range), compared},
  };
}

Rows numerics_rows() {
  return {
      {"precision", "", "number type of computation; fp8, on Hopper GPUs: bf16 with the blocks' matrix products in 8 bits",
       special(Choices{"fp32", "bf16", "fp16", "fp8"}, [](const Run& run) { return precision_name(run.numerics.precision); }),
       compared, "fp32 on CPU, bf16 on GPU"},
      {"fp8-recipe", "",
       "with `precision` fp8: one scale a tensor, gradients in e5m2; or one for each 128 numbers, of weights for each 128 x 128, all in e4m3",
       special(Choices{"tensorwise", "blockwise"}, [](const Run& run) { return fp8_recipe_name(run.numerics.precision); }),
       compared},
      {"num-layers-at-start-in-bf16", "N", "with `precision` fp8: the first N layers multiply in bf16",
       integer<&Run::numerics, &Numerics::bf16_layers, &Bf16Layers::at_start>(0, most_layers), compared},
      {"num-layers-at-end-in-bf16", "N", "with `precision` fp8: the last N layers do",
       integer<&Run::numerics, &Numerics::bf16_layers, &Bf16Layers::at_end>(0, most_layers), compared},
  };
}

Rows base_rows() {
  return {
      {"base-precision", "",
       "type of the frozen matrices of attention, MLPs and experts, from which products make the type of `precision` block by block: fp8 is e4m3 with a scale for each 128 x 128 numbers; nf4 has 4 bits and a scale for each 64, itself in 8 bits, as bitsandbytes has them",
       choice<&Run::model, &ModelSettings::base_precision>({"bf16", "fp8", "nf4"}), compared,
       "nf4 where the folder has it, else the type of computation"},
  };
}

Rows recompute_rows() {
  return {
      {"recompute", "", "activations that the backward computes again to save memory",
       choice<&Run::numerics, &Numerics::recompute>(recompute_names()), compared | profiled, "", SettingPhrase(", recompute ")},
      {"recompute-num-layers", "N",
       "only the first N layers of each stage (with chunks, of each chunk); the others keep more: with full they recompute as selective does, with selective nothing",
       integer<&Run::numerics, &Numerics::recompute_layers>(1, most_layers), compared | profiled, "all",
       SettingPhrase(" of ", "layer")},
      {"loss-chunks", "N",
       "the head and the loss take a microbatch's tokens in N chunks, one after the other, so that the logits are never in memory as a whole; it computes them twice",
       integer<&Run::numerics, &Numerics::loss_chunks>(1, 1'000'000), compared | profiled, "",
       SettingPhrase(", loss in ", "chunk")},
      {"deterministic", "on|off", "the same bits in every run and for every pp and schedule",
       on_off<&Run::numerics, &Numerics::deterministic>(), compared | profiled},
  };
}

Rows device_rows() {
  return {
      {"device", "", "auto takes GPUs if pp x tp x dp are there, else the CPU",
       special(Choices{"auto", "cpu", "cuda"}, [](const Run& run) { return name_of(run.devices.kind); }), compared, "auto"},
      {"devices", "LIST", "GPUs to use, in rank order, e.g. 0,1,2,3", special(AnyText{}, unset), used_alone, "the first ones"},
      {"threads", "N", "compute threads of each CPU device", integer<&Run::devices, &DeviceSettings::threads>(1, 1024),
       profiled, "cores / devices, at least 1"},
  };
}

Rows saving_rows() {
  using Saving = SavingSettings;
  const auto gigabytes = [](const Run& run) { return fmt::format("{}GB", static_cast<double>(run.saving.shard_bytes) / 1e9); };
  return {
      {"save", "DIR", "write checkpoints of this one run and, at the end, DIR/model (a Hugging Face folder)",
       special(AnyText{}, unset)},
      {"save-interval", "N", "a checkpoint every N steps, written while training continues",
       integer<&Run::saving, &Saving::interval>(), used_alone, "only at the end"},
      {"save-keep", "K", "keep the newest K checkpoints", integer<&Run::saving, &Saving::keep>(), used_alone, "all"},
      {"save-keep-every", "N", "with `save-keep`: keep those of every N-th step too",
       integer<&Run::saving, &Saving::keep_every>()},
      {"save-dtype", "", "number type of DIR/model's weights; checkpoints keep the optimizer's fp32",
       choice<&Run::saving, &Saving::type>({"fp32", "bf16", "fp16"})},
      {"save-shard-size", "SIZE", "largest size of one file of DIR/model, such as 500MB; several files have an index",
       special(AnyText{}, gigabytes)},
      {"load", "DIR", "continue from this checkpoint, in any layout",
       special(AnyText{}, [](const Run& run) { return run.saving.load ? "on" : ""; }), compared},
      {"resume", "", "continue from the newest complete checkpoint in `save`, or start fresh",
       on_off<&Run::saving, &Saving::resume>(), compared},
  };
}

Rows failure_rows() {
  return {
      {"stall-timeout", "SECONDS",
       "a step fails if no action completes for this long, or the others wait for one process for this long; 0: never",
       integer<&Run::stall>(0, 1'000'000)},
      {"elastic", "",
       "when processes of the run are lost: all end, or those that are left take over their ranks and repeat the step, with the same bits",
       choice<&Run::elastic>({"off", "takeover"}), compared},
      {"spares", "N",
       "with elastic takeover: the last N processes have no ranks, and take over those of lost processes before others do",
       integer<&Run::spares>(0, 4095), compared},
  };
}

}  // namespace

const std::vector<SettingRow>& setting_table() {
  static const std::vector<SettingRow> table = [] {
    std::vector<SettingRow> all;
    const auto add = [&all](const char* group, Rows rows) {
      for (SettingRow& row : rows) row.group = group;
      all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    };
    add("Model and data", model_rows());
    add("Preferences", preference_rows());
    add("Evaluation", evaluation_rows());
    add("Layout", layout_rows());
    add("Batch and length", batch_rows());
    add("Optimizer", optimizer_rows());
    add("Optimizer", optimizer_factor_rows());
    add("Optimizer", expert_rows());
    add("Adapters", adapter_rows());
    add("Numbers and devices", numerics_rows());
    add("Numbers and devices", loss_scale_rows());
    add("Numbers and devices", base_rows());
    add("Numbers and devices", recompute_rows());
    add("Numbers and devices", device_rows());
    add("Checkpoints", saving_rows());
    add("General", failure_rows());
    return all;
  }();
  return table;
}

}  // namespace pipetrain
