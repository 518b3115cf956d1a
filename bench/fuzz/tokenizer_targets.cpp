#include <cstring>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "data/tokenizers/hugging_face_tokenizer.hpp"
#include "data/tokenizers/transforms/charsmap.hpp"

namespace pipetrain::fuzz {
namespace {

const std::vector<std::string> tokenizer_words = {
    R"({"type":"ByteLevel","add_prefix_space":true})",
    R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})",
    R"({"type":"Split","pattern":{"Regex":"\\s+|a*?"},"behavior":"Removed","invert":true})",
    R"({"type":"Replace","pattern":{"String":"a"},"content":"bb"})",
    R"({"type":"NFKC"})",
    R"({"type":"BertNormalizer","lowercase":false,"strip_accents":true})",
    R"({"type":"BertPreTokenizer"})",
    R"("precompiled_charsmap":"BAAAAAAAAAA=")",
    R"({"type":"Strip","content":"a","start":1,"stop":1})",
    R"({"type":"Digits","individual_digits":false})",
    R"({"type":"RobertaProcessing","sep":["b",1],"cls":["a",0]})",
    R"(["ab",-2.5])",
    R"(["a","b"])",
    "\"byte_fallback\":true",
    "\"ignore_merges\":true",
    "\"end_of_word_suffix\":\"b\"",
    "\"continuing_subword_prefix\":\"a\"",
    "(?i:a|b)+",
    "\\\\p{L}{1,3}",
    "[^\\\\s\\\\w]"};

// An accepted tokenizer must encode and decode, and its ids must be below its vocabulary.
void use_tokenizer(const Tokenizer& tokenizer) {
  for (const std::string_view text :
       {"", "ab aab b1 <s>\n", "\xC3\xA9\xCC\x81 \xF0\x9F\x98\x80 \xFF\xE2\x96\x81", "aaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocabulary()) throw std::logic_error("an id outside of the vocabulary");
    tokenizer.decode(ids, SpecialTokens::leave_out);
  }
}

std::string file_of(const std::string& normalizer, const std::string& pre_tokenizer, const std::string& decoder,
                    const std::string& model) {
  return R"({"version":"1.0","added_tokens":[{"id":5,"content":"<s>","single_word":false,"lstrip":true,"rstrip":false,)"
         R"("normalized":true,"special":true}],"normalizer":)" +
         normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
         R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
         R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[5]}}},"decoder":)" +
         decoder + R"(,"model":)" + model + "}";
}

// Returns a table with one rule: a becomes b.
std::string one_rule() {
  std::vector<std::uint32_t> units(98);
  units['a'] = ('a' ^ 1U) << 10 | 1U << 8 | 'a';
  units[1] = 1U << 31;
  const auto size = static_cast<std::uint32_t>(units.size() * sizeof(std::uint32_t));
  std::string bytes(sizeof size + size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + sizeof size, units.data(), size);
  return bytes + "b" + '\0';
}

void use_rules(std::string_view bytes) {
  const Json type = Json::object({{"type", "Precompiled"}});
  const Charsmap rules(bytes, Component("tokenizer.json", "normalizer", type));
  std::string text(1, '\0');
  for (int first = 0; first < 256; ++first) {
    text[0] = static_cast<char>(first);
    for (const char* rest : {"", "\x80", "a", "\xCC\x81\xCC\x81"}) {
      const char* found = rules.find(text + rest);
      if (found != nullptr && std::strlen(found) > bytes.size()) throw std::logic_error("a text outside of the table");
    }
  }
}

}  // namespace

std::vector<Target> tokenizer_targets() {
  const std::string bpe =
      R"({"type":"BPE","unk_token":"a","fuse_unk":true,"vocab":{"a":0,"b":1,"ab":2,"<0x41>":3,"_":4},"merges":["a b"]})";
  const std::string unigram =
      R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.5],["ab",-2],["_",-3e0],["_a",-1]]})";
  Target json{"tokenizer",
              {},
              tokenizer_words,
              [](std::string_view input) { use_tokenizer(*tokenizer_from_json(input, "tokenizer.json", {})); },
              nullptr};
  json.seeds = {
      file_of("null",
              R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":" ?\\p{L}+|\\s+(?!\\S)|\\s+"},)"
              R"("behavior":"Isolated","invert":false},{"type":"ByteLevel","use_regex":false}]})",
              R"({"type":"ByteLevel"})", bpe),
      file_of(
          R"({"type":"Sequence","normalizers":[{"type":"Nmt"},{"type":"NFKC"},{"type":"Lowercase"},{"type":"Prepend","prepend":"_"}]})",
          "null", R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]})", bpe),
      file_of(R"({"type":"Strip","strip_left":true,"strip_right":true})",
              R"({"type":"Metaspace","replacement":"_","prepend_scheme":"always","split":true})",
              R"({"type":"Metaspace","replacement":"_","prepend_scheme":"always"})", unigram),
      // In the style of Qwen's files, and of Gemma's.
      file_of(
          R"({"type":"NFC"})",
          R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|)"
          R"(\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+"},"behavior":"Isolated","invert":false},)"
          R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}]})",
          R"({"type":"ByteLevel","add_prefix_space":false})", bpe),
      file_of(
          R"({"type":"Replace","pattern":{"String":" "},"content":"_"})",
          R"({"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false})",
          R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},{"type":"ByteFallback"},)"
          R"({"type":"Fuse"}]})",
          R"({"type":"BPE","byte_fallback":true,"fuse_unk":true,"unk_token":"a","vocab":{"a":0,"b":1,"ab":2,"<0x41>":3,"_":4},)"
          R"("merges":[["a","b"]]})")};
  Target merges{"merges", {}, {"a b\n", "#version: 0.2\n", "\"ab\": 3,"}, nullptr, nullptr};
  merges.seeds = {"{\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3, \"<|endoftext|>\": 4}\x01#version: 0.2\na b\n"};
  merges.run = [](std::string_view input) {
    const std::size_t cut = std::min(input.find('\x01'), input.size());
    use_tokenizer(*tokenizer_from_merges(
        {input.substr(0, cut), input.substr(std::min(cut + 1, input.size())), "vocab.json", "merges.txt"}, {}));
  };
  return {json, merges, {"charsmap", {one_rule()}, {}, use_rules, nullptr}};
}

}  // namespace pipetrain::fuzz
