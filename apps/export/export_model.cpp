#include "apps/export/export_model.hpp"

#include <fmt/format.h>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/choice_biases.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_table.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/saving_options.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/saved_result.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/merged_weights.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {

const OptionRows& export_option_table() {
  static const OptionRows table = joined_rows({
      {{"Checkpoint", "load", "DIR", "the checkpoint, such as run/step-00000100, saved in any layout"},
       {"Checkpoint", "model", "DIR",
        "of a multimodal model: the folder that its run began from, whose other parts are copied; of adapters: the model that they belong to",
        AnyText{}, "the folder that the checkpoint records"},
       {"Checkpoint", "merge", "",
        "of adapters, in a checkpoint or in a folder of PEFT's: add them to the matrices of `--model`, and write the whole model",
        OnOff{}, "off"},
       {"Model folder", "out", "DIR", "the Hugging Face folder to write; one of an older model is replaced"},
       shared_option("Model folder", "save-dtype", {.help = "number type of the weights, rounded to the nearest"}),
       shared_option("Model folder", "save-shard-size",
                     {.help = "largest size of one file of weights, such as 500MB; several files have an index"}),
       {"Model folder", "tokenizer", "PATH", "a tokenizer's folder or file to put there", AnyText{}, "the checkpoint's"}},
      general_options(),
  });
  return table;
}

ExportOptions parse_export_options(const std::vector<std::string>& arguments, const Environment& environment) {
  ExportOptions options;
  const OptionValues values(export_option_table(),
                            gather_options(export_option_table(), arguments, environment, options.notes));
  if (!values.given("load")) values.fail("load", "is needed: the checkpoint to read; give its folder");
  if (!values.given("out")) values.fail("out", "is needed: the folder to write; give it");
  options.load = *values.text("load");
  refuse_unreadable(values, "load");
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.load, ignored))
    values.fail("load", "there is no such checkpoint folder; check the path");
  options.merge = values.on_off("merge").value_or(false);
  const bool is_adapter = std::filesystem::exists(options.load / peft_config_file, ignored);
  if (options.merge && !is_adapter) values.fail("merge", "there are no adapters in the folder of --load; leave it out");
  if (options.merge && !values.given("model")) values.fail("merge", "needs the adapters' model; give it with --model");
  if (!options.merge)
    if (const auto foreign = foreign_checkpoint(options.load)) values.fail("load", *foreign);
  options.out = output_folder(values, "out").value();
  options.folder = read_model_folder_options(values);
  const std::string tokenizer = values.text("tokenizer").value_or("");
  if (values.given("tokenizer") && tokenizer_files(tokenizer).empty())
    values.fail("tokenizer", "is not a tokenizer's folder or file; give one, for example with tokenizer.json");
  options.folder.companions = companion_files(options.load, tokenizer);
  options.model = values.text("model").value_or("");
  if (values.given("model") && !options.merge && !std::filesystem::exists(options.load / multimodal_file, ignored))
    values.fail("model", "is for checkpoints of multimodal models, and this is none; leave it out");
  refuse_shared_files(values,
                      {.inputs = {"load", "model", "tokenizer", "config"}, .output_files = {}, .output_folders = {"out"}});
  return options;
}

namespace {

// Thrown to stop writing a folder, which is then removed.
struct Stopped {};

// The contents of the folder to write, and their origin in words.
struct Exported {
  ModelConfig config;  // with adapters: these alone are written
  std::shared_ptr<const WeightSource> weights;
  std::string origin;
  std::vector<std::vector<float>> expert_biases = {};  // CheckpointState's
};

ModelConfig config_of_base(const std::filesystem::path& model) {
  std::vector<std::string> notes;
  return with_head_of_weights(read_stored_config(model), model, notes);
}

// Adds a checkpoint's adapters, or those of a folder of PEFT's, to the model.
Exported merge_adapters(const ExportOptions& options) {
  const std::filesystem::path& model = options.model;
  const bool is_checkpoint = !rank_files(options.load).empty();
  const ModelConfig base = config_of_base(model);
  const ModelConfig config = with_peft_config(base, options.load);
  std::shared_ptr<const WeightSource> weights = stored_weights(base, model), trained;
  if (is_checkpoint)
    trained = open_checkpoint(options.load, verify_checkpoint(options.load), config, weights).weights;
  else
    trained = peft_weights(config, options.load);
  return {base, merged_weights(config, std::move(weights), std::move(trained)),
          fmt::format("{} merged into {}", options.load.string(), model.string())};
}

Exported open_exported(const ExportOptions& options) {
  if (options.merge) return merge_adapters(options);
  const CheckpointManifest manifest = verify_checkpoint(options.load);
  ModelConfig config = read_checkpoint_config(options.load);
  auto weights = open_checkpoint(options.load, manifest, config).weights;
  return {std::move(config), std::move(weights), fmt::format("step {} of {}", manifest.state.step, options.load.string()),
          manifest.state.expert_biases};
}

}  // namespace

int run_export(const ExportOptions& options) {
  check_hf_target(options.out);
  const Exported exported = open_exported(options);
  const ModelConfig& config = exported.config;
  ModelFolderOptions folder = options.folder;
  if (!config.adapter.exists() && !options.merge) folder.multimodal = multimodal_parts(options.load, options.model);
  const auto tensors = logical_tensors(config);
  const auto fill = [&](std::size_t i, float* out) {
    if (stop_signal() != 0) throw Stopped{};
    Parameter whole;
    whole.name = tensors[i].name;
    whole.full = whole.local = tensors[i].shape;
    whole.group = tensors[i].group;
    exported.weights->load(whole, out);
  };
  try {
    // Otherwise a signal would end the process at once and leave a partial folder.
    const SignalAnswers answers({[] {}, [] {}, {}});
    if (config.adapter.exists())
      save_peft_folder(config, options.out, "", fill, folder);
    else
      save_hf_model(config, options.out, with_choice_biases(config, exported.expert_biases, fill), folder);
  } catch (const Stopped&) {
    print_note("stopped by " + stop_signal_name());
    return stop_signal_status();
  }
  for (const auto& note : options.notes) print_note(note);
  print_saved_result(fmt::format("{} -> {}\n", exported.origin, options.out.string()), options.out);
  return 0;
}

std::string export_help() {
  return "pipetrain export --load CHECKPOINT --out DIR\n"
         "Turn a checkpoint, saved in any layout, into a Hugging Face folder: config.json, weights, tokenizer.\n"
         "\n"
         "  pipetrain export --load run/step-00000100 --out model\n"
         "  pipetrain export --load run/step-00000100 --out model --save-dtype bf16 --save-shard-size 2GB\n"
         "\n" +
         format_options(export_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_LOAD=...) or from the --config file.\n";
}

}  // namespace pipetrain
