# SentencePiece::sentencepiece: the tokenizers of tokenizer.model. Debian's package comes without a CMake package of its own.
include(PipetrainImport)
pipetrain_import_library(SentencePiece SentencePiece::sentencepiece sentencepiece_processor.h sentencepiece)
