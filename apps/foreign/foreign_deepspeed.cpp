// DeepSpeed's configuration JSON, as documented at www.deepspeed.ai/docs/config-json.
#include "apps/foreign/foreign_keys.hpp"

namespace pipetrain {

namespace {

using enum ForeignRule;

constexpr ForeignKey deepspeed_table[] = {
    {"train_batch_size", maps, "global-batch"},
    {"train_micro_batch_size_per_gpu", maps, "microbatch"},
    {"gradient_accumulation_steps", maps, "microbatches"},
    {"gradient_clipping", maps, "clip-grad"},
    {"steps_per_print", maps, "log-interval"},
    {"seed", maps, "seed"},

    {"optimizer.type", words, "optimizer",
     "AdamW:adamw Adam:adamw FusedAdam:adamw Lion:lion FusedLion:lion SGD:sgd Adafactor:adafactor"},
    {"optimizer.params.lr", maps, "lr"},
    {"optimizer.params.betas", maps, "beta1 beta2"},
    {"optimizer.params.eps", maps, "adam-eps"},
    {"optimizer.params.momentum", maps, "momentum"},
    {"optimizer.params.nesterov", maps, "nesterov"},
    {"optimizer.params.beta2_decay", maps, "beta2-decay"},
    {"optimizer.params.d", maps, "clip-threshold"},
    {"optimizer.params.weight_decay", maps, "weight-decay"},
    {"optimizer.params.adam_w_mode", holds_for, "weight decay is decoupled (AdamW); leave it out", "on"},
    {"optimizer.params.torch_adam", holds, "one implementation"},
    {"optimizer.params.fused", holds, "one implementation"},
    {"optimizer.params.bias_correction", holds_for, "bias correction is always on; leave it out", "on"},
    {"optimizer.params.amsgrad", holds_for, "AMSGrad is not built; leave it out", "off"},
    {"optimizer.legacy_fusion", holds, "one implementation"},

    {"scheduler.type", words, "lr-schedule", "WarmupLR:constant WarmupDecayLR:linear WarmupCosineLR:cosine"},
    {"scheduler.params.warmup_min_lr", maps, "warmup-init-lr"},
    {"scheduler.params.warmup_min_ratio", holds_for, "the warm-up begins from --warmup-init-lr; give that and leave it out",
     "0 0.0"},
    {"scheduler.params.cos_min_ratio", refused, "the smallest rate is --min-lr here; give it", "min-lr"},
    {"scheduler.params.warmup_max_lr", maps, "lr"},
    {"scheduler.params.warmup_num_steps", maps, "warmup-steps"},
    {"scheduler.params.total_num_steps", maps, "steps"},
    {"scheduler.params.warmup_type", holds_for, "the warm-up is linear here; use that", "linear"},
    {"scheduler.params.last_batch_iteration", holds_for, "runs continue with --resume or --load; leave it out", "-1"},

    {"bf16.enabled", when_on, "precision=bf16", "precision=fp32"},
    {"bf16.*", holds, "gradients are added up in fp32"},
    {"bfloat16.enabled", when_on, "precision=bf16", "precision=fp32"},
    {"bfloat16.*", holds, "gradients are added up in fp32"},
    {"fp16.enabled", when_on, "precision=fp16"},
    {"fp16.loss_scale", maps, "loss-scale"},
    {"fp16.initial_scale_power", words, "loss-scale-initial",
     "0:1 1:2 2:4 3:8 4:16 5:32 6:64 7:128 8:256 9:512 10:1024 11:2048 12:4096 13:8192 14:16384 15:32768 16:65536 17:131072 "
     "18:262144 19:524288 20:1048576 21:2097152 22:4194304 23:8388608 24:16777216 32:4294967296"},
    {"fp16.loss_scale_window", maps, "loss-scale-window"},
    {"fp16.hysteresis", maps, "loss-scale-hysteresis"},
    {"fp16.min_loss_scale", maps, "loss-scale-min"},
    {"fp16.consecutive_hysteresis", holds_for, "overflows count from the last doubling; leave it out", "off"},
    {"fp16.auto_cast", holds, "inputs are token ids"},
    {"fp16.fp16_master_weights_and_grads", holds_for, "master weights and gradients are fp32; leave it out", "off"},
    {"amp.*", refused, "apex's mixed precision is not built; use bf16"},
    {"data_types.grad_accum_dtype", holds_for, "gradients are added up in fp32; leave it out", "fp32"},
    {"fp32_allreduce", holds, "gradients are fp32"},
    {"communication_data_type", holds_for, "gradients are summed in fp32; leave it out", "fp32"},
    {"prescale_gradients", holds_for, "gradients are divided by the batch's target tokens; leave it out", "off"},
    {"gradient_predivide_factor", holds_for, "gradients are divided by the batch's target tokens; leave it out", "1"},
    {"sparse_gradients", holds_for, "sparse gradients are not built; leave it out", "off"},

    {"zero_optimization.stage", maps, "zero"},
    {"zero_optimization.offload_optimizer.device", words, "offload", "none:none cpu:optimizer"},
    {"zero_optimization.offload_param.device", holds_for,
     "weights are offloaded by --offload parameters; give that and leave it out", "none"},
    {"zero_optimization.cpu_offload", when_on, "offload=optimizer"},
    {"zero_optimization.offload_optimizer.*", holds, "automatic"},
    {"zero_optimization.offload_param.*", holds, "automatic"},
    {"zero_optimization.zero_quantized_*", holds_for, "quantized communication is not built; leave it out", "off"},
    {"zero_optimization.mics_*", refused, "MiCS is not built; leave it out"},
    {"zero_optimization.*", holds, "bucket sizes and overlap are automatic"},
    {"zero_allow_untested_optimizer", holds, "all of them are tested"},
    {"zero_force_ds_cpu_optimizer", holds, "one implementation"},

    {"pipeline.stages", maps, "pp"},
    {"pipeline.partition", holds, "stages are cut by cost"},
    {"pipeline.partition_method", holds, "stages are cut by cost"},
    {"pipeline.activation_checkpoint_interval", words, "recompute", "0:none *:full"},
    {"pipeline.seed_layers", holds, "initial weights do not depend on the layout"},
    {"pipeline.pipe_partitioned", holds, "automatic"},
    {"pipeline.grad_partitioned", holds, "automatic"},
    {"tensor_parallel.autotp_size", maps, "tp"},
    {"sequence_parallel_size", holds_for, "DeepSpeed-Ulysses is not built; leave it out", "1"},
    {"activation_checkpointing.partition_activations", holds_for,
     "activations are partitioned by --sequence-parallel; leave it out", "off"},
    {"activation_checkpointing.cpu_checkpointing", holds_for,
     "activations are offloaded by --offload activations; leave it out", "off"},
    {"activation_checkpointing.*", holds, "memory is planned before the run"},

    {"tensorboard.enabled", holds, "tensorboard.output_path turns it on"},
    {"tensorboard.output_path", maps, "tensorboard"},
    {"tensorboard.job_name", holds, "the folder is the output path"},
    {"csv_monitor.*", refused, "metrics are JSON lines: --metrics FILE; leave it out"},
    {"wandb.*", refused, "nothing is sent over the network; leave it out"},
    {"comet.*", refused, "nothing is sent over the network; leave it out"},
    {"flops_profiler.*", holds, "every step reports its TFLOP/s; --profile and --trace report more"},
    {"wall_clock_breakdown", holds, "--trace and --report show it"},
    {"memory_breakdown", holds, "--dry-run and --report show it"},
    {"dump_state", holds, "--dry-run prints the run"},
    {"comms_logger.*", refused, "--trace shows communication; leave it out"},
    {"checkpoint.tag_validation", holds, "checkpoints are named by their step"},
    {"checkpoint.load_universal", holds, "checkpoints do not depend on the layout"},
    {"checkpoint.*", refused, "checkpoints are --save and --save-interval; leave it out"},
    {"gradient_checkpointing", when_on, "recompute=full"},
};

}  // namespace

std::span<const ForeignKey> deepspeed_keys() { return deepspeed_table; }

}  // namespace pipetrain
