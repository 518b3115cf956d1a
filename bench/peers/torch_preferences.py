"""Training steps of dpo in PyTorch on one GPU, with transformers' models: the peer of `--loss dpo`.

    python torch_preferences.py --model qwen3-8b --layers 8 --mbs 1 --gas 8 --reference forward

--reference forward runs a frozen copy of the model over each microbatch; precomputed takes its log-probabilities as given. With
--reference none the step is a supervised one on the chosen half, beside which the other two are measured. Types, attention and
optimizer are those of torch_transformers.py. Tokens are random; the second half of each sequence is its completion. Prints the line
that torch_llama.py prints; tokens count both sequences of a pair.
"""
import argparse
import json
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from peer_steps import measure, peak_gib
from torch_transformers import MODELS, build_stage, configuration


def completion_logps(logits, tokens):
    """[sequences]: the log-probabilities of the second halves, added up."""
    begin = tokens.shape[1] // 2
    chosen = logits[:, begin - 1:-1].float().log_softmax(-1).gather(-1, tokens[:, begin:, None])
    return chosen.sum((1, 2))


def dpo_loss(policy, reference, beta=0.1):
    chosen, rejected = (policy - reference).chunk(2)
    return -torch.nn.functional.logsigmoid(beta * (chosen - rejected)).sum()


class Run:
    def __init__(self, arguments, config, device):
        self.arguments = arguments
        self.part = build_stage(arguments, config, 0, device)
        self.reference = None
        if arguments.reference == "forward":
            self.reference = build_stage(arguments, config, 0, device).requires_grad_(False)
        self.parameters = list(self.part.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-5, fused=True)
        self.logps = torch.compile(completion_logps) if arguments.compile else completion_logps
        self.halves = 1 if arguments.reference == "none" else 2
        torch.manual_seed(0)
        size = (arguments.gas, self.halves * arguments.mbs, arguments.seq)
        self.tokens = torch.randint(0, config.vocab_size, size, device=device)
        self.known = torch.zeros(self.halves * arguments.mbs, device=device)

    def loss(self, tokens):
        policy = self.logps(self.part(tokens), tokens)
        if self.halves == 1:
            return -policy.sum() / tokens.numel()
        known = self.known
        if self.reference is not None:
            with torch.no_grad():
                known = self.logps(self.reference(tokens), tokens)
        return dpo_loss(policy, known) / (self.arguments.mbs * self.arguments.gas)

    def step(self):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            for tokens in self.tokens:
                self.loss(tokens).backward()
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="qwen3-8b")
    parser.add_argument("--layers", type=int, default=0, help="keep only the first layers; 0: all")
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--mbs", type=int, default=1, help="pairs of a microbatch")
    parser.add_argument("--gas", type=int, default=8, help="microbatches in a step")
    parser.add_argument("--reference", choices=("forward", "precomputed", "none"), default="forward")
    parser.add_argument("--compile", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    arguments.pp = 1
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    config = configuration(arguments)
    run = Run(arguments, config, device)
    seconds = measure(run, arguments.warmup, arguments.steps)
    median = statistics.median(seconds)
    figures = dict(vars(arguments), layers=config.num_hidden_layers, sec_step=round(median, 4),
                   spread=[round(min(seconds), 4), round(max(seconds), 4)],
                   tok_s_gpu=round(run.tokens.numel() / median, 1), mem_gib=peak_gib(device, 1), torch=torch.__version__)
    print("RESULT " + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
