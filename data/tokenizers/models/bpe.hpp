// Byte-pair encoding (Sennrich et al. 2016), as Hugging Face's library computes it. Internal to data/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/models/merge_table.hpp"
#include "data/tokenizers/models/token_model.hpp"
#include "data/tokenizers/text/vocabulary.hpp"

namespace pipetrain {

struct BpeOptions {
  bool byte_level = false;     // words are bytes, each written as character_of_byte() in the vocabulary; else characters
  bool ignore_merges = false;  // a word that is a piece becomes that piece, whatever the merges say
  bool byte_fallback =
      false;                  // a character that is not a piece becomes the pieces <0x00> ... <0xFF> of its bytes, if all exist
  bool fuse_unknown = false;  // consecutive unknown characters become one
  std::optional<std::int32_t> unknown;  // for characters that are not pieces; nothing: they are left out
  std::string continuing_prefix;        // put before every character of a word except the first, to look it up
  std::string end_suffix;               // put after the last one
};

// Starts from the word's characters and replaces adjacent pairs by their merged piece, the pair of the lowest rank
// first, and the leftmost of several. Short words are searched; long words use a heap: n log n steps.
class Bpe : public TokenModel {
 public:
  Bpe(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options);

  std::unique_ptr<Scratch> scratch() const override;
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const override;
  const PreTokenizer* cuts() const override { return cuts_.get(); }
  void set_cuts(std::unique_ptr<PreTokenizer> cuts) { cuts_ = std::move(cuts); }

 private:
  struct Memory;
  void begin_bytes(std::string_view word, Memory& memory) const;
  void begin_characters(std::string_view word, Memory& memory) const;
  std::optional<std::int32_t> find_character(std::string_view character, bool first, bool last, std::string& buffer) const;
  bool put_bytes(std::string_view character, std::vector<std::int32_t>& symbols) const;
  void merge_short(std::vector<std::int32_t>& symbols) const;
  void merge_long(Memory& memory) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  Vocabulary words_;                         // by their bytes, for ignore_merges with byte_level
  std::array<std::int32_t, 256> of_byte_{};  // ids of bytes, or with byte_fallback of <0x..>; -1: none
  std::unique_ptr<PreTokenizer> cuts_;
};

}  // namespace pipetrain
