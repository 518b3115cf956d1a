#include "apps/generate/text_printer.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "files/json_value.hpp"

namespace pipetrain {
namespace {

// Writes to stdout at once; a failed write ends the run.
void write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw std::system_error(errno, std::generic_category(), "stdout");
}

}  // namespace

TextPrinter::TextPrinter(const std::vector<Prompt>& prompts, const std::vector<Ids>& ids, const Tokenizer* tokenizer, bool json)
    : prompts_(prompts), json_(json) {
  for (const Ids& prompt : ids) answers_.push_back({TextStream(tokenizer, prompt), {}, 0, {}});
}

void TextPrinter::token(std::size_t prompt, std::int32_t id) {
  ++tokens_;
  Answer& answer = answers_[prompt];
  ++answer.tokens;
  add(prompt, answer.stream.add(id));
}

void TextPrinter::ended(std::size_t prompt, SequenceEnd how) {
  Answer& answer = answers_[prompt];
  add(prompt, answer.stream.finish());
  answer.end = how;
  while (next_ < answers_.size() && answers_[next_].end) finish_next();
}

void TextPrinter::add(std::size_t prompt, const std::string& text) {
  if (text.empty()) return;
  if (streams() && prompt == next_) return write_out(text);
  answers_[prompt].text += text;
}

void TextPrinter::finish_next() {
  Answer& answer = answers_[next_];
  write_out((json_ ? json_line(prompts_[next_], answer) : answer.text) + "\n");
  answer.text.clear();
  if (++next_ == answers_.size() || !streams()) return;
  write_out(std::exchange(answers_[next_].text, {}));
}

std::string TextPrinter::json_line(const Prompt& prompt, const Answer& answer) {
  Json line;
  if (prompt.messages.empty()) {
    line["prompt"] = prompt.text;
  } else {
    line["messages"] = prompt.chat.messages;
  }
  if (!prompt.adapter.empty()) line["adapter"] = prompt.adapter;
  line["text"] = answer.text;
  line["tokens"] = answer.tokens;
  line["end"] = *answer.end == SequenceEnd::end_of_text ? "end of text" : "length";
  return line.dump({.order = JsonOrder::as_added, .replace = true});
}

}  // namespace pipetrain
