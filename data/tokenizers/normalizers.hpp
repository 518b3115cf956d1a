// The normalizers of tokenizer.json: changes to a text before it is split. Internal to data/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/component.hpp"

namespace pipetrain {

struct NormalizedText {
  std::string text;      // valid UTF-8
  bool at_start = true;  // it begins where what was normalized began: nothing has been removed there
  std::string buffer;    // memory to normalize in
};

// Immutable and thread-safe.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  // Changes a text that is not empty.
  virtual void apply(NormalizedText& text) const = 0;
};

// Steps in the order in which they are applied: a Sequence in its parts. Throws Error(input) for what is not supported.
std::vector<std::unique_ptr<TextNormalizer>> make_normalizers(const Component& component);

}  // namespace pipetrain
