"""Makes gemma3_multimodal_tiny: gemma3_tiny as the language model of a Gemma3ForConditionalGeneration with a vision tower.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors
    venv/bin/python tests/golden/make_gemma3_multimodal.py

Its language model's losses are those of gemma3_tiny, whose trajectory is therefore its own.
"""

import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

here = pathlib.Path(__file__).parent
text = json.loads((here / "gemma3_tiny/config.json").read_text())
for key in ("architectures", "transformers_version", "dtype"):
    del text[key]
vision = {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
          "num_attention_heads": 2, "image_size": 8, "patch_size": 4, "vision_use_head": False}
torch.manual_seed(1)
config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=1, boi_token_index=150, eoi_token_index=151,
                      image_token_index=152)
model = Gemma3ForConditionalGeneration(config)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_(std=0.08)
language_model = load_file(here / "gemma3_tiny/model.safetensors")
model.model.language_model.load_state_dict({name.removeprefix("model."): values for name, values in language_model.items()})
folder = here / "gemma3_multimodal_tiny"
model.save_pretrained(folder)
(folder / "generation_config.json").unlink(missing_ok=True)
# The vision tower of published folders has another type than training gives the language model.
tensors = load_file(folder / "model.safetensors")
for name in tensors:
    if "vision_tower" in name:
        tensors[name] = tensors[name].to(torch.bfloat16)
save_file(tensors, folder / "model.safetensors", {"format": "pt"})
