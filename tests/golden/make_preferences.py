"""Trajectories in float64 of llama3_tiny on preferences, with its weights after its own trajectory as the reference.

Usage: python make_preferences.py FOLDER [TRL]   (needs torch; FOLDER is tests/golden)

Writes beside the model's files, and beside those of adapters/llama3 and adapters/llama3_dora, which are adapters of that model:
  pairs.jsonl        {"prompt", "chosen", "rejected"}: rows whose bytes are the tokens; the last token of a completion is 256
  completions.jsonl  {"prompt", "completion", "label"}
  preferences.json   loss, gradient norm before clipping and rewards of each step of dpo, dpo per token, orpo and kto; of adapters
                     with the base as the reference ("base"), and with the base and the adapter before training ("begun")

Losses are written out below, each of a step's whole batch. With TRL, the folder of an installed trl, the loss of orpo's first
step is compared with ORPOTrainer.odds_ratio_loss, and those of the others with torch's own functions as DPOTrainer and KTOTrainer
write them.
"""
import json, math, pathlib, random, sys
import torch
from make_masked import llama, load

BATCH, STEPS, END = 8, 4, 256
WORDS = "a an the small large red blue old new cat dog bird tree river house runs sleeps sings falls stands near under over with".split()
logsigmoid = torch.nn.functional.logsigmoid

def text(draw, least, most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))

def pair_rows(draw):
    return [dict(prompt=text(draw, 1, 5) + ": ", chosen=text(draw, 1, 6), rejected=text(draw, 1, 6)) for _ in range(BATCH * STEPS)]

def completion_rows(draw):
    return [dict(prompt=text(draw, 1, 5) + ": ", completion=text(draw, 1, 6), label=draw.random() < 0.6) for _ in range(BATCH * STEPS)]

def token_logps(w, config, prompt, completion):
    """The log-probability of each token after the first, and how many of the last belong to the completion."""
    ids = list(prompt.encode()) + list(completion.encode()) + [END]
    logits = llama(w, config, torch.tensor([ids[:-1]]))[0]
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0], len(completion.encode()) + 1

def completion_logp(w, config, prompt, completion):
    logps, tokens = token_logps(w, config, prompt, completion)
    return logps[-tokens:].sum(), tokens

def dpo(policy, reference, config, rows, beta, per_token):
    losses, chosen, rejected = [], [], []
    for row in rows:
        ratios = []
        for key in ("chosen", "rejected"):
            logp, tokens = completion_logp(policy, config, row["prompt"], row[key])
            with torch.no_grad(): base, _ = completion_logp(reference, config, row["prompt"], row[key])
            ratios.append((logp - base, tokens))
        (c, c_tokens), (r, r_tokens) = ratios
        losses.append(-logsigmoid(beta * (c / c_tokens - r / r_tokens if per_token else c - r)))
        chosen.append(beta * c), rejected.append(beta * r)
    return torch.stack(losses).mean(), torch.stack(chosen), torch.stack(rejected), None

def orpo(policy, config, rows, beta):
    odds, chosen, rejected, likelihood, counted = [], [], [], 0, 0
    for row in rows:
        logps, tokens = token_logps(policy, config, row["prompt"], row["chosen"])
        likelihood, counted = likelihood - logps.sum(), counted + len(logps)  # of prompt and completion, as trl counts it
        c = logps[-tokens:].mean()
        logps, tokens = token_logps(policy, config, row["prompt"], row["rejected"])
        r = logps[-tokens:].mean()
        odds.append(logsigmoid(c - r - (torch.log1p(-c.exp()) - torch.log1p(-r.exp()))))
        chosen.append(beta * c), rejected.append(beta * r)
    return likelihood / counted - beta * torch.stack(odds).mean(), torch.stack(chosen), torch.stack(rejected), None

def kto(policy, reference, config, rows, beta):
    def ratio(row, completion):
        with torch.no_grad(): base = completion_logp(reference, config, row["prompt"], completion)[0]
        return completion_logp(policy, config, row["prompt"], completion)[0] - base
    with torch.no_grad():  # each prompt with the completion of the row before it
        divergence = torch.stack([ratio(row, rows[i - 1]["completion"]) for i, row in enumerate(rows)]).mean().clamp(min=0)
    losses, chosen, rejected = [], [], []
    for row in rows:
        own = ratio(row, row["completion"])
        losses.append(1 - torch.sigmoid(beta * (own - divergence) if row["label"] else beta * (divergence - own)))
        (chosen if row["label"] else rejected).append(beta * own)
    return torch.stack(losses).mean(), torch.stack(chosen), torch.stack(rejected), divergence

def train(config, rows, optimizer, trained, policy, reference, loss_of):
    """trained: the parameters that steps change; policy(): the model's weights, made from them."""
    decayed, others = [[p for p in trained if (p.dim() > 1) == wide] for wide in (True, False)]
    adam = torch.optim.AdamW([dict(params=decayed, weight_decay=optimizer["weight_decay"]), dict(params=others, weight_decay=0.0)],
                             lr=optimizer["lr"], betas=tuple(optimizer["betas"]), eps=optimizer["eps"])
    steps = []
    for first in range(0, len(rows), BATCH):
        loss, chosen, rejected, divergence = loss_of(policy(), reference, config, rows[first:first + BATCH])
        adam.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in trained))
        if norm > optimizer["clip"]:
            for p in trained: p.grad *= optimizer["clip"] / norm
        adam.step()
        step = dict(loss=loss.item(), grad_norm=norm.item(), reward_chosen=chosen.mean().item(), reward_rejected=rejected.mean().item())
        if divergence is not None: step["kl"] = divergence.item()
        else: step["reward_accuracy"] = (chosen > rejected).double().mean().item()
        steps.append(step)
    return steps

def adapted(base, adapter, settings):
    """The weights of a model with an adapter in PEFT's format: W + scale B A, with DoRA each row scaled to its magnitude."""
    weights = dict(base)
    for name, a in adapter.items():
        if not name.endswith(".lora_A.weight"): continue
        module = name.removesuffix(".lora_A.weight")
        key = module.removeprefix("base_model.model.") + ".weight"
        rows = base[key] + settings["lora_alpha"] / settings["r"] * adapter[module + ".lora_B.weight"] @ a
        if settings["use_dora"]:
            rows = rows * (adapter[module + ".lora_magnitude_vector"] / rows.norm(dim=1).detach())[:, None]
        weights[key] = rows
    return weights

def frozen(weights): return {name: value.detach() for name, value in weights.items()}

def write(folder, runs):
    result = dict(source=f"make_preferences.py, torch {torch.__version__}, float64", global_batch=BATCH, runs=runs)
    for name, run in runs.items(): print(folder.name, name, run["steps"][0], run["steps"][-1])
    (folder / "preferences.json").write_text(json.dumps(result, indent=1) + "\n")

def make_whole(folder, optimizer, losses):
    config, runs = json.loads((folder / "config.json").read_text()), {}
    for name, (rows, beta, loss_of) in losses.items():
        w, reference = load(folder / "model.safetensors"), load(folder / "final.safetensors")
        runs[name] = dict(beta=beta, steps=train(config, rows, optimizer, list(w.values()), lambda: w, reference, loss_of))
    write(folder, runs)

def make_adapted(folder, model, losses):
    config, settings = json.loads((model / "config.json").read_text()), json.loads((folder / "adapter" / "adapter_config.json").read_text())
    optimizer, runs = json.loads((folder / "trajectory.json").read_text())["optimizer"], {}
    for name in ("dpo", "kto"):
        rows, beta, loss_of = losses[name]
        for kind in ("base", "begun"):
            base, adapter = frozen(load(model / "model.safetensors")), load(folder / "adapter" / "adapter_model.safetensors")
            reference = base if kind == "base" else frozen(adapted(base, adapter, settings))
            runs[f"{name} {kind}"] = dict(beta=beta, steps=train(config, rows, optimizer, list(adapter.values()),
                                                                 lambda: adapted(base, adapter, settings), reference, loss_of))
    write(folder, runs)

def compare_with_trl(site):
    """trl's own functions on drawn log-probabilities."""
    sys.path.insert(0, site)
    from types import SimpleNamespace
    from trl.experimental.orpo.orpo_trainer import ORPOTrainer
    c, r = -torch.rand(5, dtype=torch.float64) - 0.1, -torch.rand(5, dtype=torch.float64) - 0.1
    theirs = ORPOTrainer.odds_ratio_loss(SimpleNamespace(beta=0.3, accelerator=SimpleNamespace(device="cpu")), c, r)[0]
    ours = 0.3 * logsigmoid(c - r - (torch.log1p(-c.exp()) - torch.log1p(-r.exp())))
    assert torch.allclose(ours.float(), theirs, rtol=1e-5), (ours, theirs)

if __name__ == "__main__":
    if len(sys.argv) > 2: compare_with_trl(sys.argv[2])
    folder = pathlib.Path(sys.argv[1]) / "llama3_tiny"
    optimizer = json.loads((folder / "trajectory.json").read_text())["optimizer"]
    pairs, completions = pair_rows(random.Random("pairs")), completion_rows(random.Random("completions"))
    for name, rows in (("pairs", pairs), ("completions", completions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    losses = {"dpo": (pairs, 0.1, lambda w, ref, c, rows: dpo(w, ref, c, rows, 0.1, False)),
              "dpo_per_token": (pairs, 2.0, lambda w, ref, c, rows: dpo(w, ref, c, rows, 2.0, True)),
              "orpo": (pairs, 0.3, lambda w, ref, c, rows: orpo(w, c, rows, 0.3)),
              "kto": (completions, 0.1, lambda w, ref, c, rows: kto(w, ref, c, rows, 0.1))}
    make_whole(folder, optimizer, losses)
    for name in ("llama3", "llama3_dora"): make_adapted(folder.parent / "adapters" / name, folder, losses)
