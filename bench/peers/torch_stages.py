"""pipetrain.torch beside torch.distributed.pipelining on GPUs: the same parts of a Llama (torch_llama.py), compiled layer by layer, with the
same attention, loss, optimizer and tokens. Both sides take the norm of all gradients and read the loss in every step; with "bare" after its schedule's
name PyTorch's side does neither, which ours cannot. Ours is one process with a thread a GPU, or with "processes" after a schedule's name a process a GPU and
CUDA IPC; PyTorch's is a process a GPU with NCCL.

    PYTHONPATH=build/python python bench/peers/torch_stages.py [--model llama2-7b --layers 16 --pp 2 --gas 16]

Each schedule runs as a program of its own, ours and PyTorch's in turns. One JSON line each: the median step, its range, tokens/s of one GPU,
the last loss where it is known, and the peak GiB of each GPU; then the ratios to PyTorch's fastest. "split" after a schedule's name: split_linear.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

import torch_llama
from llama_model import MODELS
from peer_steps import cross_entropy

OURS = ["1f1b", "1f1b processes", "1f1b split", "zb-h1 split", "zb-v split"]
THEIRS = ["1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"]


def make_pipeline(options, schedule, split, world):
    import pipetrain
    import pipetrain.torch

    chunks = next(chunks for name, chunks, *_ in pipetrain.all_schedules() if name == schedule)
    plan = pipetrain.Plan.build(schedule, options.pp, options.gas, chunks)
    model = replace(MODELS[options.model], layers=options.layers)
    arguments = argparse.Namespace(tp=1, dp=1, offload=0, fp8=0, compile=options.compile, seq=options.seq)
    count = options.pp * chunks
    stage_of = {plan.virtual_stage(stage, chunk): stage for stage in range(options.pp) for chunk in range(chunks)}

    def make_part(virtual):
        with torch.cuda.device(stage_of[virtual]):
            device = torch.device("cuda", stage_of[virtual])
            return torch_llama.build_part(arguments, model, virtual, count, None, device)

    loss = cross_entropy
    pipeline = pipetrain.torch.Pipeline(
        make_part, loss=torch.compile(loss) if options.compile else loss, schedule=plan,
        devices=[f"cuda:{stage}" for stage in range(options.pp)], split_linear=split,
        world=world, largest=torch.empty(options.mbs, options.seq, model.hidden, dtype=torch.bfloat16, device="meta"),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-5, fused=True),
    )
    torch.manual_seed(0)
    ends = [torch.device("cuda", stage_of[virtual]) for virtual in (0, count - 1)]
    if world.processes > 1:
        ends = [f"cuda:{world.process}"] * 2  # the same numbers on any GPU; who does not need them drops them
    tokens, targets = (torch.randint(0, model.vocabulary, (options.mbs * options.gas, options.seq), device=end) for end in ends)
    return pipeline, tokens, targets


def ours(options, schedule, split, world):
    # For all threads, unlike torch.nn.attention.sdpa_kernel in one.
    torch.backends.cuda.enable_cudnn_sdp(True)
    for others in (torch.backends.cuda.enable_flash_sdp, torch.backends.cuda.enable_mem_efficient_sdp, torch.backends.cuda.enable_math_sdp):
        others(False)
    torch.cuda.set_device(world.process)
    pipeline, tokens, targets = make_pipeline(options, schedule, split, world)
    devices = world.stages(options.pp)
    with pipeline:
        times = []
        for _ in range(options.warmup + options.steps):
            start = time.perf_counter()
            loss = pipeline.step(tokens, targets).loss
            for device in devices:
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - start)
    peak = [round(torch.cuda.max_memory_allocated(device) / 2**30, 1) for device in devices]
    return {"seconds": times[options.warmup :], "loss": loss, "peak_gib": peak}


def run_apart(options, words):
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, timeout=options.timeout,
                          env={**os.environ, "NCCL_NVLS_ENABLE": "0", "OMP_NUM_THREADS": "4"})
    if done.returncode != 0:
        return None
    line = next(line for line in reversed(done.stdout.splitlines()) if "{" in line)
    return json.loads(line[line.index("{") :])


def measured(options, name):
    """The JSON object of a schedule's program: None where it failed."""
    here = Path(__file__).resolve()
    sizes = [f"--{key}={getattr(options, key)}" for key in ("model", "layers", "pp", "gas", "mbs", "seq", "compile", "warmup", "steps")]
    try:
        theirs, *how = name.split()
        if theirs in THEIRS:
            launch = ["-m", "torch.distributed.run", f"--nproc_per_node={options.pp}", str(here.parent / "torch_llama.py")]
            found = run_apart(options, [*launch, *sizes, "--schedule", theirs, f"--report={int('bare' not in how)}"])
            return found and {"seconds": [found["sec_step"], *found["spread"]], "peak_gib": found["mem_gib"]}
        launch = ["-m", "torch.distributed.run", f"--nproc_per_node={options.pp}"] if "processes" in name else []
        found = run_apart(options, [*launch, str(here), *sizes, "--side", name])
        return found and {**found, "seconds": [statistics.median(found["seconds"]), min(found["seconds"]), max(found["seconds"])]}
    except subprocess.TimeoutExpired:
        return None


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="llama2-7b")
    for key, value in {"layers": 16, "pp": 2, "gas": 16, "mbs": 1, "seq": 4096, "compile": 1, "warmup": 3, "steps": 5, "timeout": 150}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--schedules", nargs="+", default=[one for pair in zip(OURS, THEIRS) for one in pair])
    parser.add_argument("--side", help="one of ours, in this process")
    options = parser.parse_args()
    if options.side:
        import pipetrain

        schedule, *how = options.side.split()
        with pipetrain.World() if "processes" in how else pipetrain.World.alone() as world:
            found = ours(options, schedule, "split" in how, world)
        if world.process == 0:
            print(json.dumps(found))
        return
    rates, tokens = {}, options.gas * options.mbs * options.seq / options.pp
    for name in options.schedules:
        found = measured(options, name)
        if found is not None:
            rates[name] = round(tokens / found["seconds"][0], 1)
        print(json.dumps({"bench": f"torch stages, {name}", "tokens/s/GPU": rates.get(name), **(found or {"failed": True})}), flush=True)
    theirs = {name for name in rates if name.split()[0] in THEIRS}
    best = max((rates[name] for name in theirs if "bare" not in name), default=None)
    if best:
        print(json.dumps({"of PyTorch's fastest": {name: round(rate / best, 3) for name, rate in rates.items() if name not in theirs}}))


if __name__ == "__main__":
    main()
