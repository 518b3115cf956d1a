#include "apps/tokenize/tokenize.hpp"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <ostream>

#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "data/formats/token_file.hpp"
#include "data/open_dataset.hpp"
#include "data/rows/row_keys.hpp"
#include "data/tokenize_files.hpp"
#include "files/json_value.hpp"

namespace pipetrain {
namespace {

// Prints "15496\t\"Hello\"", a line for each id and an empty line after each document.
void show(const Tokenizer& tokenizer, const TokenizedDocuments& documents) {
  std::size_t document = 0;
  std::string text;
  for (std::size_t i = 0; i < documents.ids.size(); ++i) {
    const std::string piece = tokenizer.piece(documents.ids[i]);
    text += fmt::format("{}\t{}\n", documents.ids[i], Json(piece).dump({.replace = true}));
    if (i + 1 == documents.ends[document]) ++document, text += "\n";
  }
  fmt::print("{}", text);
}

using Take = std::function<void(TokenizedDocuments&&)>;

// Adds facts that the user should know to `notes`.
void tokenize_all(const TokenizeOptions& options, const Tokenizer& tokenizer, std::vector<std::string>& notes,
                  const Take& take) {
  if (options.data.empty()) return take(tokenize_text(inside_text(), tokenizer));
  UnreadKeys unread;
  TextReading reading{.tokenizer = &tokenizer, .threads = options.threads};
  reading.text_keys = options.text_keys;
  reading.unread = &unread;
  reading.only_texts = true;
  tokenize_files(options.data, reading, take);
  if (const std::string note = unread.note(); !note.empty()) notes.push_back("data: " + note);
}

}  // namespace

int run_tokenize(const TokenizeOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(options.tokenizer);
  const Take only_show = [&](TokenizedDocuments&& documents) { show(*tokenizer, documents); };
  std::vector<std::string> notes = options.notes;
  if (!options.out) {
    tokenize_all(options, *tokenizer, notes, only_show);
    for (const auto& note : notes) print_note(note);
    return 0;
  }
  std::string written;
  OutputFiles files;
  files.add("out", *options.out, [&](std::ostream& out) {
    TokenFileWriter writer(out, {tokenizer->vocabulary(), tokenizer->end_of_text().value_or(0), tokenizer->content()});
    tokenize_all(options, *tokenizer, notes, [&](TokenizedDocuments&& documents) {
      writer.add(documents.ids, documents.ends);
      if (options.show) show(*tokenizer, documents);
    });
    if (writer.documents() == 0)
      throw Error(ErrorKind::input, "--data: there is no text in it, so nothing is written; give files with text");
    writer.finish();
    written = fmt::format("{} of {}", counted(writer.tokens(), "token"), counted(writer.documents(), "document"));
  });
  files.put_in_place();
  for (const auto& note : notes) print_note(note);
  print_note(fmt::format("{}: {}", options.out->string(), written));
  return 0;
}

}  // namespace pipetrain
