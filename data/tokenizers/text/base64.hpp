// Decodes bytes written as text (RFC 4648, section 4). Internal to data/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

// Returns the bytes of canonical base64 with its padding; nothing for any other text.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace pipetrain
