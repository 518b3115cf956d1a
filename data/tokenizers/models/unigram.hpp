// The unigram language model (Kudo 2018): the most probable way to cut a word into pieces. Internal to data/.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/tokenizers/models/token_model.hpp"
#include "data/tokenizers/text/piece_trie.hpp"
#include "data/tokenizers/text/vocabulary.hpp"

namespace pipetrain {

// As Hugging Face's library and sentencepiece compute it: a character that is not a piece costs 10 more than the worst
// piece, and consecutive ones become one unknown. Takes time linear in the word for pieces of bounded length.
class Unigram : public TokenModel {
 public:
  struct Options {
    std::optional<std::int32_t> unknown;
    bool byte_fallback = false;  // unknown text becomes the pieces <0x00> ... <0xFF>, if all exist
  };
  // `scores` are log probabilities by id.
  Unigram(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores, Options options);

  std::unique_ptr<Scratch> scratch() const override;
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const override;

 private:
  struct Memory;
  void find_best_path(std::string_view word, Memory& memory) const;
  void put(std::string_view text, std::int32_t id, std::vector<std::int32_t>& ids) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<double> scores_;
  Options options_;
  double unknown_score_ = 0;
  std::vector<std::int32_t> of_byte_;  // 256 ids; empty without byte_fallback or if one is missing
  PieceTrie trie_;
};

}  // namespace pipetrain
