// torchtitan's job configuration TOML, by its job_config.py. What several keys mean together is settled in foreign_config.cpp.
#include "apps/foreign/foreign_keys.hpp"

namespace pipetrain {

namespace {

using enum ForeignRule;

constexpr ForeignKey keys[] = {
    {"job.dump_folder", holds, "checkpoint.folder and metrics.save_tb_folder lie in it"},
    {"job.*", holds, "words for people"},
    {"profiling.enable_profiling", holds_for, "traces are --trace FILE; give that and leave it out", "off"},
    {"profiling.enable_memory_snapshot", holds_for, "memory is told by --dry-run and --report; leave it out", "off"},
    {"profiling.*", holds, "for profiles"},
    {"metrics.log_freq", maps, "log-interval"},
    {"metrics.enable_tensorboard", holds, "metrics.save_tb_folder asks for it"},
    {"metrics.save_tb_folder", maps, "tensorboard"},
    {"metrics.enable_wandb", holds_for, "nothing is sent over the network; leave it out", "off"},
    {"metrics.*", holds, "how lines look"},

    {"model.name", maps, "model"},
    {"model.tokenizer_path", maps, "tokenizer"},
    {"model.hf_assets_path", maps, "tokenizer"},
    {"model.converters", holds_for, "converters of the model are not built; leave it out", "[]"},
    {"model.print_after_conversion", holds, "nothing is converted"},
    {"optimizer.name", holds_for, "the optimizer is AdamW; use that", "adamw"},
    {"optimizer.lr", maps, "lr"},
    {"optimizer.beta1", maps, "beta1"},
    {"optimizer.beta2", maps, "beta2"},
    {"optimizer.eps", maps, "adam-eps"},
    {"optimizer.weight_decay", maps, "weight-decay"},
    {"optimizer.implementation", holds, "one implementation"},
    {"optimizer.early_step_in_backward", holds_for, "the optimizer steps after the norm is known; leave it out", "off"},
    {"lr_scheduler.warmup_steps", maps, "warmup-steps"},
    {"lr_scheduler.decay_type", words, "lr-schedule", "linear:linear cosine:cosine"},
    {"lr_scheduler.decay_ratio", holds_for, "the rate decays over all steps after the warm-up; leave it out", "1"},
    {"lr_scheduler.min_lr_factor", maps, "min-lr"},

    {"training.dataset", refused, "data is files here: give --data PATH", "data"},
    {"training.dataset_path", maps, "data"},
    {"training.local_batch_size", maps, "microbatch"},
    {"training.global_batch_size", maps, "global-batch"},
    {"training.seq_len", maps, "seq-len"},
    {"training.max_norm", maps, "clip-grad"},
    {"training.steps", maps, "steps"},
    {"training.seed", maps, "seed"},
    {"training.deterministic", maps, "deterministic"},
    {"training.dtype", holds_for, "master weights are fp32; leave it out", "float32"},
    {"training.mixed_precision_param", words, "precision", "bfloat16:bf16 float32:fp32"},
    {"training.mixed_precision_reduce", holds_for, "gradients are summed in fp32; leave it out", "float32"},
    {"training.enable_cpu_offload", when_on, "offload=optimizer,parameters"},
    {"training.compile", holds, "nothing is compiled at run time"},
    {"training.gc_freq", holds, "there is no garbage collector"},
    {"training.gc_debug", holds, "there is no garbage collector"},
    {"debug.seed", maps, "seed"},
    {"debug.deterministic", maps, "deterministic"},
    {"debug.*", holds_for, "is not built; leave it out", "off"},

    {"parallelism.pipeline_parallel_degree", maps, "pp"},
    {"parallelism.tensor_parallel_degree", maps, "tp"},
    {"parallelism.data_parallel_replicate_degree", maps, "dp"},
    {"parallelism.data_parallel_shard_degree", holds, "settled with the other degrees"},
    {"parallelism.pipeline_parallel_schedule", maps, "schedule"},
    {"parallelism.pipeline_parallel_schedule_csv", maps, "schedule"},
    {"parallelism.pipeline_parallel_layers_per_stage", refused,
     "stages are cut by cost, and --chunks says how many parts each has; give that", "chunks"},
    {"parallelism.pipeline_parallel_split_points", holds_for, "stages are cut by cost; leave it out", "[]"},
    {"parallelism.pipeline_parallel_*", holds, "stages are cut by cost"},
    {"parallelism.context_parallel_degree", holds_for, "context parallelism is not built yet; leave it out", "1"},
    {"parallelism.expert_parallel_degree", holds_for, "expert parallelism is not built yet; leave it out", "1"},
    {"parallelism.expert_tensor_parallel_degree", holds_for, "expert parallelism is not built yet; leave it out", "1"},
    {"parallelism.*", holds, "automatic"},

    {"checkpoint.enable", holds, "checkpoint.folder asks for it"},
    {"checkpoint.enable_checkpoint", holds, "checkpoint.folder asks for it"},
    {"checkpoint.folder", maps, "save"},
    {"checkpoint.interval", maps, "save-interval"},
    {"checkpoint.interval_type", holds_for, "intervals are in steps; use that", "steps"},
    {"checkpoint.keep_latest_k", maps, "save-keep"},
    {"checkpoint.initial_load_path", maps, "load"},
    {"checkpoint.load_step", holds_for, "a checkpoint is --load DIR; give that and leave it out", "-1"},
    {"checkpoint.exclude_from_loading", holds_for, "checkpoints are loaded whole; leave it out", "[]"},
    {"checkpoint.*", holds, "checkpoints are whole, and the model is saved at the end"},
    {"activation_checkpoint.mode", words, "recompute", "none:none selective:selective full:full"},
    {"activation_checkpoint.*", holds, "selective has one meaning here: docs/architecture.md"},
    {"compile.*", holds, "nothing is compiled at run time"},
    {"comm.*", holds, "a step that makes no progress is ended by --stall-timeout"},
    {"float8.*", refused, "fp8 is not built yet; leave it out"},
    {"quantize.*", refused, "fp8 is not built yet; leave it out"},
    {"mx.*", refused, "fp8 is not built yet; leave it out"},
    {"validation.enable", holds, "the other keys ask for evaluations"},
    {"validation.dataset", refused, "data is files here: give --eval-data PATH", "eval-data"},
    {"validation.dataset_path", maps, "eval-data"},
    {"validation.freq", maps, "eval-interval"},
    {"validation.steps", holds_for, "an evaluation takes all of its data; leave it out", "-1"},
    {"validation.local_batch_size", holds, "an evaluation has the batches of training"},
    {"validation.*", refused, "an evaluation has the sequences of training; leave it out"},
    {"fault_tolerance.*", refused, "torchft is not built; leave it out"},
    {"memory_estimation.*", refused, "--dry-run tells the memory; leave it out"},
    {"experimental.*", refused, "is Python's; leave it out"},
};

}  // namespace

std::span<const ForeignKey> torchtitan_keys() { return keys; }

}  // namespace pipetrain
