#include "actors/training/job/setting_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/tokenizers/chat_template.hpp"
#include "model/config/config.hpp"

namespace pipetrain {

using namespace setting_members;

namespace {

using Run = RunSettings;

constexpr NumberRange bias_range{.has_maximum = true, .maximum = 1, .with_maximum = true};

}  // namespace

SettingRows model_rows() {
  return {
      {"model", "NAME|DIR|FILE",
       "a preset (tiny, gpt2, llama3-8b, qwen3-8b, mistral-7b, gemma3-4b, phi-4, phi-4-mini, olmo2-7b, smollm3-3b, granite-3.3-8b, seed-oss-36b, ...), a Hugging Face folder with config.json and *.safetensors, or a model file of llm.c",
       text<&Run::model, &ModelSettings::name>()},
      {"init", "", "with a folder: load its weights, or draw them (then config.json is enough)",
       special(Choices{"hf", "random"}, unset), used_alone, "hf with a folder, else random"},
      {"layers", "N", "keep only the first N layers of the model",
       integer<&Run::model, &ModelSettings::layers>(1, most_kept_layers), compared, "all"},
      {"num-labels", "N",
       "classify sequences: a new head for N classes on a language model; not needed for a folder that has one",
       integer<&Run::model, &ModelSettings::labels>(least_labels, most_labels), compared, "the model's"},
      {"window", "N",
       "each query attends to the last N positions up to its own, in every layer; 0: as the model says: docs/models.md",
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
       text<&Run::data, &DataSettings::tokenizer>(), used_alone, "the model folder's for files of data, else bytes are tokens"},
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

SettingRows preference_rows() {
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

SettingRows evaluation_rows() {
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

SettingRows adapter_rows() {
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

SettingRows expert_rows() {
  return {
      {"mtp-loss", "X",
       "of DeepSeek-V3: weight of the loss of its further layer, which predicts the token after the next one (multi-token prediction); 0: leave the layer as it is",
       number<&Run::model, &ModelSettings::mtp_loss>(), compared},
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

}  // namespace pipetrain
