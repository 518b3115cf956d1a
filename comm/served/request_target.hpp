// The target of an HTTP request: its path and the values of its query. Internal to comm/served/.
#pragma once

#include <string>
#include <string_view>

namespace pipetrain {

// Replaces %XX by the byte; a '%' without two hexadecimal digits remains.
std::string percent_decoded(std::string_view text);
// Replaces every byte but letters, digits, '-', '.', '_' and '~' (RFC 3986) by %XX.
std::string percent_encoded(std::string_view text);

// Returns the target without its query.
std::string_view path_of(std::string_view target);
// Returns the decoded value of a key of the query, or "".
std::string query_value(std::string_view target, std::string_view key);

}  // namespace pipetrain
