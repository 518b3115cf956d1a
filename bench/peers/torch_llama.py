"""Training steps of a Llama in PyTorch over pipeline, tensor and data parallel ranks, as a tuned user runs them: compiled blocks, cuDNN
attention, fused AdamW, torch.distributed.pipelining schedules, DTensor tensor parallelism with sequence-parallel norms, FSDP2 over replicas.

    torchrun --nproc_per_node 2 torch_llama.py --model llama2-7b --layers 16 --pp 2 --gas 16

Parameters, gradients and optimizer state are bf16 without replicas, which is lighter than fp32 master weights; with --dp they are fp32,
sharded, and computed with in bf16; --offload keeps those in host memory, where AdamW runs too. Gradients are not clipped, and neither
their norm nor the loss is looked at but with --report 1. Tokens are random. Rank 0 prints one line: RESULT and a JSON object with the seconds of a
step (median, least and most), tokens/s and model TFLOP/s of one GPU, and the peak GiB of each rank.

Shapes: B sequences of a microbatch, S tokens of a sequence, H hidden size, D head size, V vocabulary.
"""
import argparse
import contextlib
import json
import math
import os
import statistics

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from llama_model import MODELS, Part
from peer_steps import cross_entropy, measure, peak_gib


def parse_arguments():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="llama2-7b")
    parser.add_argument("--layers", type=int, default=0, help="keep only the first layers; 0: all")
    for axis in ("pp", "tp", "dp"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--mbs", type=int, default=1, help="sequences of a microbatch")
    parser.add_argument("--gas", type=int, default=16, help="microbatches of a replica in a step")
    parser.add_argument("--schedule", default="1F1B", help="a class of torch.distributed.pipelining, without Schedule")
    parser.add_argument("--vpp", type=int, default=2, help="chunks of a stage in interleaved schedules")
    parser.add_argument("--async_tp", type=int, default=0, help="1: overlap tensor-parallel communication by symmetric memory")
    parser.add_argument("--offload", type=int, default=0, help="1: FSDP2 with parameters and optimizer on the CPU, also of one rank")
    parser.add_argument("--tied", type=int, default=0, help="1: the head uses the embedding's matrix; one stage, without tensor ranks")
    parser.add_argument("--fp8", type=int, default=0, help="1: the layers' products in 8 bits, by torchao; one scale a tensor")
    parser.add_argument("--compile", type=int, default=1)
    parser.add_argument("--report", type=int, default=0, help="1: every step takes the norm of all gradients and reads the loss; not with tensor ranks or replicas")
    parser.add_argument("--attention", choices=("cudnn", "flash"), default="cudnn")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


# --- Parallelism ---


def virtual_stages(arguments, stage):
    """All virtual stages' number, and those of this stage."""
    pp = arguments.pp
    if arguments.schedule in ("ZBVZeroBubble", "DualPipeV"):
        return 2 * pp, [stage, 2 * pp - 1 - stage]
    if "Interleaved" in arguments.schedule:
        return arguments.vpp * pp, list(range(stage, arguments.vpp * pp, pp))
    return pp, [stage]


def shard_over_tensor_ranks(part, mesh):
    """Column- then row-parallel matrices, norms on shards of the sequence, vocabulary-parallel embedding, head and loss."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)

    ends = {}
    if part.embedding is not None:
        ends["embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    if part.head is not None:
        ends["norm"] = SequenceParallel()
        ends["head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(part, mesh, ends)
    scattered = RowwiseParallel(output_layouts=Shard(1))
    for layer in part.layers.values():
        parallelize_module(layer, mesh, {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None),
                                            desired_input_layouts=(Replicate(), None, None)),
            "attention.query": ColwiseParallel(), "attention.key": ColwiseParallel(), "attention.value": ColwiseParallel(),
            "attention.out": scattered,
            "mlp_norm": SequenceParallel(),
            "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "mlp.gate": ColwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": scattered,
        })


def shard_over_replicas(part, mesh, offload):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    settings = dict(mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
                    reshard_after_forward=offload)
    if offload:
        settings["offload_policy"] = CPUOffloadPolicy()
    for layer in part.layers.values():
        fully_shard(layer, **settings)
    fully_shard(part, **settings)


def multiply_in_fp8(part):
    """torchao's float8 with the scales that pipetrain takes: of each tensor, found when it is made (recipe tensorwise)."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    convert_to_float8_training(part, config=Float8LinearConfig.from_recipe_name("tensorwise"),
                               module_filter_fn=lambda _, name: name.startswith("layers."))


def build_part(arguments, model, virtual, count, mesh, device):
    bounds = [model.layers * at // count for at in (virtual, virtual + 1)]
    with torch.device("meta"):
        part = Part(model, range(*bounds), virtual == 0, virtual == count - 1)
    if arguments.fp8:
        multiply_in_fp8(part)
    if arguments.tp > 1:
        shard_over_tensor_ranks(part, mesh["tp"])
    if arguments.compile:
        for layer in part.layers.values():
            layer.compile(fullgraph=True)
    if arguments.dp > 1 or arguments.offload:
        shard_over_replicas(part, mesh["dp"], bool(arguments.offload))
    else:
        part = part.to(torch.bfloat16)
    part.to_empty(device="cpu" if arguments.offload else device)
    part.initialise(arguments.seq, device)
    return part


def overlap_tensor_parallel(mesh):
    import torch._inductor.config
    from torch.distributed._symmetric_memory import enable_symm_mem_for_group

    torch._inductor.config._micro_pipeline_tp = True
    enable_symm_mem_for_group(mesh.get_group().group_name)


# --- A step ---


class Run:
    def __init__(self, arguments, model, mesh, device):
        self.arguments = arguments
        stage = mesh["pp"].get_local_rank() if mesh else 0
        self.count, self.virtual = virtual_stages(arguments, stage)
        self.parts = [build_part(arguments, model, at, self.count, mesh, device) for at in self.virtual]
        self.parameters = [parameter for part in self.parts for parameter in part.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-5, fused=True)
        # With tensor ranks the logits are DTensors, whose loss does not compile.
        self.loss = torch.compile(cross_entropy) if arguments.compile and arguments.tp == 1 else cross_entropy
        torch.manual_seed(0)
        size = (arguments.mbs * arguments.gas, arguments.seq)
        self.tokens, self.targets = (torch.randint(0, model.vocabulary, size, device=device) for _ in range(2))
        self.schedule = self.make_schedule(mesh, device) if arguments.pp > 1 else None
        self.attention = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[arguments.attention]

    def make_schedule(self, mesh, device):
        from torch.distributed.pipelining import PipelineStage
        from torch.distributed.pipelining.schedules import get_schedule_class

        group = mesh["pp"].get_group()
        stages = [PipelineStage(part, at, self.count, device, group=group) for part, at in zip(self.parts, self.virtual)]
        chosen = get_schedule_class(self.arguments.schedule)
        return chosen(stages[0] if self.count == self.arguments.pp else stages, self.arguments.gas, loss_fn=self.loss)

    def loss_context(self):
        if self.arguments.tp == 1:
            return contextlib.nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel

        return loss_parallel()

    def step(self):
        with self.loss_context(), sdpa_kernel([self.attention]):
            losses = self.pipeline_gradients() if self.schedule else self.gradients()
        if self.arguments.report and not math.isfinite(sum(self.report(losses))):
            raise SystemExit("torch_llama: the loss or a gradient is not finite")
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def report(self, losses):
        """The loss of the step and the norm of all stages' gradients, in every process."""
        norm = torch.nn.utils.get_total_norm([one.grad for one in self.parameters if one.grad is not None])
        loss = torch.stack(losses).double().mean() if losses else torch.zeros((), dtype=torch.float64, device=norm.device)
        both = torch.stack([loss, norm.double().square()])
        if dist.is_initialized():
            dist.all_reduce(both)
        loss, square = both.tolist()
        return loss, math.sqrt(square)

    def pipeline_gradients(self):
        ends = dict(target=self.targets, losses=[]) if self.count - 1 in self.virtual else {}
        self.schedule.step(*([self.tokens] if 0 in self.virtual else []), **ends)
        return ends.get("losses", [])

    def gradients(self):
        losses = []
        batch, last = self.arguments.mbs, self.arguments.gas - 1
        for number in range(self.arguments.gas):
            if self.arguments.dp > 1 or self.arguments.offload:
                self.parts[0].set_requires_gradient_sync(number == last)
            rows = slice(number * batch, (number + 1) * batch)
            losses.append(self.loss(self.parts[0](self.tokens[rows]), self.targets[rows]))
            losses[-1].backward()
        return [one.detach() for one in losses]


def main():
    arguments = parse_arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world != arguments.pp * arguments.tp * arguments.dp:
        raise SystemExit(f"torch_llama: pp x tp x dp takes {arguments.pp * arguments.tp * arguments.dp} ranks, not {world}")
    if arguments.report and world != arguments.pp:
        raise SystemExit("torch_llama: --report 1 is of --tp 1 and --dp 1")
    if arguments.tied and (arguments.pp > 1 or arguments.tp > 1):
        raise SystemExit("torch_llama: --tied 1 is of --pp 1 and --tp 1")
    if arguments.fp8 and arguments.tp > 1:
        raise SystemExit("torch_llama: --fp8 1 is of --tp 1")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    mesh = None
    if world > 1 or arguments.offload:
        dist.init_process_group("cpu:gloo,cuda:nccl" if arguments.offload else "nccl", device_id=device)
        mesh = init_device_mesh("cuda", (arguments.pp, arguments.dp, arguments.tp), mesh_dim_names=("pp", "dp", "tp"))
    if arguments.async_tp and arguments.tp > 1:
        overlap_tensor_parallel(mesh["tp"])
    model = MODELS[arguments.model]
    model.layers = arguments.layers or model.layers
    model.tied = bool(arguments.tied)

    run = Run(arguments, model, mesh, device)
    seconds = measure(run, arguments.warmup, arguments.steps)
    median = statistics.median(seconds)
    tokens = arguments.mbs * arguments.gas * arguments.dp * arguments.seq / median / world
    memory = peak_gib(device, world)
    if rank == 0:
        figures = dict(vars(arguments), layers=model.layers, sec_step=round(median, 4),
                       spread=[round(min(seconds), 4), round(max(seconds), 4)], tok_s_gpu=round(tokens, 1),
                       tflops_gpu=round(tokens * model.flops_per_token(arguments.seq) / 1e12, 1), mem_gib=memory,
                       torch=torch.__version__)
        print("RESULT " + json.dumps(figures), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
