// Properties and normal forms of Unicode characters, as utf8proc's tables have them (Unicode 15 in Debian 12). Internal to
// data/.
#pragma once

#include <string>
#include <string_view>

namespace pipetrain {

bool is_white_space(char32_t code);      // the property White_Space
bool is_numeric(char32_t code);          // categories Nd, Nl, No
bool is_punctuation(char32_t code);      // categories P*, and the symbols of ASCII
bool is_mark(char32_t code);             // categories M*
bool is_nonspacing_mark(char32_t code);  // category Mn
bool is_other(char32_t code);            // controls, formats, private use: categories Cc, Cf, Co
bool is_word(char32_t code);             // letters, marks, decimal digits, connectors: \w of Unicode Technical Standard 18
void append_lowercase(char32_t code, std::string& text);  // independent of the surrounding characters

// Returns the end of the extended grapheme cluster (Unicode Standard Annex 29) that begins at `at` in valid UTF-8.
std::size_t end_of_grapheme(std::string_view text, std::size_t at);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// Appends the normal form (Unicode Standard Annex 15) of valid UTF-8. Takes time linear in the text, except for
// sequences of combining marks, which are sorted.
void append_normalized(std::string_view text, NormalForm form, std::string& out);

}  // namespace pipetrain
