// AnswerFinder finds what the assistant writes in the text of a chat whose template does not mark it. Internal to data/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/chat_program.hpp"

namespace pipetrain {

// An answer begins where the text of the messages before it ends, with the words that ask for an answer, and ends where the
// text of the messages with it ends. A template that rewrites earlier messages writes other texts for these: then the finder
// renders the chat with another content of one message, to see where that content lies in the text.
class AnswerFinder {
 public:
  // `text`: of the whole chat. All three must outlive this.
  AnswerFinder(const ChatProgram& program, const Chat& chat, const std::string& text)
      : program_(program), chat_(chat), text_(text) {}

  // Throws templates::RenderError where an answer is not found.
  std::vector<TextSpan> find() const;
  // Returns the text after an answer to the whole chat, without the white space around it.
  std::string last_answer_end() const;

 private:
  // The first `count` messages, of which one may have other content, followed by further messages.
  struct Part {
    std::size_t count;
    std::optional<std::size_t> replaced = {};
    std::vector<Json> further = {};
  };
  Chat chat_of(const Part& part) const;
  std::optional<std::string> try_render(const Part& part, bool ask) const;  // nothing where the template refuses it
  std::optional<std::string> after_placeholder(const Part& part, bool ask) const;

  std::size_t begin_of(std::size_t answer) const;
  std::optional<std::size_t> begin_after(std::size_t answer) const;
  std::size_t end_of(std::size_t answer, std::size_t begin) const;
  std::string end_marker(std::size_t answer) const;
  std::size_t end_of_content(std::size_t answer, std::size_t begin, std::size_t bound) const;
  std::optional<TextSpan> content_span(std::size_t message) const;
  [[noreturn]] void fail_answer(std::size_t answer) const;

  const ChatProgram& program_;
  const Chat& chat_;
  const std::string& text_;
};

}  // namespace pipetrain
