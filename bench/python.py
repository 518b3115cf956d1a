"""What an action costs from Python when the stages' methods do nothing: as bench/c_api.cpp, 8 stages, 64 microbatches.

    ./dev bench python        or: PYTHONPATH=build/python python bench/python.py [--rounds 3]

One JSON line a number. Microseconds an action: the wall time of a step over all its actions, the median of 50 steps after 10 to warm up, in the best of
the rounds; and the processor time of all threads, which other work on the machine disturbs less. `run` overrides Stage.run(), `methods` forward(),
backward(), norm() and optimizer(), as most programs do.
"""
import argparse
import json
import statistics
import sys
import time

import pipetrain

STAGES, MICROBATCHES, STEPS, WARM_UP = 8, 64, 50, 10
ACTIONS = STAGES * (2 * MICROBATCHES + 2)  # F and B, N and O
LIMIT = 15.0


class Running(pipetrain.Stage):
    def run(self, launch):
        return [] if launch.kind == "N" else None


class OnAnyThread(Running):
    any_thread = True


class Methods(pipetrain.Stage):
    def forward(self, launch):
        return None

    def backward(self, launch):
        return None


def microseconds(stage):
    """Of an action: waited for, and processor time."""
    plan = pipetrain.Plan.build("1f1b", stages=STAGES, microbatches=MICROBATCHES)
    inputs = [None] * MICROBATCHES
    times, begun = [], 0.0
    with pipetrain.Pipeline(plan, [stage() for _ in range(STAGES)]) as pipeline:
        for number in range(WARM_UP + STEPS):
            if number == WARM_UP:
                begun = time.process_time()
            start = time.perf_counter()
            pipeline.step(inputs)
            if number >= WARM_UP:
                times.append(time.perf_counter() - start)
        processor = (time.process_time() - begun) / STEPS
    return statistics.median(times) * 1e6 / ACTIONS, processor * 1e6 / ACTIONS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    good = True
    for name, stage in (("run", Running), ("run on any thread", OnAnyThread), ("methods", Methods)):
        rounds = [microseconds(stage) for _ in range(options.rounds)]
        waited, processor = min(one for one, _ in rounds), min(one for _, one in rounds)
        good &= waited <= LIMIT
        print(json.dumps({"bench": f"python {name}", "value": round(waited, 3), "unit": "us/action", "limit": LIMIT, "pass": waited <= LIMIT}))
        print(json.dumps({"bench": f"python {name}, processor", "value": round(processor, 3), "unit": "us/action", "limit": None, "pass": None}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
