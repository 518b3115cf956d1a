// The normalizers of tokenizer.json: changes to a text before it is split. Internal to data/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/component.hpp"

namespace pipetrain {

// Text at the start of a normalized text that an empty match inserted. It stands for no character of the input, which Hugging
// Face's library does not expect: a change of the whole text leaves it unchanged and puts the changed text after it.
struct InsertedFront {
  std::size_t bytes = 0;
  const std::string* by = nullptr;  // the place of the normalizer that inserted it
  // For steps at which Hugging Face's library crashes on such text: throws Error(input) if there is any.
  void refuse() const;
};

struct NormalizedText {
  std::string text;      // valid UTF-8
  bool at_start = true;  // it begins where the input began: nothing has been removed there
  InsertedFront front;
  std::string buffer;  // memory to normalize in

  // Sets the text that the next step begins with.
  void begin(std::string_view content) {
    text.assign(content);
    at_start = true;
    front = {};
  }
};

// Immutable and thread-safe.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  // Changes a text that is not empty.
  virtual void apply(NormalizedText& text) const = 0;
};

// Makes the steps in the order of their application: those of a Sequence, or a single one. Throws Error(input) for
// steps that are not supported.
std::vector<std::unique_ptr<TextNormalizer>> make_normalizers(const Component& component);

}  // namespace pipetrain
