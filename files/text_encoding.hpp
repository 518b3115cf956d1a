// Detects texts in other encodings than UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace pipetrain {

// Throws Error(input) that begins with `file` if a text begins with the byte-order mark of UTF-16 or UTF-32, since its
// bytes would be read as other characters.
void refuse_utf16(std::string_view text, const std::string& file);

}  // namespace pipetrain
