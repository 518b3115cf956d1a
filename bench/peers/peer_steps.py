"""What the programs of peers have in common: the loss, the time of their steps, and their memory."""
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))


def measure(run, warmup, steps):
    """Seconds of each step."""
    for _ in range(warmup):
        run.step()
    torch.cuda.synchronize()
    if dist.is_initialized():
        dist.barrier()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        run.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


def peak_gib(device, world):
    peak = torch.tensor([torch.cuda.max_memory_allocated() / 2**30], device=device)
    if world == 1:
        return [round(peak.item(), 1)]
    peaks = [torch.zeros_like(peak) for _ in range(world)]
    dist.all_gather(peaks, peak)
    return [round(one.item(), 1) for one in peaks]
