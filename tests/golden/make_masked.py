"""Trajectories in float64 of the golden models on rows of different length, some labels of which count.

Usage: python make_masked.py FOLDER   (needs torch; FOLDER is tests/golden)

For each model writes beside its files:
  masked.jsonl  {"input_ids", "labels"}: rows of train.jsonl, in their order, cut to different lengths; a first part of each is
                masked, and in some rows single labels after it
  masked.json   loss and gradient norm before clipping of each step, with the optimizer of trajectory.json

The models are written out below. Before anything is written, each repeats its trajectory.json, which Hugging Face transformers
made in float64 but for norms, softmax and angles, to 5e-5.
"""
import json, math, pathlib, random, struct, sys
import torch

def load(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    return {name: torch.frombuffer(bytearray(body[slice(*entry["data_offsets"])]), dtype=torch.float32).reshape(entry["shape"]).double().requires_grad_()
            for name, entry in header.items() if name != "__metadata__"}

def attend(q, k, v):  # [batch, heads, sequence, size]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return (scores + torch.full(scores.shape[-2:], -torch.inf, dtype=torch.float64).triu(1)).softmax(-1) @ v

def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)

def llama(w, c, ids):
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    size = c.get("head_dim") or c["hidden_size"] // heads
    theta = (c.get("rope_parameters") or c)["rope_theta"]
    angles = torch.arange(ids.shape[1], dtype=torch.float64)[:, None] * theta ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    rotate = lambda x: x * cos + torch.cat([-x[..., size // 2:], x[..., :size // 2]], -1) * sin
    norm = lambda x, name: x * (x.pow(2).mean(-1, keepdim=True) + c["rms_norm_eps"]).rsqrt() * w[name]
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        at = lambda part: w[name + part + ".weight"]
        h = norm(x, name + "input_layernorm.weight")
        q, k, v = (split(h @ at(f"self_attn.{part}_proj").T, n) for part, n in (("q", heads), ("k", kv), ("v", kv)))
        k, v = (y.repeat_interleave(heads // kv, 1) for y in (rotate(k), v))
        x = x + attend(rotate(q), k, v).transpose(1, 2).flatten(2) @ at("self_attn.o_proj").T
        h = norm(x, name + "post_attention_layernorm.weight")
        x = x + (torch.nn.functional.silu(h @ at("mlp.gate_proj").T) * (h @ at("mlp.up_proj").T)) @ at("mlp.down_proj").T
    return norm(x, "model.norm.weight") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T

def gpt2(w, c, ids):
    norm = lambda x, name: torch.nn.functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], c["layer_norm_epsilon"])
    matrix = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:ids.shape[1]]
    for layer in range(c["n_layer"]):
        name = f"transformer.h.{layer}."
        q, k, v = (split(y, c["n_head"]) for y in matrix(norm(x, name + "ln_1"), name + "attn.c_attn").chunk(3, -1))
        x = x + matrix(attend(q, k, v).transpose(1, 2).flatten(2), name + "attn.c_proj")
        x = x + matrix(torch.nn.functional.gelu(matrix(norm(x, name + "ln_2"), name + "mlp.c_fc"), approximate="tanh"), name + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T

def train(folder, rows, batch, optimizer):
    """rows: (ids, labels) of one length each; a step's loss is the mean over the labels of its rows that count."""
    config, w = json.loads((folder / "config.json").read_text()), load(folder / "model.safetensors")
    model = gpt2 if config["model_type"] == "gpt2" else llama
    decayed, others = [[p for p in w.values() if (p.dim() > 1) == wide] for wide in (True, False)]
    adam = torch.optim.AdamW([dict(params=decayed, weight_decay=optimizer["weight_decay"]), dict(params=others, weight_decay=0.0)],
                             lr=optimizer["lr"], betas=tuple(optimizer["betas"]), eps=optimizer["eps"])
    steps = []
    for first in range(0, len(rows), batch):
        loss, counted = 0, 0
        for ids, labels in rows[first:first + batch]:  # each alone: nothing is padded
            logits = model(w, config, torch.tensor([ids[:-1]]))[0]
            targets = torch.tensor(labels[1:])
            loss = loss + torch.nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
            counted += int((targets != -100).sum())
        adam.zero_grad()
        (loss / counted).backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in w.values()))
        if norm > optimizer["clip"]:
            for p in w.values(): p.grad *= optimizer["clip"] / norm
        adam.step()
        steps.append(dict(loss=(loss / counted).item(), grad_norm=norm.item(), tokens=counted))
    return steps

def masked_rows(rows, draw):
    for ids in rows:
        ids = ids[:draw.randint(6, len(ids))]
        prompt = draw.randint(1, len(ids) - 2)
        labels = [-100] * prompt + ids[prompt:]
        if draw.random() < 0.3: labels[draw.randint(prompt, len(ids) - 2)] = -100
        yield ids, labels

if __name__ == "__main__":
    for name in ("llama3_tiny", "gpt2_tiny"):
        folder = pathlib.Path(sys.argv[1]) / name
        golden = json.loads((folder / "trajectory.json").read_text())
        rows = [json.loads(line)["input_ids"] for line in (folder / "train.jsonl").read_text().splitlines()]
        batch, optimizer = golden["global_batch"], golden["optimizer"]
        for ours, theirs in zip(train(folder, [(ids, ids) for ids in rows], batch, optimizer), golden["steps"], strict=True):
            for key in theirs: assert abs(ours[key] / theirs[key] - 1) < 5e-5, (name, key, ours, theirs)
        masked = list(masked_rows(rows, random.Random(name)))
        (folder / "masked.jsonl").write_text("".join(json.dumps(dict(input_ids=ids, labels=labels)) + "\n" for ids, labels in masked))
        steps = train(folder, masked, batch, optimizer)
        (folder / "masked.json").write_text(json.dumps(dict(source=f"make_masked.py, torch {torch.__version__}, float64", steps=steps), indent=1) + "\n")
        print(name, steps[0], steps[-1])
