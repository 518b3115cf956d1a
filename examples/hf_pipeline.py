"""A Llama of Hugging Face's transformers, cut into four stages without a change to its code, and checked against the whole model.

    pip install . torch transformers
    python examples/hf_pipeline.py --schedule zb-h1
"""

import argparse
import copy

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import pipetrain
import pipetrain.torch


MICROBATCHES = 6
NO_TARGET = -100


class Piece(nn.Module):
    """Some neighbouring layers; the first piece has the embedding too, the last one the norm and the head."""

    def __init__(self, model, layers, is_first, is_last):
        super().__init__()
        self.embedding = model.model.embed_tokens if is_first else None
        self.rotary = model.model.rotary_emb  # has no parameters
        self.layers = nn.ModuleList(layers)
        self.norm, self.head = (model.model.norm, model.lm_head) if is_last else (None, None)

    def forward(self, x, attention_mask):
        """attention_mask, a keyword argument of the step, is true where there is a token: every piece gets its microbatch's rows."""
        if self.embedding is not None:
            x = self.embedding(x)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        angles = self.rotary(x, positions)
        seen = (positions <= positions.mT) & attention_mask[:, None, None, :]  # by each query: tokens up to its own
        for layer in self.layers:
            x = layer(x, attention_mask=seen, position_ids=positions, position_embeddings=angles)
            x = x[0] if isinstance(x, tuple) else x
        return x if self.head is None else self.head(self.norm(x))


def cut(model, pieces):
    """Layers in equal parts, or nearly so."""
    layers = list(model.model.layers)
    bounds = [len(layers) * piece // pieces for piece in range(pieces + 1)]
    return [
        Piece(model, layers[begin:end], is_first=begin == 0, is_last=end == len(layers))
        for begin, end in zip(bounds, bounds[1:])
    ]


def loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET)


def draw_batch(rows=16, longest=33):
    """Sequences of different lengths, filled up behind: tokens, targets, and where there are tokens."""
    sequences = torch.randint(0, 128, (rows, longest))
    mask = torch.arange(longest) < torch.randint(8, longest + 1, (rows, 1))
    return sequences[:, :-1], sequences[:, 1:].masked_fill(~mask[:, 1:], NO_TARGET), mask[:, :-1]


def counts_of(targets):
    """How many targets of each microbatch count: its weight in the mean."""
    return [int((part != NO_TARGET).sum()) for part in targets.tensor_split(MICROBATCHES)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", default="zb-h1")
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the stages have a thread each
    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=160, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).double()
    whole = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(whole.parameters(), lr=1e-3)
    chunks = next(chunks for name, chunks, *_ in pipetrain.all_schedules() if name == arguments.schedule)
    with pipetrain.torch.Pipeline(
        cut(model, 4 * chunks),
        loss=loss,
        schedule=arguments.schedule,
        microbatches=MICROBATCHES,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    ) as pipeline:
        for _ in range(arguments.steps):
            tokens, targets, mask = draw_batch()
            step = pipeline.step(tokens, targets, kwargs={"attention_mask": mask}, weights=counts_of(targets))
            optimizer.zero_grad()
            expected = loss(whole(tokens, attention_mask=mask).logits, targets)
            expected.backward()
            optimizer.step()
            print(f"step {step.step}  loss {step.loss:.6f}  of the whole model {expected.item():.6f}")
        tokens, targets, mask = draw_batch()
        evaluation = pipeline.evaluate(tokens, targets, kwargs={"attention_mask": mask}, weights=counts_of(targets))
        with torch.no_grad():
            expected = loss(whole(tokens, attention_mask=mask).logits, targets)
        print(f"evaluation  loss {evaluation.loss:.6f}  of the whole model {expected.item():.6f}")


if __name__ == "__main__":
    main()
