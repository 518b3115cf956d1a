"""What Hugging Face transformers writes on from prompts, greedily and in float64, with the models of this folder. Usage:
python generate.py > generate.json (with torch and transformers from PyPI).

A case names a folder beside this file, settings that replace those of its config.json, and how many prompts there are; prompts are ids
drawn from a generator of this file's own, so that nothing but the answers depends on a library's random numbers.
"""

import json
import os
import sys

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
SCALED = {
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
}
CASES = [
    ("llama3_tiny", SCALED, [1, 7, 40], 48),
    ("llama2_tiny", {}, [3, 64, 12], 48),
    ("gpt2_tiny", {}, [2, 30, 9], 32),
    ("qwen2_tiny", {}, [4, 25, 60], 40),
    ("qwen3_tiny", {}, [4, 25, 60], 40),
    ("mistral_window_tiny", {}, [4, 25, 60], 40),
    ("llama_biases_yarn_tiny", {}, [4, 25, 60], 40),
    ("gemma3_tiny", {}, [4, 25, 60], 40),
]


def prompt(seed, length, vocabulary):
    state, ids = seed + 1, []
    for _ in range(length):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ids.append(3 + (state >> 33) % min(300, vocabulary - 3))
    return ids


def main():
    cases = []
    for name, changes, lengths, new_tokens in CASES:
        folder = os.path.join(HERE, name)
        with open(os.path.join(folder, "config.json")) as file:
            settings = dict(json.load(file), **json.loads(json.dumps(changes)))  # the library changes what it gets
        config = transformers.AutoConfig.for_model(**settings)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float64, attn_implementation="eager"
        )
        answers = []
        for index, length in enumerate(lengths):
            ids = prompt(17 * index, length, settings["vocab_size"])
            out = model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, length, dtype=torch.long),
                do_sample=False,
                max_new_tokens=new_tokens,
                eos_token_id=None,
                pad_token_id=0,
            )
            steps = model(out).logits[0]
            first, second = steps[length - 1 : -1].topk(2).values.T
            assert (first - second).min() > 1e-4, "a close race would test rounding"
            logits = steps[length - 1]
            answers.append({"prompt": ids, "answer": out[0, length:].tolist(), "logits": [round(x, 7) for x in logits[:8].tolist()]})
        cases.append({"model": name, "config": changes, "new_tokens": new_tokens, "answers": answers})
    source = f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention"
    json.dump({"source": source, "cases": cases}, sys.stdout)
    print()


main()
