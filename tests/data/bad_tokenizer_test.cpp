// Every kind of wrong tokenizer ends in one line that names the file and the component.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/input_error.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string tokenizer_error(const TempFolder& folder, const std::filesystem::path& path) {
  return test::input_error(folder, [&] { open_tokenizer(path)->encode("some text"); });
}

std::string error_for_tokenizer(const std::string& text) {
  const TempFolder folder;
  return tokenizer_error(folder, folder.write("t.json", text));
}

const std::string model = R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})";

// Returns the error of a whole tokenizer with this member.
std::string error_with(const std::string& member) { return error_for_tokenizer("{" + member + ",\n" + model + "}"); }
std::string error_with_model(const std::string& text) { return error_for_tokenizer("{\"model\": " + text + "}"); }

}  // namespace

TEST_CASE("a tokenizer.json that is not a tokenizer is refused with its line") {
  CHECK(error_for_tokenizer("{" + model + "}") == "no error");
  CHECK_THAT(error_for_tokenizer(""), StartsWith("t.json: is empty"));
  CHECK_THAT(error_for_tokenizer("[]"), StartsWith("t.json:1: not a JSON object"));
  CHECK_THAT(error_for_tokenizer("7"), StartsWith("t.json:1: not a JSON object"));
  CHECK_THAT(error_for_tokenizer("{\n\"model\": {\"type\""), StartsWith("t.json:2: not valid JSON"));
  CHECK_THAT(error_for_tokenizer("{}"), StartsWith("t.json: it has no \"model\""));
  CHECK_THAT(error_for_tokenizer("{\"model\": 3}"), StartsWith("t.json: model: is not a JSON object"));
  CHECK_THAT(error_for_tokenizer("{\"a\":1,\n\"a\":2}"), StartsWith("t.json:2: key \"a\" appears twice"));
  CHECK_THAT(error_for_tokenizer(std::string("{\"a\":\0}", 7)), Contains("NUL byte"));
  CHECK_THAT(error_for_tokenizer(std::string(100, '[')), StartsWith("t.json:1:"));
}

TEST_CASE("a wrong vocabulary or wrong merges are named") {
  CHECK_THAT(error_with_model(R"({"vocab": {"a": 0}})"), StartsWith("t.json: model: has no \"type\""));
  CHECK_THAT(error_with_model(R"({"type": "WordPiece", "vocab": {"a": 0}})"),
             StartsWith("t.json: model WordPiece: this type of model is not supported; give a tokenizer with BPE and Unigram"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {}, "merges": []})"), Contains("its vocabulary is empty"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": 3})"), Contains("neither an object nor an array"));
  CHECK_THAT(error_with_model("{\"type\": \"BPE\", \"vocab\": {\"a\": 0,\n\"b\": -1}}"),
             StartsWith("t.json:2: the id of piece \"b\" is not an integer"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 2097152}})"), Contains("is not an integer from 0 to 2097151"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0.5}})"), Contains("is not an integer"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": "0"}})"), Contains("is not an integer"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": [0]}})"), Contains("members are not all \"piece\": id"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0, "a": 1}})"), Contains("piece \"a\" appears twice"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0, "b": 0}})"),
             Contains("pieces \"b\" and \"a\" have the same id 0"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}})"),
             StartsWith("t.json: model BPE: \"merges\" is missing; "));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": null})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [3]})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a","a","a"]]})"),
             Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [{"a": 1}]})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": "a a"})"), Contains("merge 0 is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})"),
             Contains("model BPE: merge 0 (a b): the vocabulary has no b"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]})"),
             Contains("the vocabulary has no aa"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "unk_token": "u"})"),
             Contains("\"unk_token\" u is not in"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "dropout": 0.1})"), Contains("dropout other than 0"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": {"a": 0}, "fuse_unk": 1})"), Contains("\"fuse_unk\" is neither"));
  CHECK_THAT(error_with_model(R"({"type": "BPE", "vocab": [["a", 0]]})"), Contains("is not an object of pieces"));
  CHECK_THAT(error_with_model(R"({"type": "Unigram", "vocab": {"a": 0}})"), Contains("is not a list of"));
  CHECK_THAT(error_with_model(R"({"type": "Unigram", "vocab": [["a"]]})"), Contains("elements are not all"));
  CHECK_THAT(error_with_model(R"({"type": "Unigram", "vocab": [[0, "a"]]})"), Contains("elements are not all"));
  CHECK_THAT(error_with_model(R"({"type": "Unigram", "vocab": [["a", 0, 1]]})"), Contains("elements are not all"));
  CHECK_THAT(error_with_model(R"({"type": "Unigram", "vocab": [["a", -1]], "unk_id": 1})"),
             Contains("\"unk_id\" is not an integer from 0 to 0"));
  CHECK_THAT(error_with_model(R"({"type": "Unigram", "vocab": [["a", -1]]})"), Contains("none for unknown text"));
}

TEST_CASE("components that are wrong or not supported are named") {
  const auto normalizer = [](const std::string& text) { return error_with("\"normalizer\": " + text); };
  const auto pre_tokenizer = [](const std::string& text) { return error_with("\"pre_tokenizer\": " + text); };
  const auto post_processor = [](const std::string& text) { return error_with("\"post_processor\": " + text); };
  const auto split = [&](const std::string& pattern) {
    return pre_tokenizer(R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": ")" + pattern + "\"}}");
  };
  CHECK_THAT(normalizer(R"({"type": "Sentencepiece"})"),
             StartsWith("t.json: normalizer Sentencepiece: this type of normalizer is not supported; give a tokenizer with"));
  CHECK_THAT(normalizer(R"({"type": "Sequence"})"), Contains("normalizer Sequence: \"normalizers\" is missing"));
  CHECK_THAT(normalizer(R"({"type": "Sequence", "normalizers": [3]})"), Contains("normalizer: is not a JSON object"));
  CHECK_THAT(normalizer(R"({"type": "Prepend"})"), Contains("\"prepend\" is missing"));
  CHECK_THAT(normalizer(R"({"type": "Prepend", "prepend": 3})"), Contains("\"prepend\" is not a string"));
  CHECK_THAT(normalizer(R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})"),
             Contains("is not one that can be read"));
  CHECK_THAT(normalizer(R"({"type": "Replace", "pattern": {"Other": "a"}, "content": ""})"), Contains("is neither"));
  CHECK_THAT(normalizer(R"({"type": "Strip", "strip_left": "yes"})"), Contains("\"strip_left\" is neither true nor false"));
  CHECK_THAT(pre_tokenizer(R"({"type": "UnicodeScripts"})"),
             Contains("pre_tokenizer UnicodeScripts: this type of pre_tokenizer is not supported"));
  CHECK_THAT(pre_tokenizer(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})"),
             Contains("pre_tokenizer Digits: follows ByteLevel"));
  CHECK_THAT(pre_tokenizer(R"({"type": "Split", "pattern": "a", "behavior": "Sideways"})"), Contains("the behavior is not"));
  CHECK_THAT(pre_tokenizer(R"({"type": "Metaspace", "replacement": "ab"})"), Contains("\"replacement\" is not one character"));
  CHECK_THAT(pre_tokenizer(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})"),
             Contains("is not always, first or never"));
  CHECK_THAT(split("[a-z&&[^b]]"), Contains("&& between brackets in the regular expression"));
  CHECK_THAT(split("[a[bc]]"), Contains("a bracket within brackets"));
  CHECK_THAT(split("\\\\bword"), Contains("\\b in the regular expression"));
  CHECK_THAT(split("a{1,3}+"), Contains("a + after {}"));
  CHECK_THAT(split("(?R)"), Contains("(?R in the regular expression"));
  CHECK_THAT(split("[a"), Contains("is not one that can be read"));
  CHECK_THAT(split(std::string(20'000, 'a')), Contains("at most 16384 are read"));
  CHECK_THAT(error_with(R"("decoder": {"type": "CTC"})"), Contains("decoder CTC: this type of decoder is not supported"));
  CHECK_THAT(error_with(R"("decoder": {"type": "Strip", "content": "a", "start": -1, "stop": 0})"),
             Contains("\"start\" is not an integer"));
  CHECK_THAT(post_processor(R"({"type": "Other"})"),
             Contains("post_processor Other: this type of post_processor is not supported"));
  CHECK_THAT(
      post_processor(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": {}})"),
      Contains("has no ids for x"));
  CHECK_THAT(post_processor(R"({"type": "TemplateProcessing", "single": []})"), Contains("has no Sequence A"));
  CHECK_THAT(post_processor(R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}]})"),
             Contains("around one Sequence A only"));
  CHECK_THAT(post_processor(R"({"type": "RobertaProcessing", "sep": ["a", 0], "cls": ["x", 7]})"),
             Contains("its token 7 is neither"));
}

TEST_CASE("wrong added tokens are named") {
  CHECK_THAT(error_with(R"("added_tokens": 3)"), Contains("\"added_tokens\" is not an array"));
  CHECK_THAT(error_with(R"("added_tokens": [{"id": -1, "content": "x"}])"),
             Contains("\"added_tokens\" has an element that is not an object"));
  CHECK_THAT(error_with(R"("added_tokens": [{"id": 3000000, "content": "x"}])"),
             Contains("the id of the added token x is above"));
}

TEST_CASE("files next to a tokenizer are checked too") {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) { return folder.write(name, text); };
  CHECK_THAT(tokenizer_error(folder, write("a/vocab.json", R"({"a": 0, "b": 1})")),
             StartsWith("a/merges.txt: cannot be opened"));
  write("a/merges.txt", "#version: 0.2\na b c\n");
  CHECK_THAT(tokenizer_error(folder, folder.path() / "a"), StartsWith("a/merges.txt:2: a merge is not two pieces"));
  write("a/merges.txt", "#version: 0.2\na b\n");
  CHECK_THAT(tokenizer_error(folder, folder.path() / "a"), Contains("merge 0 (a b): the vocabulary has no ab"));
  write("b/merges.txt", "a b\n");
  CHECK_THAT(tokenizer_error(folder, write("b/vocab.json", "[1]")), Contains("not a JSON object"));
  write("c/tokenizer.json", "{" + model + "}");
  write("c/tokenizer_config.json", R"({"eos_token": "</end>"})");
  CHECK(open_tokenizer(folder.path() / "c")->end_of_text() == 3);
  write("c/tokenizer_config.json", R"({"eos_token": 3})");
  CHECK_THAT(tokenizer_error(folder, folder.path() / "c"), StartsWith("c/tokenizer_config.json: \"eos_token\" is neither"));
  CHECK_THAT(tokenizer_error(folder, write("d/tokenizer.model", "no model")),
             StartsWith("d/tokenizer.model: is not a readable sentencepiece model"));
  CHECK_THAT(tokenizer_error(folder, write("e/tokenizer.model", "")),
             StartsWith("e/tokenizer.model: is not a readable sentencepiece model"));
  CHECK_THAT(tokenizer_error(folder, folder.path() / "none"), Contains("there is no such file or folder"));
}

TEST_CASE("vocab.json with merges.txt is GPT-2's tokenizer") {
  const TempFolder folder;
  folder.write("vocab.json",
               "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3, \"\xC4\xA0"
               "ab\": 4, \"<|endoftext|>\": 5}");
  folder.write("merges.txt", "#version: 0.2\na b\n\xC4\xA0 ab\n");
  const auto tokenizer = open_tokenizer(folder.path());
  CHECK(tokenizer->encode("ab ab<|endoftext|>ba") == std::vector<std::int32_t>{2, 4, 5, 1, 0});
  CHECK(tokenizer->decode(std::vector<std::int32_t>{2, 4, 5}, SpecialTokens::leave_out) == "ab ab");
  CHECK(tokenizer->end_of_text() == 5);
}
