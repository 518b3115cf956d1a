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
    ("qwen2_tiny", {}, [3, 20], 24),
    ("qwen3_tiny", {}, [3, 20], 24),
    ("mistral_window_tiny", {}, [3, 20], 24),
    ("gemma3_tiny", {}, [3, 20], 24),
    ("llama_biases_yarn_tiny", {}, [3, 20], 24),
    ("smollm3_tiny", {}, [3, 20], 24),
    ("granite_tiny", {}, [3, 20], 24),
    ("olmo2_tiny", {}, [3, 20], 24),
    ("phi3_tiny", {}, [3, 20], 24),
    ("seed_oss_tiny", {}, [3, 20], 24),
    ("gpt_oss_tiny", {}, [3, 20], 24),
    ("deepseek_v2_tiny", {}, [3, 20], 24),
    ("deepseek_v2_groups_tiny", {}, [3, 20], 24),
    ("deepseek_v3_tiny", {}, [3, 20], 24),
    ("phi3_longrope_tiny", {}, [5, 12, 30], 20),  # the first two grow beyond the original 16 positions
]


def prompt(seed, length, limit):
    state, ids = seed + 1, []
    for _ in range(length):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ids.append(3 + (state >> 33) % limit)
    return ids


def answer(model, ids, new_tokens):
    """The ids that the model writes on greedily, and the first logits of the first of them."""
    out = model.generate(
        input_ids=torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        do_sample=False,
        max_new_tokens=new_tokens,
        eos_token_id=None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_logits=True,
    )
    steps = torch.cat(out.logits)
    first, second = steps.topk(2).values.T
    assert (first - second).min() > 1e-4, "a close race would test rounding"
    return {"answer": out.sequences[0, len(ids):].tolist(), "logits": [round(x, 7) for x in steps[0, :8].tolist()]}


def main():
    cases = []
    for name, changes, lengths, new_tokens in CASES:
        folder = os.path.join(HERE, name)
        with open(os.path.join(folder, "config.json")) as file:
            settings = dict(json.load(file), **json.loads(json.dumps(changes)))  # the library changes what it gets
        config = transformers.AutoConfig.for_model(**settings)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
        )
        answers = []
        for index, length in enumerate(lengths):
            ids = prompt(17 * index, length, min(300, config.vocab_size - 3))
            answers.append({"prompt": ids, **answer(model, ids, new_tokens)})
        cases.append({"model": name, "config": changes, "new_tokens": new_tokens, "answers": answers})
    source = f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention"
    json.dump({"source": source, "cases": cases}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
