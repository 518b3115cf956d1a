#include "apps/tokenize/tokenize_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "apps/options/data_options.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/output_target.hpp"
#include "data/formats/formats.hpp"

namespace pipetrain {

namespace {

// Returns the text files that --data names, with the files of a folder in its place.
std::vector<std::filesystem::path> read_tokenized_data(const OptionValues& values) {
  std::vector<std::filesystem::path> files;
  for (const std::string& input : values.list("data")) {
    for (auto& file : list_data_files(input)) {
      if (format_of(file)->kind == DataKind::tokens)
        values.fail("data", fmt::format("{} holds tokens already; give .txt, .jsonl or .parquet files", file.string()));
      files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace

const OptionRows& tokenize_option_table() {
  static const OptionRows table = joined_rows({
      {{"Input", "tokenizer", "PATH",
        "tokenizer.json, tokenizer.model, vocab.json (with merges.txt next to it), or a folder with one of them"},
       {"Input", "data", "PATH...", "text (.txt), rows {\"text\"} (.jsonl, .parquet), or folders of these", TextList{},
        "the built-in text"},
       shared_option("Input", "text-keys"),
       {"Input", "threads", "N", "threads that tokenize", IntegerRange{1, 1024}, "cores"},
       {"Output", "out", "FILE", "write the ids there, a file of tokens (FILE.tokens) for train --data"},
       {"Output", "show", "", "print each id and its piece, one document after the other", OnOff{}, "off"}},
      general_options(),
  });
  return table;
}

TokenizeOptions parse_tokenize_options(const std::vector<std::string>& arguments, const Environment& environment) {
  TokenizeOptions options;
  const OptionValues values(tokenize_option_table(),
                            gather_options(tokenize_option_table(), arguments, environment, options.notes));
  if (!values.given("tokenizer")) values.fail("tokenizer", "is needed: the tokenizer that turns text into ids; give its path");
  options.tokenizer = *values.text("tokenizer");
  placing_errors(values.places(), [&] { options.data = read_tokenized_data(values); });
  options.text_keys = read_text_keys(values);
  options.show = values.on_off("show").value_or(false);
  options.out = output_file(values, "out");
  if (!options.out && !options.show) values.fail("out", "is needed: the file to write; give it, or --show to print the ids");
  if (options.out && output_target("out", *options.out).is_stream())
    values.fail("out", "is no regular file; a file of tokens cannot be written to a pipe or a device");
  if (options.out && options.out->extension() != ".tokens")
    values.fail("out", "does not end in .tokens, by which train recognizes a file of tokens; rename it");
  refuse_shared_files(values, {.inputs = {"tokenizer", "data", "config"}, .output_files = {"out"}, .output_folders = {}});
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.threads = static_cast<int>(values.integer("threads").value_or(cores));
  return options;
}

std::string tokenize_help() {
  return "pipetrain tokenize --tokenizer PATH OPTIONS\n"
         "Turn text into token ids: into a file that train reads in place (--out), or on the terminal with their pieces (--show).\n"
         "\n"
         "  pipetrain tokenize --tokenizer Llama-3.2-1B --data corpus.jsonl --out corpus.tokens\n"
         "  pipetrain tokenize --tokenizer tokenizer.json --data page.txt --show\n"
         "\n" +
         format_options(tokenize_option_table()) +
         "\n"
         "Options can also come from the environment (PIPETRAIN_TOKENIZER=...) or from the --config file.\n";
}

}  // namespace pipetrain
