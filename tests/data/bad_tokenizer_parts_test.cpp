// Parts of a tokenizer.json that are wrong, by name: each is refused with the file, the part and the fault.
#include <string>

#include "catch.hpp"
#include "data/input_error.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

struct BadPart {
  const char* name;
  const char* member;  // added to a good model
  const char* why;     // part of its error
};

const BadPart parts[] = {
    {"a charsmap that is no base64", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "!!!!"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not base64)~"},
    {"a charsmap of half a quad", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not base64)~"},
    {"a charsmap with bits behind its end", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AB=="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not base64)~"},
    {"a charsmap with padding inside", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AA==AAAA"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not base64)~"},
    {"an empty charsmap", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": ""})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not a table of rules)~"},
    {"a charsmap without a trie", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not a table of rules)~"},
    {"a charsmap of two bytes", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not a table of rules)~"},
    {"a charsmap whose trie is cut short", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAAAAA="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not a table of rules)~"},
    {"a charsmap whose trie is no units",
     R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "BgAAAAAAAAAAAAAA"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not a table of rules)~"},
    {"a charsmap of 4 GB", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "/P///wAAAAA="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is not a table of rules)~"},
    {"a charsmap without texts",
     R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "iAEAAAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhgQEA"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" has a rule without a text)~"},
    {"a charsmap with a text beyond the end",
     R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "iAEAAAAAAAAHAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhgQEAYgA="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" has a rule without a text)~"},
    {"a charsmap whose rule ends outside of the trie",
     R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "iAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhJQ4AYgA="})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" has a rule without a text)~"},
    {"a charsmap with a text that is no UTF-8",
     R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "iAEAAAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhgQEA/wA="})~", R"~(normalizer Precompiled: "precompiled_charsmap" has a rule whose text is not UTF-8)~"},
    {"a charsmap with half a character",
     R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": "iAEAAAAAAAABAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhgQEAw6kA"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" has a rule whose text is not UTF-8)~"},
    {"no charsmap", R"~("normalizer": {"type": "Precompiled"})~",
     R"~(normalizer Precompiled: "precompiled_charsmap" is missing)~"},
    {"a charsmap that is null", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": null})~",
     R"~("precompiled_charsmap" is missing)~"},
    {"a charsmap that is a list", R"~("normalizer": {"type": "Precompiled", "precompiled_charsmap": [1]})~",
     R"~("precompiled_charsmap" is not a string)~"},
    {"BERT's cleaning as a text", R"~("normalizer": {"type": "BertNormalizer", "clean_text": "yes"})~",
     R"~(normalizer BertNormalizer: "clean_text" is neither true nor false)~"},
    {"BERT's accents as a number", R"~("normalizer": {"type": "BertNormalizer", "strip_accents": 1})~",
     R"~("strip_accents" is neither)~"},
    {"BERT's case as a number", R"~("normalizer": {"type": "BertNormalizer", "lowercase": 0})~", R"~("lowercase" is neither)~"},
    {"BERT's Chinese as a list", R"~("normalizer": {"type": "BertNormalizer", "handle_chinese_chars": []})~",
     R"~("handle_chinese_chars" is neither)~"},
    {"a normalizer that is a text", R"~("normalizer": "NFC")~", "normalizer: is not a JSON object"},
    {"a normalizer that is a list", R"~("normalizer": [])~", "normalizer: is not a JSON object"},
    {"a normalizer without a type", R"~("normalizer": {"form": "NFC"})~", R"~(normalizer: has no "type")~"},
    {"a normalizer whose type is a number", R"~("normalizer": {"type": 3})~", R"~(normalizer: has no "type")~"},
    {"a Sequence whose parts are an object", R"~("normalizer": {"type": "Sequence", "normalizers": {}})~",
     R"~("normalizers" is not an array)~"},
    {"a Sequence in a Sequence without parts", R"~("normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence"}]})~",
     R"~("normalizers" is missing)~"},
    {"a Replace without a pattern", R"~("normalizer": {"type": "Replace", "content": "a"})~",
     R"~(normalizer Replace: "pattern" is missing)~"},
    {"a Replace without a content", R"~("normalizer": {"type": "Replace", "pattern": "a"})~",
     R"~(normalizer Replace: "content" is missing)~"},
    {"a Replace whose pattern is a number", R"~("normalizer": {"type": "Replace", "pattern": 1, "content": ""})~",
     R"~("pattern" is neither)~"},
    {"a Strip with a side that is a number", R"~("normalizer": {"type": "Strip", "strip_right": 2})~",
     R"~("strip_right" is neither)~"},
    {"an unknown normal form", R"~("normalizer": {"type": "NFKX"})~",
     "normalizer NFKX: this type of normalizer is not supported"},
    {"a pre_tokenizer that is a text", R"~("pre_tokenizer": "ByteLevel")~", "pre_tokenizer: is not a JSON object"},
    {"a pre_tokenizer without a type", R"~("pre_tokenizer": {})~", R"~(pre_tokenizer: has no "type")~"},
    {"BERT's pre_tokenizer behind ByteLevel",
     R"~("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "BertPreTokenizer"}]})~",
     "pre_tokenizer BertPreTokenizer: follows ByteLevel"},
    {"a Sequence of pre_tokenizers that is missing", R"~("pre_tokenizer": {"type": "Sequence"})~",
     R"~("pretokenizers" is missing)~"},
    {"a ByteLevel with a prefix that is a text", R"~("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": "no"})~",
     R"~("add_prefix_space" is neither)~"},
    {"a ByteLevel with a regex that is a text", R"~("pre_tokenizer": {"type": "ByteLevel", "use_regex": "a"})~",
     R"~("use_regex" is neither)~"},
    {"a Split without a behavior", R"~("pre_tokenizer": {"type": "Split", "pattern": "a"})~",
     R"~(pre_tokenizer Split: "behavior" is missing)~"},
    {"a Split without a pattern", R"~("pre_tokenizer": {"type": "Split", "behavior": "Removed"})~",
     R"~("pattern" is missing)~"},
    {"a Split with two patterns",
     R"~("pre_tokenizer": {"type": "Split", "pattern": {"String": "a", "Regex": "a"}, "behavior": "Removed"})~",
     R"~("pattern" is neither)~"},
    {"a Split that inverts with a number",
     R"~("pre_tokenizer": {"type": "Split", "pattern": "a", "behavior": "Removed", "invert": 1})~", R"~("invert" is neither)~"},
    {"a Punctuation with an unknown behavior", R"~("pre_tokenizer": {"type": "Punctuation", "behavior": "removed"})~",
     "the behavior is not"},
    {"Digits with a text", R"~("pre_tokenizer": {"type": "Digits", "individual_digits": "true"})~",
     R"~("individual_digits" is neither)~"},
    {"a delimiter of two characters", R"~("pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "ab"})~",
     R"~("delimiter" is not one character)~"},
    {"an empty delimiter", R"~("pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": ""})~",
     R"~("delimiter" is not one character)~"},
    {"a Metaspace without a replacement", R"~("pre_tokenizer": {"type": "Metaspace"})~", R"~("replacement" is missing)~"},
    {"a Metaspace that splits with a number", R"~("pre_tokenizer": {"type": "Metaspace", "replacement": "_", "split": 1})~",
     R"~("split" is neither)~"},
    {"a decoder that is a number", R"~("decoder": 3)~", "decoder: is not a JSON object"},
    {"a decoder without a type", R"~("decoder": {})~", R"~(decoder: has no "type")~"},
    {"WordPiece's decoder", R"~("decoder": {"type": "WordPiece", "prefix": "##"})~",
     "decoder WordPiece: this type of decoder is not supported"},
    {"a Sequence of decoders that is a text", R"~("decoder": {"type": "Sequence", "decoders": "Fuse"})~",
     R"~("decoders" is not an array)~"},
    {"a decoder of BPE without a suffix", R"~("decoder": {"type": "BPEDecoder"})~", R"~("suffix" is missing)~"},
    {"a Strip of two characters", R"~("decoder": {"type": "Strip", "content": "ab", "start": 0, "stop": 0})~",
     R"~("content" is not one character)~"},
    {"a Strip of a million and one", R"~("decoder": {"type": "Strip", "content": "a", "start": 0, "stop": 1000001})~",
     R"~("stop" is not an integer from 0 to 1000000)~"},
    {"a Strip of half a character", R"~("decoder": {"type": "Strip", "content": "a", "start": 0.5, "stop": 0})~",
     R"~("start" is not an integer)~"},
    {"a Metaspace decoder without a replacement", R"~("decoder": {"type": "Metaspace"})~", R"~("replacement" is missing)~"},
    {"a post_processor that is a text", R"~("post_processor": "ByteLevel")~", "post_processor: is not a JSON object"},
    {"a template that is an object", R"~("post_processor": {"type": "TemplateProcessing", "single": {}})~",
     R"~("single" is not an array)~"},
    {"a template of texts", R"~("post_processor": {"type": "TemplateProcessing", "single": ["$A"]})~",
     R"~(a part of "single" is neither)~"},
    {"a template with the text twice",
     R"~("post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "A"}}]})~",
     "around one Sequence A only"},
    {"a template whose special tokens are a list",
     R"~("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": []})~",
     R"~("special_tokens" is not an object)~"},
    {"a template whose special token has a negative id",
     R"~("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": {"x": {"ids": [-1]}}})~",
     "an id is not an integer from 0 to"},
    {"a RoBERTa without a token in front", R"~("post_processor": {"type": "RobertaProcessing", "sep": ["b", 1]})~",
     R"~("cls" is missing)~"},
    {"a BERT whose separator has no id", R"~("post_processor": {"type": "BertProcessing", "sep": ["b"], "cls": ["a", 0]})~",
     R"~("sep" is not a token and its id)~"},
    {"a BERT whose id is a text", R"~("post_processor": {"type": "BertProcessing", "sep": ["b", "1"], "cls": ["a", 0]})~",
     "an id is not an integer"},
    {"an added token that is a text", R"~("added_tokens": ["<s>"])~",
     R"~("added_tokens" has an element that is not an object)~"},
    {"an added token without an id", R"~("added_tokens": [{"content": "x"}])~",
     R"~("added_tokens" has an element that is not an object)~"},
    {"an added token without a content", R"~("added_tokens": [{"id": 5}])~",
     R"~("added_tokens" has an element that is not an object)~"},
    {"an added token whose flag is a number", R"~("added_tokens": [{"id": 5, "content": "x", "lstrip": 1}])~",
     R"~("added_tokens" has an element that is not an object)~"},
    {"two normalizers", R"~("normalizer": null, "normalizer": {"type": "NFC"})~", R"~(key "normalizer" appears twice)~"},
    {"a model beside the model", R"~("model": {"type": "BPE"})~", R"~(key "model" appears twice)~"}};

}  // namespace

TEST_CASE("every wrong part of a tokenizer is refused with its file, its name and what is wrong") {
  const TempFolder folder;
  const auto error_of = [&](const std::string& member) {
    const auto file =
        folder.write("t.json", "{" + member + R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
    return test::input_error(folder, [&] { open_tokenizer(file); });
  };
  REQUIRE(error_of("") == "no error");
  for (const BadPart& part : parts) {
    INFO(part.name);
    CHECK_THAT(error_of(std::string(part.member) + ",\n"), StartsWith("t.json:") && Contains(part.why) && Contains("; "));
  }
}
