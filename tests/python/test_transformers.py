"""pipetrain.transformers.Trainer beside transformers.Trainer, and beside the program."""

import os

import numpy
import pytest

import pipetrain

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")

from transformers_models import SIZES, TOLERANCES, Rows, arguments, as_logged, llama, logged, pad, write_rows  # noqa: E402

if not hasattr(pipetrain._engine, "Training"):
    pytest.skip("the module was built without training", allow_module_level=True)

from pipetrain.transformers import Trainer  # noqa: E402

LAYOUTS = [dict(), dict(pp=2, tp=2, schedule="zb-h1"), dict(pp=2, dp=2, schedule="zb-v", zero=1, microbatches=4)]


pytestmark = pytest.mark.usefixtures("one_thread")


def same_weights(one, other, tolerance):
    for (name, mine), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        numpy.testing.assert_allclose(mine.detach(), theirs.detach(), rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_it_trains_as_the_trainer_of_transformers(tmp_path, layout):
    """Rows of different lengths, a last batch of two rows, and a schedule with a warm-up."""
    rows, dp = Rows(count=50, shortest=5), layout.get("dp", 1)
    theirs = transformers.Trainer(llama(), arguments(tmp_path / "theirs"), train_dataset=rows, data_collator=pad)
    theirs.train()
    args = arguments(tmp_path / "ours", per_device_train_batch_size=4 // dp)
    ours = Trainer(llama(), args, train_dataset=rows, data_collator=pad, layout=layout)
    result = ours.train()
    assert result.global_step == 14
    for name, tolerance in TOLERANCES.items():
        numpy.testing.assert_allclose(logged(ours, name), logged(theirs, name), rtol=0, atol=tolerance, err_msg=name)
    same_weights(ours.model, theirs.model, 2e-5)


@pytest.mark.slow
@pytest.mark.skipif("PIPETRAIN_PROGRAM" not in os.environ, reason="PIPETRAIN_PROGRAM names no program")
@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_a_thousand_steps_are_those_of_the_program_to_the_bit(tmp_path, layout):
    rows = Rows(count=64, length=17)
    args = arguments(tmp_path / "ours", max_steps=1000, lr_scheduler_type="constant", warmup_steps=0, per_device_train_batch_size=4,
                     gradient_accumulation_steps=1, seed=7)  # fmt: skip
    trainer = Trainer(llama(num_hidden_layers=2), args, train_dataset=rows, layout=layout)
    trainer.model.save_pretrained(tmp_path / "start")
    loader = trainer.get_train_dataloader()
    order = []
    while len(order) < 4000:
        order += [row for batch in loader for row in batch["input_ids"]]
        loader.set_epoch(len(order) // 64)
    write_rows(tmp_path / "rows.jsonl", order[:4000])
    trainer.train()
    count = trainer._layout.batch(4, 1)
    run = pipetrain.train(
        model=tmp_path / "start", data=tmp_path / "rows.jsonl", shuffle=False, steps=1000, lr=args.learning_rate, lr_schedule="constant",
        weight_decay=args.weight_decay, beta1=args.adam_beta1, beta2=args.adam_beta2, adam_eps=args.adam_epsilon, seed=7, device="cpu",
        clip_grad=args.max_grad_norm, microbatches=count.microbatches, microbatch=count.microbatch, save=tmp_path / "run", **layout,
    )  # fmt: skip
    assert as_logged(run.losses) == as_logged(logged(trainer, "loss"))
    program = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "run" / "model")
    for (name, mine), other in zip(trainer.model.named_parameters(), program.parameters(), strict=True):
        assert torch.equal(mine, other), name


def test_a_resumed_run_goes_on_to_the_bit(tmp_path):
    def train(folder, resume=None, **changes):
        args = arguments(folder, save_strategy="steps", save_steps=5, **changes)
        trainer = Trainer(llama(), args, train_dataset=Rows(), layout=dict(pp=2))
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    whole = train(tmp_path / "run")
    names = {file.name for file in (tmp_path / "run" / "checkpoint-5").iterdir()}
    assert {"model.safetensors", "config.json", "trainer_state.json", "scheduler.pt", "rng_state.pth", "training_args.bin", "pipetrain"} <= names
    resumed = train(tmp_path / "run", resume=str(tmp_path / "run" / "checkpoint-5"))
    assert logged(resumed, "loss") == logged(whole, "loss")
    for mine, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, other)


class Watch(transformers.TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_step_end(self, args, state, control, **kwargs):
        self.seen.append(state.global_step)
        control.should_training_stop = state.global_step == 6

    def on_train_end(self, args, state, control, model=None, **kwargs):
        self.last = [one.detach().clone() for one in model.parameters()]


def test_callbacks_and_evaluation_are_theirs(tmp_path):
    args = arguments(tmp_path, eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4)
    watch, rows = Watch(), Rows(count=8, seed=2)

    def metrics(prediction):
        return {"right": float((prediction.predictions[:, :-1].argmax(-1) == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(llama(), args, train_dataset=Rows(), eval_dataset=rows, compute_metrics=metrics, callbacks=[watch], layout=dict(pp=2))
    trainer.train()
    assert watch.seen == [1, 2, 3, 4, 5, 6]
    assert len(logged(trainer, "eval_loss")) == 3 and len(logged(trainer, "eval_right")) == 3
    for mine, other in zip(trainer.model.parameters(), watch.last, strict=True):
        assert torch.equal(mine, other)
    ids = torch.stack(rows.rows)
    with torch.no_grad():
        expected = trainer.model(input_ids=ids, labels=ids).loss.item()
    assert logged(trainer, "eval_loss")[-1] == pytest.approx(expected, abs=1e-5)


def test_the_best_model_is_loaded_at_the_end(tmp_path):
    args = arguments(tmp_path, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2, load_best_model_at_end=True,
                     learning_rate=0.1, max_steps=6)  # fmt: skip
    trainer = Trainer(llama(), args, train_dataset=Rows(), eval_dataset=Rows(count=8, seed=2))
    trainer.train()
    best = min(range(3), key=lambda index: logged(trainer, "eval_loss")[index])
    stored = transformers.LlamaForCausalLM.from_pretrained(tmp_path / f"checkpoint-{2 * best + 2}")
    same_weights(trainer.model, stored, 0)


class Labelled(Rows):
    def __getitem__(self, row):
        return {"input_ids": self.rows[row], "labels": int(self.rows[row][0]) % 3}


def test_a_classifier_trains_as_there(tmp_path):
    """Without accumulation, over whose batches transformers adds up the means of a classifier's losses."""
    batch = dict(per_device_train_batch_size=8, gradient_accumulation_steps=1)

    def model():
        torch.manual_seed(3)
        return transformers.LlamaForSequenceClassification(transformers.LlamaConfig(**SIZES, num_labels=3, pad_token_id=0))

    theirs = transformers.Trainer(model(), arguments(tmp_path / "theirs", **batch), train_dataset=Labelled(count=48))
    theirs.train()
    ours = Trainer(model(), arguments(tmp_path / "ours", **batch), train_dataset=Labelled(count=48), layout=dict(pp=2))
    ours.train()
    numpy.testing.assert_allclose(logged(ours, "loss"), logged(theirs, "loss"), rtol=0, atol=TOLERANCES["loss"])
    same_weights(ours.model, theirs.model, 2e-5)


@pytest.mark.parametrize(
    ("changes", "layout", "line"),
    [
        (dict(label_smoothing_factor=0.1), {}, r"label_smoothing_factor=0.1.*is not built"),
        (dict(neftune_noise_alpha=5.0), {}, "neftune_noise_alpha"),
        (dict(optim="adafactor"), {}, "optim='adafactor'.*adamw_torch"),
        (dict(auto_find_batch_size=True), {}, "auto_find_batch_size.*microbatch"),
        ({}, dict(lr=1.0), "'lr' is decided by learning_rate"),
        ({}, dict(microbatches=3), "microbatches 3 do not divide the 8 samples"),
        ({}, dict(pp=0), "pp is 0"),
    ],
)
def test_what_it_does_not_follow_is_refused_by_name(tmp_path, changes, layout, line):
    with pytest.raises(pipetrain.InputError, match=line):
        Trainer(llama(), arguments(tmp_path, **changes), train_dataset=Rows(), layout=layout)


@pytest.mark.parametrize(("layout", "line"), [(dict(tp=3), "tp 3"), (dict(pipeline=2), "pipeline: unknown option"), (dict(seq_len=8), "seq_len=32")])
def test_what_the_engine_refuses_names_the_layout(tmp_path, layout, line):
    trainer = Trainer(llama(), arguments(tmp_path), train_dataset=Rows(), layout=layout)
    with pytest.raises(pipetrain.InputError, match=line):
        trainer.train()


def test_rows_that_it_cannot_read_are_refused_by_name(tmp_path):
    def padded_left(rows):
        batch = pad(rows)
        return {**batch, "attention_mask": batch["attention_mask"].flip(1)}

    def with_positions(rows):
        batch = pad(rows)
        return {**batch, "position_ids": batch["input_ids"]}

    for collator, line in [(padded_left, "padding before"), (with_positions, "'position_ids'"), (lambda rows: {"input_ids": pad(rows)["input_ids"]}, "'labels'")]:
        trainer = Trainer(llama(), arguments(tmp_path), train_dataset=Rows(shortest=5), data_collator=collator)
        with pytest.raises(pipetrain.InputError, match=line):
            trainer.train()


def test_an_overridden_loss_and_a_frozen_weight_are_refused(tmp_path):
    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return model(**inputs).loss

    with pytest.raises(pipetrain.InputError, match="Own.compute_loss"):
        Own(llama(), arguments(tmp_path), train_dataset=Rows())
    with pytest.raises(pipetrain.InputError, match="optimizers"):
        Trainer(llama(), arguments(tmp_path), train_dataset=Rows(), optimizers=(torch.optim.SGD(llama().parameters(), lr=1), None))
    model = llama()
    model.model.embed_tokens.requires_grad_(False)
    with pytest.raises(pipetrain.InputError, match="model.embed_tokens.weight is frozen"):
        Trainer(model, arguments(tmp_path), train_dataset=Rows())
