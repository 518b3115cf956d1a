#include "apps/export/export_model.hpp"

#include <fmt/format.h>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_table.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/saving_options.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/saved_result.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "core/error.hpp"
#include "model/weights/companion_files.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {

const OptionRows& export_option_table() {
  static const OptionRows table = joined_rows({
      {{"Checkpoint", "load", "DIR", "the checkpoint, such as run/step-00000100, saved in any layout"},
       {"Checkpoint", "model", "DIR", "of a multimodal model: the folder that its run began from, whose other parts are copied",
        AnyText{}, "the folder that the checkpoint records"},
       {"Model folder", "out", "DIR", "the Hugging Face folder to write; one of an older model is replaced"},
       shared_option("Model folder", "save-dtype", {.help = "of the weights, rounded to the nearest"}),
       shared_option("Model folder", "save-shard-size",
                     {.help = "of weights in one file at most, such as 500MB; more files have an index"}),
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
  if (const auto foreign = foreign_checkpoint(options.load)) values.fail("load", *foreign);
  options.out = output_folder(values, "out").value();
  options.folder = read_model_folder_options(values);
  const std::string tokenizer = values.text("tokenizer").value_or("");
  if (values.given("tokenizer") && tokenizer_files(tokenizer).empty())
    values.fail("tokenizer", "is not a tokenizer's folder or file; give one, for example with tokenizer.json");
  options.folder.companions = companion_files(options.load, tokenizer);
  options.model = values.text("model").value_or("");
  if (values.given("model") && !std::filesystem::exists(options.load / multimodal_file, ignored))
    values.fail("model", "is for checkpoints of multimodal models, and this is none; leave it out");
  refuse_shared_files(values,
                      {.inputs = {"load", "model", "tokenizer", "config"}, .output_files = {}, .output_folders = {"out"}});
  return options;
}

namespace {

// Thrown to stop writing a folder, which is then removed.
struct Stopped {};

}  // namespace

int run_export(const ExportOptions& options) {
  check_hf_target(options.out);
  const CheckpointManifest manifest = verify_checkpoint(options.load);
  const ModelConfig config = read_hf_config(options.load);
  ModelFolderOptions folder = options.folder;
  folder.multimodal = multimodal_parts(options.load, options.model);
  const InitialState initial = open_checkpoint(options.load, manifest, config);
  const auto tensors = logical_tensors(config);
  const auto fill = [&](std::size_t i, float* out) {
    if (stop_signal() != 0) throw Stopped{};
    Parameter whole;
    whole.name = tensors[i].name;
    whole.full = whole.local = tensors[i].shape;
    initial.weights->load(whole, out);
  };
  try {
    // Otherwise a signal would end the process at once and leave a partial folder.
    const SignalAnswers answers([] {}, [] {});
    save_hf_model(config, options.out, fill, folder);
  } catch (const Stopped&) {
    print_note("stopped by " + stop_signal_name());
    return stop_signal_status();
  }
  for (const auto& note : options.notes) print_note(note);
  print_saved_result(fmt::format("step {} of {} -> {}\n", manifest.state.step, options.load.string(), options.out.string()),
                     options.out);
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
