"""What peft writes on from prompts with several adapters of one model in memory, greedily and in float64. Usage:
python -P generate_adapters.py > generate_adapters.json (with torch, transformers and peft from PyPI; -P keeps this folder's
bitsandbytes/ from being imported).

A case names a folder beside this file, adapters of the folder adapters/, the lengths of prompts and the number of new tokens. Each prompt
has an answer by the model without adapters ("base") and one by each adapter.
"""

import json
import os
import sys

import peft
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)  # not for peft, which would take the folder bitsandbytes for a package
from generate import answer, prompt  # noqa: E402

sys.path.pop()

CASES = [
    ("llama3_tiny", ["llama3", "llama3_dora"], [3, 20], 24),
    ("gpt2_tiny", ["gpt2", "gpt2_dora"], [2, 30], 24),
    ("granite_tiny", ["granite", "granite_dora"], [3, 20], 16),
]


def main():
    cases = []
    for name, adapters, lengths, new_tokens in CASES:
        base = transformers.AutoModelForCausalLM.from_pretrained(
            os.path.join(HERE, name), dtype=torch.float64, attn_implementation="eager"
        )
        limit = min(300, base.config.vocab_size - 3)
        folder = lambda adapter: os.path.join(HERE, "adapters", adapter, "adapter")
        model = peft.PeftModel.from_pretrained(base, folder(adapters[0]), adapter_name=adapters[0])
        for adapter in adapters[1:]:
            model.load_adapter(folder(adapter), adapter)
        model = model.double().eval()
        answers = []
        for index, length in enumerate(lengths):
            ids = prompt(29 * index + 5, length, limit)
            with model.disable_adapter():
                answers.append({"adapter": "base", "prompt": ids, **answer(model, ids, new_tokens)})
            for adapter in adapters:
                model.set_adapter(adapter)
                answers.append({"adapter": adapter, "prompt": ids, **answer(model, ids, new_tokens)})
        cases.append({"model": name, "config": {}, "new_tokens": new_tokens, "adapters": adapters, "answers": answers})
    source = f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention"
    json.dump({"source": source, "cases": cases}, sys.stdout)
    print()


main()
