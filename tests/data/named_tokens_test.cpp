// Tokens that the files next to a tokenizer name have the ids of transformers 5.24, which gave the ids here, or are refused.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/byte_level_file.hpp"
#include "data/input_error.hpp"
#include "data/open_dataset.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "paths.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

using Ids = std::vector<std::int32_t>;

// Returns the members of a special added token, with these further ones.
std::string named(const char* content, const std::string& further = "") {
  return std::string(R"({"content": ")") + content + "\"" + further + "}";
}

const std::string special = R"(, "lstrip": false, "rstrip": false, "single_word": false, "normalized": false, "special": true)";

struct Beside {
  std::string config = "", map = "", added = "";  // the contents of the three files; empty: the file does not exist
};

void write_beside(const TempFolder& folder, const Beside& files) {
  folder.write("tokenizer.json", test::byte_level_file());
  if (!files.config.empty()) folder.write("tokenizer_config.json", files.config);
  if (!files.map.empty()) folder.write("special_tokens_map.json", files.map);
  if (!files.added.empty()) folder.write("added_tokens.json", files.added);
}

Ids ids_with(const Beside& files, const std::string& text = "A<new>b") {
  const TempFolder folder;
  write_beside(folder, files);
  return open_tokenizer(folder.path())->encode(text);
}

std::string error_beside(const Beside& files) {
  const TempFolder folder;
  write_beside(folder, files);
  return test::input_error(folder, [&] { open_tokenizer(folder.path()); });
}

const Ids added = {65, 258, 98}, plain = {65, 60, 110, 101, 119, 62, 98};

}  // namespace

TEST_CASE("tokens that tokenizer_config.json names are added") {
  CHECK(ids_with({}) == plain);
  CHECK(ids_with({R"({"added_tokens_decoder": {"258": )" + named("<new>", special) + "}}"}) == added);
  CHECK(ids_with({R"({"additional_special_tokens": ["<new>"]})"}) == added);
  CHECK(ids_with({R"({"additional_special_tokens": [)" + named("<new>", R"(, "__type": "AddedToken")") + "]}"}) == added);
  CHECK(ids_with({R"({"extra_special_tokens": ["<new>"]})"}) == added);
  CHECK(ids_with({R"({"extra_special_tokens": {"image_token": "<new>"}})"}) == added);
  CHECK(ids_with({R"({"extra_special_tokens": [], "additional_special_tokens": ["<new>"]})"}) == added);
  CHECK(ids_with({R"({"extra_special_tokens": ["<x>"], "additional_special_tokens": ["<new>"]})"}) == plain);
  CHECK(ids_with({R"({"eos_token": "<new>"})"}) == added);
  CHECK(ids_with({R"({"pad_token": "<new>", "eos_token": "<|im_end|>"})"}) == added);
  CHECK(ids_with({R"({"image_token": "<new>"})"}) == added);
  CHECK(ids_with({R"({"image_token": )" + named("<new>", special) + "}"}) == plain);
  CHECK(ids_with({R"({"pad_token": ""})"}) == plain);
  CHECK(ids_with({R"({"pad_token": null, "additional_special_tokens": null})"}) == plain);
}

TEST_CASE("special_tokens_map.json and added_tokens.json count where tokenizer_config.json gives no ids") {
  CHECK(ids_with({"", R"({"pad_token": "<new>"})"}) == added);
  CHECK(ids_with({"{}", R"({"additional_special_tokens": ["<new>"]})"}) == added);
  CHECK(ids_with({R"({"additional_special_tokens": ["<x>"]})", R"({"additional_special_tokens": ["<new>"]})"}) == plain);
  CHECK(ids_with({R"({"additional_special_tokens": ["<x>"]})", R"({"extra_special_tokens": ["<new>"]})"}, "<x><new>") ==
        Ids{258, 259});
  CHECK(ids_with({R"({"added_tokens_decoder": {}})", R"({"pad_token": "<new>"})"}) == plain);
  CHECK(ids_with({"", "", R"({"<new>": 258})"}) == added);
  CHECK(ids_with({R"({"additional_special_tokens": ["<new>"]})", "", R"({"<new>": 258})"}) == added);
  CHECK(ids_with({R"({"additional_special_tokens": ["<z>"]})", "", R"({"<new>": 259, "<x>": 258})"}, "<x><new><z>") ==
        Ids{258, 259, 260});
  CHECK(ids_with({R"({"added_tokens_decoder": {"258": )" + named("<y>", special) + "}}", "", R"({"<new>": 259})"}) == plain);
  const TempFolder folder;
  write_beside(folder, {R"({"eos_token": "<|im_end|>"})", R"({"eos_token": "<|im_start|>"})"});
  CHECK(open_tokenizer(folder.path())->end_of_text() == 256);
}

TEST_CASE("named tokens are numbered in the order of transformers") {
  CHECK(ids_with({R"({"eos_token": "<new>", "pad_token": "<new>", "bos_token": "<b>"})"}, "<b><new>") == Ids{258, 259});
  CHECK(ids_with({R"({"pad_token": "<new>", "additional_special_tokens": ["<z>", "<y>"], "added_tokens_decoder": {"258": )" +
                  named("<y>", special) + "}}"},
                 "<y><new><z>") == Ids{258, 259, 260});
  CHECK(ids_with({R"({"additional_special_tokens": ["<x>", "<new>", "<x>"]})"}, "<x>A<new>b") == Ids{258, 65, 259, 98});
  CHECK(ids_with({R"({"pad_token": "a"})"}, "aab") == Ids{97, 97, 98});
  CHECK(ids_with({R"({"extra_special_tokens": {"image_token": "<x>", "further": "<y>"}})",
                  R"({"image_token": "<y>", "audio_token": )" + named("<a>") + "}"},
                 "<x><y><a>") == Ids{258, 260, 259});
}

TEST_CASE("the flags of named tokens hold") {
  const auto with = [](const std::string& flags) {
    return Beside{R"({"added_tokens_decoder": {"258": )" + named("<new>", flags) + "}}"};
  };
  CHECK(ids_with(with(R"(, "lstrip": true, "rstrip": true, "special": true)"), "A  <new>  b") == added);
  CHECK(ids_with(with(R"(, "single_word": true, "special": true)")) == plain);
  CHECK(ids_with({R"({"eos_token": )" + named("<new>", R"(, "__type": "AddedToken", "lstrip": true)") + "}"}, "A <new>b") ==
        added);
  CHECK(ids_with({"", R"({"pad_token": )" + named("<new>", R"(, "lstrip": true)") + "}"}, "A <new>b") == added);
  const auto of_end = [](const std::string& flags) {
    return Beside{R"({"added_tokens_decoder": {"257": )" + named("<|im_end|>", flags) + "}}"};
  };
  CHECK(ids_with(of_end(R"(, "lstrip": true, "normalized": false, "special": true)"), "A  <|im_end|>b") == Ids{65, 257, 98});
  CHECK(ids_with(of_end(R"(, "normalized": false, "special": false)"), "A  <|im_end|>b") == Ids{65, 32, 32, 257, 98});

  const TempFolder folder;
  write_beside(folder, {"", "", R"({"<new>": 258})"});
  const auto tokenizer = open_tokenizer(folder.path());
  CHECK(tokenizer->vocabulary() == 259);
  CHECK(tokenizer->decode(added, SpecialTokens::leave_out) == "A<new>b");
  CHECK(tokenizer->decode(Ids{65, 257, 98}, SpecialTokens::leave_out) == "Ab");
}

TEST_CASE("the checksum of a tokenizer counts the tokens that were added") {
  const auto content = [](const Beside& files) {
    const TempFolder folder;
    write_beside(folder, files);
    return open_tokenizer(folder.path())->content();
  };
  const std::uint64_t usual = content({});
  CHECK(content({R"({"eos_token": "<|im_end|>", "model_max_length": 8})"}) == usual);
  CHECK(content({R"({"pad_token": "<new>"})"}) != usual);
  CHECK(content({R"({"pad_token": "<new>"})"}) != content({R"({"pad_token": "<other>"})"}));
}

TEST_CASE("ids of added tokens that the library would not give are refused") {
  const auto decoder = [](const std::string& id, const char* content) {
    return Beside{R"({"added_tokens_decoder": {")" + id + "\": " + named(content, special) + "}}"};
  };
  CHECK_THAT(error_beside(decoder("300", "<new>")),
             StartsWith("tokenizer_config.json: the added token <new> has the id 300 there, but 258 in Hugging"));
  CHECK_THAT(error_beside(decoder("257", "<new>")),
             StartsWith("tokenizer_config.json: the added tokens <|im_end|> and <new> have the same id 257; "));
  CHECK_THAT(error_beside(decoder("256", "<|im_end|>")),
             Contains("the added tokens <|im_start|> and <|im_end|> have the same id"));
  CHECK_THAT(error_beside(decoder("98", "a")), Contains("the added token a has the id 98 there, but 97"));
  CHECK_THAT(error_beside(decoder("x", "<new>")), Contains("the id of the added token <new>, x, is not an integer from 0 to"));
  CHECK_THAT(error_beside({"", "", R"({"<new>": 257})"}),
             StartsWith("added_tokens.json: the added tokens <|im_end|> and <new>"));
  CHECK_THAT(error_beside({"", "", R"({"<new>": "258"})"}), Contains("is not an integer"));
  const auto of_file = [](const std::string& tokens) {
    const TempFolder folder;
    folder.write("t.json", test::byte_level_file("", tokens));
    return test::input_error(folder, [&] { open_tokenizer(folder.path() / "t.json"); });
  };
  CHECK_THAT(of_file(test::special_token(256, "<a>") + ", " + test::special_token(256, "<b>")),
             StartsWith("t.json: the added tokens <a> and <b> have the same id 256; "));
  CHECK_THAT(of_file(test::special_token(300, "<a>")), Contains("the added token <a> has the id 300 there, but 256"));
  CHECK_THAT(of_file(test::special_token(97, "<a>")), Contains("the added token <a> has the id 97 there, but 256"));
  CHECK(of_file(test::special_token(97, "a")) == "no error");
}

TEST_CASE("named tokens of another kind are refused with their key") {
  CHECK_THAT(error_beside({R"({"eos_token": 5})"}), StartsWith("tokenizer_config.json: \"eos_token\" is neither a string nor"));
  CHECK_THAT(error_beside({R"({"pad_token": {"content": 5}})"}), Contains("\"pad_token\" is neither"));
  CHECK_THAT(error_beside({R"({"additional_special_tokens": "<new>"})"}),
             Contains("\"additional_special_tokens\" is not an array"));
  CHECK_THAT(error_beside({R"({"additional_special_tokens": [5]})"}), Contains("\"additional_special_tokens\" is neither"));
  CHECK_THAT(error_beside({R"({"added_tokens_decoder": null})"}), Contains("\"added_tokens_decoder\" is not an object of ids"));
  CHECK_THAT(error_beside({R"({"added_tokens_decoder": {"258": "<new>"}})"}),
             Contains("\"added_tokens_decoder\" is not an object"));
  CHECK_THAT(error_beside({"", "[]"}), StartsWith("special_tokens_map.json: not a JSON object"));
  CHECK_THAT(error_beside({R"({"split_special_tokens": true})"}), Contains("\"split_special_tokens\" is not supported"));
  CHECK(error_beside({R"({"split_special_tokens": false})"}) == "no error");
}

TEST_CASE("a model needs no tokens that only files next to the tokenizer name, except those in the texts") {
  const TempFolder folder;
  write_beside(folder, {R"({"pad_token": "<new>"})"});
  DatasetOptions options;
  options.tokenizer = folder.path();
  options.sequence_length = 2;
  const auto error = [&](const std::string& name, const std::string& text, std::int64_t vocabulary) {
    options.vocabulary = vocabulary;
    options.inputs.clear();
    if (!name.empty()) options.inputs = {{folder.write(name, text), std::nullopt}};
    return test::input_error(folder, [&] { open_dataset(options); });
  };
  const std::string why = "the text has the token <new> with the id 258, but the model's vocabulary has 258; leave the token ";
  CHECK(open_tokenizer(folder.path())->own_vocabulary() == 258);
  CHECK(error("a.txt", "some text", 258) == "no error");
  CHECK(error("", "", 258) == "no error");
  CHECK_THAT(error("a.txt", "A<new>b", 258), StartsWith("a.txt: " + why));
  CHECK_THAT(error("a.jsonl", "{\"text\": \"abcd\"}\n{\"text\": \"A<new>b\"}\n", 258), StartsWith("a.jsonl:2: " + why));
  CHECK_THAT(error("b.jsonl", R"({"prompt": "A", "response": "<new>"})", 258), StartsWith("b.jsonl:1: " + why));
  CHECK(error("a.txt", "A<new>b", 259) == "no error");
  CHECK_THAT(error("a.txt", "some text", 257), Contains("its ids go up to 257, but the model's vocabulary has 257"));
  folder.write("tokenizer_config.json", R"({"eos_token": "<new>"})");
  CHECK_THAT(error("a.txt", "some text", 258), Contains("its token <new>, which begins or ends texts, has the id 258"));
  CHECK_THAT(error("", "", 258), Contains("its token <new>, which begins or ends texts, has the id 258"));
}

TEST_CASE("files in UTF-16 are named as such") {
  const std::string utf16("\xFF\xFE{\0}\0", 6);
  CHECK(error_beside({utf16}) ==
        "tokenizer_config.json: is text in UTF-16, by its byte-order mark; convert it to UTF-8, for example "
        "with iconv -f UTF-16 -t UTF-8");
  CHECK_THAT(error_beside({"", "", std::string("\xFE\xFF\0{", 4)}), StartsWith("added_tokens.json: is text in UTF-16"));
  const TempFolder folder;
  const auto error_of = [&](const char* name) {
    return test::input_error(folder, [&] { open_tokenizer(folder.path() / name); });
  };
  folder.write("tokenizer.json", utf16);
  CHECK_THAT(error_of("tokenizer.json"), StartsWith("tokenizer.json: is text in UTF-16"));
  folder.write("vocab.json", std::string("\xFF\xFE\0\0{\0\0\0", 8));
  folder.write("merges.txt", utf16);
  CHECK_THAT(error_of("vocab.json"), StartsWith("vocab.json: is text in UTF-32"));
  folder.write("vocab.json", test::byte_vocabulary());
  CHECK_THAT(error_of("vocab.json"), StartsWith("merges.txt: is text in UTF-16"));
}

TEST_CASE("the tokenizer of vocab.json and merges.txt has the tokens of the files next to it") {
  const TempFolder folder;
  std::string vocabulary = test::byte_vocabulary();
  vocabulary.insert(vocabulary.size() - 1, R"(, "<|endoftext|>": 256)");
  folder.write("vocab.json", vocabulary);
  folder.write("merges.txt", "#version: 0.2\n");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  folder.write("added_tokens.json", R"({"<new>": 257})");
  const auto ids = [&](const std::string& text) { return open_tokenizer(folder.path())->encode(text); };
  CHECK(ids("A<new>b") == Ids{65, 257, 98});
  CHECK(open_tokenizer(folder.path())->end_of_text() == 256);
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true, "add_bos_token": true})");
  CHECK(ids("a") == Ids{256, 32, 97});
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  CHECK_THAT(test::input_error(folder, [&] { ids("a"); }),
             StartsWith("tokenizer_config.json: a Qwen2Tokenizer of vocab.json and merges.txt is not supported"));
  folder.write("tokenizer_config.json", "{}");
  folder.write("vocab.json", test::byte_vocabulary());  // without <|endoftext|>, which transformers adds
  folder.write("added_tokens.json", "{}");
  CHECK(ids("A<|endoftext|>") == Ids{65, 256});
}

TEST_CASE("an added token whose letters all stand for bytes decodes to itself") {
  const TempFolder folder;
  folder.write("t.json", test::byte_level_file("", test::special_token(256, "<\xC3\x96>") + ", " +
                                                       R"({"id": 257, "content": "\u00d6l", "special": false})" + ", " +
                                                       test::special_token(233, "\xC3\xA9")));
  const auto tokenizer = open_tokenizer(folder.path() / "t.json");
  const std::string text = "a<\xC3\x96>b\xC3\x96l\xC3\x96\xE9\xBE\x8D";
  CHECK(tokenizer->encode(text) == Ids{97, 256, 98, 257, 195, 150, 233, 190, 141});
  CHECK(tokenizer->decode(tokenizer->encode(text), SpecialTokens::keep) == text);
}

TEST_CASE("a tokenizer.model refuses texts with a token that only the files next to it name") {
  const TempFolder folder;
  std::filesystem::copy_file(std::filesystem::path(test_data()) / "data/tokenizers/fixtures/sentencepiece.model",
                             folder.path() / "tokenizer.model");
  folder.write("added_tokens.json", R"({"<new>": 32000})");
  const auto tokenizer = open_tokenizer(folder.path());
  CHECK(!tokenizer->encode("some text").empty());
  CHECK_THAT(test::input_error(folder, [&] { tokenizer->encode("A<new>b"); }),
             StartsWith("the text has the added token <new>, which is not a piece of the tokenizer.model"));
}
