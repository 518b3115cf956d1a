// The str methods of Python, on UTF-8, by code points. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain::templates {

// Texts are valid UTF-8, and offsets lie at the beginning of a character.
std::size_t character_size(std::string_view text, std::size_t at);
std::size_t count_characters(std::string_view text);
// Returns the offset of the character with this number, or the text's size if it has fewer.
std::size_t offset_of(std::string_view text, std::int64_t character);
std::vector<std::string_view> characters_in(std::string_view text);

bool is_python_space(char32_t code);      // str.isspace()
bool is_python_printable(char32_t code);  // str.isprintable()

enum class Ends { both, left, right };
// Returns the text without those characters at its ends that are in `characters`; no value: white space.
std::string_view stripped(std::string_view text, std::optional<std::string_view> characters = {}, Ends ends = Ends::both);

std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
std::string title_case(std::string_view text);
std::string capitalized(std::string_view text);
std::string swapped_case(std::string_view text);
std::string folded_case(std::string_view text);

// Returns the lines, without their ends unless `with_ends` is set.
std::vector<std::string_view> lines_of(std::string_view text, bool with_ends = false);
// Splits at white space. most: the largest number of cuts; -1: any number.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool from_right);
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most, bool from_right);
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most);

enum class TextClass { alpha, alphanumeric, decimal, digit, numeric, space, lower, upper, title, printable, ascii };
// Computes str.isalpha() and the like.
bool is_all(std::string_view text, TextClass text_class);

}  // namespace pipetrain::templates
