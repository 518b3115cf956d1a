#include "model/families/keys/silent_keys.hpp"

namespace pipetrain {
namespace {

constexpr const char* keys[] = {
    // How the file was made.
    "_name_or_path", "name_or_path", "architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "auto_map",
    "tokenizer_class", "unsloth_version", "unsloth_fixed", "transformers.js_config", "_commit_hash", "is_llama_config",
    "model_name", "license",
    // Keys of heads and their labels, which are read where the model has such a head.
    "id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "predict_special_tokens",
    "classifier_dropout", "classifier_bias", "classifier_activation",
    // Keys of special tokens and of generating text.
    "vocab_size", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id", "prefix",
    "use_cache", "cache_implementation", "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping",
    "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "output_scores", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "max_sequence_length", "boi_token_index", "eoi_token_index",
    // How outputs are returned and how programs compute.
    "output_attentions", "output_hidden_states", "return_dict", "return_dict_in_generate", "torchscript", "use_bfloat16",
    "tf_legacy_loss", "chunk_size_feed_forward", "gradient_checkpointing", "pretraining_tp", "base_model_tp_plan",
    "attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_flash_attn_2_enabled", "use_flash_attention_2", "tie_encoder_decoder", "is_encoder_decoder", "is_decoder",
    "cross_attention_hidden_size", "n_ctx", "initializer_range"};

}  // namespace

std::span<const char* const> silent_keys() { return keys; }

}  // namespace pipetrain
