"""What pipetrain.transformers.Trainer adds to a step of the engine, on a small Llama on the CPU.

    ./dev bench trainer        or: PYTHONPATH=build/python python bench/trainer.py [--rounds 3]

One JSON line a number: milliseconds a step that pass outside of the engine's own step (batches, callbacks, logs of every tenth step, the
conversion of samples), the median of 200 steps after 20 to warm up, in the best of the rounds.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time

try:
    import torch
    import transformers

    import pipetrain.transformers as ours
except ModuleNotFoundError as missing:
    sys.exit(f"bench: error: trainer: {missing}; pip install torch transformers accelerate")

STEPS, WARM_UP, LIMIT = 200, 20, 2.0
SIZES = dict(vocab_size=256, hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64)  # fmt: skip


class Clock(transformers.TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


class TimedTrainer(ours.Trainer):
    """Keeps the seconds of each step that the engine computed."""

    def _begin_run(self):
        run = super()._begin_run()
        trained = self.engine_seconds = []

        class Timed:  # in place of the engine's run
            def __getattr__(self, name):
                return getattr(inner, name)

            def step(self, rate):
                begin = time.perf_counter()
                done = inner.step(rate)
                trained.append(time.perf_counter() - begin)
                return done

        inner, run._run = run._run, Timed()
        return run


def milliseconds(folder):
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    ids = torch.randint(0, 256, (64, 33))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    args = transformers.TrainingArguments(output_dir=folder, max_steps=WARM_UP + STEPS, per_device_train_batch_size=8, logging_steps=10,
                                          save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)  # fmt: skip
    clock = Clock()
    trainer = TimedTrainer(model, args, train_dataset=rows, callbacks=[clock], layout=dict(pp=2))
    trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
    trainer.train()
    whole = [after - before for before, after in zip(clock.ends[WARM_UP - 1 :], clock.ends[WARM_UP:])]
    outside = [step - engine for step, engine in zip(whole, trainer.engine_seconds[WARM_UP:], strict=True)]
    return 1e3 * statistics.median(outside), 1e3 * statistics.median(trainer.engine_seconds[WARM_UP:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = [milliseconds(folder) for _ in range(options.rounds)]
    outside, engine = min(rounds)
    print(json.dumps({"bench": "trainer overhead", "value": round(outside, 3), "unit": "ms/step", "limit": LIMIT, "pass": outside <= LIMIT}))
    print(json.dumps({"bench": "trainer engine", "value": round(engine, 3), "unit": "ms/step", "limit": None, "pass": None}))
    return 0 if outside <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
