"""Training steps of transformers' own models in PyTorch, on one GPU or over pipeline stages: compiled layers, SDPA, fused AdamW,
torch.distributed.pipelining schedules. The peer of the families that torch_llama.py does not have.

    torchrun --nproc_per_node 2 torch_transformers.py --model mistral-7b --layers 16 --pp 2 --gas 16

Parameters, gradients and optimizer state are bf16, which is lighter than fp32 master weights. Gradients are not clipped, and neither
their norm nor the loss is read. Tokens and weights are random. Rank 0 prints the line that torch_llama.py prints.
"""
import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel

from peer_steps import cross_entropy, measure, peak_gib

# The configurations of the published models.
MODELS = {
    "qwen2.5-7b": lambda: transformers.Qwen2Config(
        hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4, intermediate_size=18944,
        vocab_size=152064, rms_norm_eps=1e-6, tie_word_embeddings=False),
    "qwen3-8b": lambda: transformers.Qwen3Config(
        hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        intermediate_size=12288, vocab_size=151936, rms_norm_eps=1e-6, tie_word_embeddings=False),
    "mistral-7b": lambda: transformers.MistralConfig(
        hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336,
        vocab_size=32000, sliding_window=4096, tie_word_embeddings=False),
    "gemma3-4b": lambda: transformers.Gemma3TextConfig(
        hidden_size=2560, num_hidden_layers=34, num_attention_heads=8, num_key_value_heads=4, head_dim=256,
        intermediate_size=10240, vocab_size=262208, sliding_window=1024, query_pre_attn_scalar=256),
    "gpt-oss-20b": lambda: transformers.GptOssConfig(
        hidden_size=2880, num_hidden_layers=24, num_attention_heads=64, num_key_value_heads=8, head_dim=64, intermediate_size=2880,
        num_local_experts=32, num_experts_per_tok=4, vocab_size=201088, sliding_window=128, tie_word_embeddings=False),
    "deepseek-v2-lite": lambda: transformers.DeepseekV2Config(
        hidden_size=2048, num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16, intermediate_size=10944,
        moe_intermediate_size=1408, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1,
        kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, vocab_size=102400,
        tie_word_embeddings=False),
}


def parse_arguments():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="qwen3-8b")
    parser.add_argument("--layers", type=int, default=0, help="keep only the first layers; 0: all")
    parser.add_argument("--pp", type=int, default=1)
    for axis in ("tp", "dp"):
        parser.add_argument(f"--{axis}", type=int, default=1, choices=(1,))
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--mbs", type=int, default=1, help="sequences of a microbatch")
    parser.add_argument("--gas", type=int, default=8, help="microbatches in a step")
    parser.add_argument("--schedule", default="1F1B", help="a class of torch.distributed.pipelining with one stage a rank")
    parser.add_argument("--vpp", type=int, default=1, choices=(1, 2), help="not used: every rank has one stage")
    parser.add_argument("--compile", type=int, default=1)
    parser.add_argument("--attention", choices=("cudnn", "flash", "any", "flex", "eager"),
                        help="any: what SDPA chooses, the default of Gemma, whose windows are masks, and of DeepSeek, whose values are "
                             "narrower than its keys; flex: flex_attention, the default of GPT-OSS; else cudnn")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    if not arguments.attention:
        defaults = {"gemma": "any", "deepseek": "any", "gpt-oss": "flex"}
        arguments.attention = next((kind for name, kind in defaults.items() if arguments.model.startswith(name)), "cudnn")
    return arguments


def configuration(arguments):
    config = MODELS[arguments.model]()
    if arguments.layers:
        config.num_hidden_layers = arguments.layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:arguments.layers]
    config.use_cache = False
    config._attn_implementation = {"flex": "flex_attention", "eager": "eager"}.get(arguments.attention, "sdpa")
    return config


class Stage(torch.nn.Module):
    """The layers of one stage inside transformers' model, with the embedding on the first stage and the head on the last."""

    def __init__(self, whole, first_layer, end_layer, is_first, is_last):
        super().__init__()
        self.base, self.is_first = whole.model, is_first
        self.base.layers = self.base.layers[first_layer:end_layer]
        self.base.config.num_hidden_layers = end_layer - first_layer
        if getattr(self.base.config, "layer_types", None):
            self.base.config.layer_types = self.base.config.layer_types[first_layer:end_layer]
        self.head = whole.lm_head if is_last else None
        if not is_first and not (is_last and whole.config.tie_word_embeddings):
            self.base.embed_tokens = None
        if not is_last:
            self.base.norm = torch.nn.Identity()

    def forward(self, x):
        inputs = {"input_ids": x} if self.is_first else {"inputs_embeds": x}
        hidden = self.base(**inputs, use_cache=False).last_hidden_state
        return hidden if self.head is None else self.head(hidden)


def build_stage(arguments, config, stage, device):
    torch.set_default_dtype(torch.bfloat16)
    with device:
        whole = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=config._attn_implementation, dtype=torch.bfloat16)
    torch.set_default_dtype(torch.float32)
    bounds = [config.num_hidden_layers * at // arguments.pp for at in (stage, stage + 1)]
    part = Stage(whole, *bounds, stage == 0, stage == arguments.pp - 1).train()
    if arguments.compile:
        for layer in part.base.layers:
            layer.compile()
    return part


class Run:
    def __init__(self, arguments, config, stage, device):
        self.arguments = arguments
        self.part = build_stage(arguments, config, stage, device)
        self.parameters = [parameter for parameter in self.part.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-5, fused=True)
        self.loss = torch.compile(cross_entropy) if arguments.compile else cross_entropy
        torch.manual_seed(0)
        size = (arguments.mbs * arguments.gas, arguments.seq)
        self.tokens, self.targets = (torch.randint(0, config.vocab_size, size, device=device) for _ in range(2))
        self.stage, self.schedule = stage, None
        if arguments.pp > 1:
            from torch.distributed.pipelining import PipelineStage
            from torch.distributed.pipelining.schedules import get_schedule_class

            own = PipelineStage(self.part, stage, arguments.pp, device)
            self.schedule = get_schedule_class(arguments.schedule)(own, arguments.gas, loss_fn=self.loss)
        self.attention = {"cudnn": [SDPBackend.CUDNN_ATTENTION], "flash": [SDPBackend.FLASH_ATTENTION],
                          **dict.fromkeys(("any", "flex", "eager"), [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION,
                                                                     SDPBackend.EFFICIENT_ATTENTION])}[arguments.attention]

    def step(self):
        with sdpa_kernel(self.attention):
            if self.schedule:
                last = self.stage == self.arguments.pp - 1
                self.schedule.step(*([self.tokens] if self.stage == 0 else []),
                                   **(dict(target=self.targets, losses=[]) if last else {}))
            else:
                batch = self.arguments.mbs
                for number in range(self.arguments.gas):
                    rows = slice(number * batch, (number + 1) * batch)
                    self.loss(self.part(self.tokens[rows]), self.targets[rows]).backward()
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None


def main():
    arguments = parse_arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world != arguments.pp:
        raise SystemExit(f"torch_transformers: pp takes {arguments.pp} ranks, not {world}")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl", device_id=device)
    config = configuration(arguments)
    run = Run(arguments, config, rank, device)
    seconds = measure(run, arguments.warmup, arguments.steps)
    median = statistics.median(seconds)
    tokens = arguments.mbs * arguments.gas * arguments.seq / median / world
    memory = peak_gib(device, world)
    if rank == 0:
        figures = dict(vars(arguments), layers=config.num_hidden_layers, sec_step=round(median, 4),
                       spread=[round(min(seconds), 4), round(max(seconds), 4)], tok_s_gpu=round(tokens, 1), tflops_gpu=0,
                       mem_gib=memory, torch=torch.__version__, transformers=transformers.__version__)
        print("RESULT " + json.dumps(figures), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
