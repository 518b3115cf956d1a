// Breaks a text into lines for a page of help.
#pragma once

#include <cstddef>
#include <string>

namespace pipetrain {

struct TextColumn {
  std::size_t indent = 0;   // columns before the text
  std::size_t width = 100;  // the last column
};

// Returns `text` broken at spaces, so that it fits between the column's indent and its width; a longer word keeps a line
// to itself. The first line has no indent, because the caller has written the text before it.
std::string wrapped_text(const std::string& text, const TextColumn& column);

}  // namespace pipetrain
