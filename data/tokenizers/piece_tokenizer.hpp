// A tokenizer composed of its parts. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/tokenizers/added_tokens.hpp"
#include "data/tokenizers/models/token_model.hpp"
#include "data/tokenizers/text/pieces.hpp"
#include "data/tokenizers/text/vocabulary.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/tokenizer_config.hpp"
#include "data/tokenizers/transforms/decoders.hpp"
#include "data/tokenizers/transforms/normalizers.hpp"
#include "data/tokenizers/transforms/post_processors.hpp"

namespace pipetrain {

struct TokenizerParts {
  std::vector<AddedToken> added;
  // The number of leading tokens that come from the tokenizer itself rather than from files next to it.
  std::size_t own_added = 0;
  std::vector<std::unique_ptr<TextNormalizer>> normalizers;
  std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;
  std::shared_ptr<const Vocabulary> vocabulary;  // the model's
  std::unique_ptr<TokenModel> model;
  bool byte_level = false;  // the model's words are bytes
  SurroundingTokens around;
  std::vector<std::unique_ptr<PieceDecoder>> decoders;
  bool has_decoder = false;  // otherwise pieces are joined with spaces
  std::uint64_t content = 0;
  TokenizerConfig config;
};

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

}  // namespace pipetrain
