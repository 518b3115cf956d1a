"""pipetrain.transformers.Trainer with models of PEFT, beside transformers.Trainer and beside the program."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pipetrain

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from transformers_models import ROUNDS, TOLERANCES, Rows, arguments, llama, logged, pad, write_rows  # noqa: E402

if not hasattr(pipetrain._engine, "Training"):
    pytest.skip("the module was built without training", allow_module_level=True)

from pipetrain.transformers import Trainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

ATTENTION = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
ALL = dict(r=8, lora_alpha=16, target_modules="all-linear", use_rslora=True)
DORA = dict(r=4, lora_alpha=8, target_modules=["q_proj", "up_proj", "down_proj"], use_dora=True)
HEAD = dict(r=4, lora_alpha=8, target_modules=["o_proj", "gate_proj"], modules_to_save=["lm_head"])


def adapted(config, seed=5):
    torch.manual_seed(seed)
    return peft.get_peft_model(llama(), peft.LoraConfig(task_type="CAUSAL_LM", **config))


def trained(model):
    return {name: one.detach() for name, one in model.named_parameters() if one.requires_grad}


def frozen(model):
    return {name: one.detach().clone() for name, one in model.named_parameters() if not one.requires_grad}


@pytest.mark.parametrize(
    ("config", "layout"),
    [(ATTENTION, {}), (ALL, dict(pp=2, tp=2, schedule="zb-h1")), (DORA, dict(pp=2)), (HEAD, dict(pp=2, dp=2, zero=1, microbatches=4))],
    ids=["attention", "all-linear", "dora", "head"],
)
def test_an_adapter_trains_as_the_trainer_of_transformers_trains_it(tmp_path, config, layout):
    usual = dict(weight_decay=0.0 if "use_dora" in config else 0.1, max_steps=8)
    rows, dp = Rows(count=50, shortest=5), layout.get("dp", 1)
    theirs = transformers.Trainer(adapted(config), arguments(tmp_path / "theirs", **usual), train_dataset=rows, data_collator=pad)
    theirs.train()
    args = arguments(tmp_path / "ours", per_device_train_batch_size=4 // dp, **usual)
    ours = Trainer(adapted(config), args, train_dataset=rows, data_collator=pad, layout=layout)
    before = frozen(ours.model)
    ours.train()
    for name, tolerance in TOLERANCES.items():
        numpy.testing.assert_allclose(logged(ours, name), logged(theirs, name), rtol=0, atol=tolerance, err_msg=name)
    expected = trained(theirs.model)
    assert trained(ours.model).keys() == expected.keys()
    for name, mine in trained(ours.model).items():
        numpy.testing.assert_allclose(mine, expected[name], rtol=0, atol=5e-5, err_msg=name)
    for name, after in frozen(ours.model).items():
        assert torch.equal(after, before[name]), name


@pytest.mark.skipif("PIPETRAIN_PROGRAM" not in os.environ, reason="PIPETRAIN_PROGRAM names no program")
def test_the_file_of_the_adapter_is_that_of_the_program(tmp_path):
    rows = Rows(count=32, length=17)
    model = adapted(ALL)
    model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    llama().save_pretrained(tmp_path / "base")
    args = arguments(tmp_path / "ours", max_steps=12, lr_scheduler_type="constant", warmup_steps=0, gradient_accumulation_steps=1, seed=7)
    trainer = Trainer(model, args, train_dataset=rows, layout=dict(pp=2, microbatches=4))
    loader, order = trainer.get_train_dataloader(), []
    for epoch in range(2):
        loader.set_epoch(epoch)
        order += [row for batch in loader for row in batch["input_ids"]]
    write_rows(tmp_path / "rows.jsonl", order[:48])
    trainer.train()
    trainer.save_model(tmp_path / "ours" / "end")
    pipetrain.train(
        model=tmp_path / "base", adapter=tmp_path / "adapter", data=tmp_path / "rows.jsonl", shuffle=False, steps=12, device="cpu",
        lr=args.learning_rate, lr_schedule="constant", weight_decay=args.weight_decay, beta1=args.adam_beta1, beta2=args.adam_beta2,
        adam_eps=args.adam_epsilon, clip_grad=args.max_grad_norm, seed=7, microbatches=4, save=tmp_path / "run",
    )  # fmt: skip
    ours, programs = ((folder / "adapter_model.safetensors").read_bytes() for folder in (tmp_path / "ours" / "end", tmp_path / "run" / "model"))
    assert ours == programs


def test_a_resumed_adapter_goes_on_to_the_bit(tmp_path):
    def train(resume=None):
        args = arguments(tmp_path, save_strategy="steps", save_steps=5)
        trainer = Trainer(adapted(ATTENTION), args, train_dataset=Rows(), layout=dict(pp=2))
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    whole = train()
    names = {file.name for file in (tmp_path / "checkpoint-5").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "trainer_state.json", "scheduler.pt", "pipetrain"} <= names
    resumed = train(str(tmp_path / "checkpoint-5"))
    assert logged(resumed, "loss") == logged(whole, "loss")
    for name, mine in trained(resumed.model).items():
        assert torch.equal(mine, trained(whole.model)[name]), name


def test_the_best_adapter_is_loaded_at_the_end(tmp_path):
    args = arguments(tmp_path, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2, load_best_model_at_end=True,
                     learning_rate=0.5, max_steps=6)  # fmt: skip
    trainer = Trainer(adapted(ATTENTION), args, train_dataset=Rows(), eval_dataset=Rows(count=8, seed=2))
    trainer.train()
    best = min(range(3), key=lambda index: logged(trainer, "eval_loss")[index])
    stored = peft.PeftModel.from_pretrained(llama(), tmp_path / f"checkpoint-{2 * best + 2}", is_trainable=True)
    for name, mine in trained(trainer.model).items():
        assert torch.equal(mine, trained(stored)[name]), name


@pytest.mark.slow
@pytest.mark.skipif(ROUNDS, reason="transformers before version 5 has no train_sampling_strategy")
@pytest.mark.skipif("PIPETRAIN_PROGRAM" not in os.environ, reason="PIPETRAIN_PROGRAM names no program")
def test_the_tutorial_leaves_the_file_of_the_program(tmp_path):
    """Runs section 1, which makes the model, and section 4 as they are written."""
    page = (Path(__file__).parents[2] / "docs/tutorials/adapters.md").read_text()
    first, last = page.index("## 1."), page.index("## 4.")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/pipetrain").symlink_to(os.environ["PIPETRAIN_PROGRAM"])
    (model,) = re.findall(r"```sh\n(.*?)```", page[first : page.index("## 2.")], re.S)
    (script,) = re.findall(r"```python\n(.*?)```", page[last:], re.S)
    (compare,) = re.findall(r"```shell\n(.*?)```", page[last:], re.S)
    subprocess.run(["sh", "-ec", model], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["sh", "-ec", compare], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "the same adapter" in done.stdout


def second_adapter(model):
    model.add_adapter("other", peft.LoraConfig(**ATTENTION))


def thawed_base(model):
    next(one for name, one in model.named_parameters() if name.endswith("embed_tokens.weight")).requires_grad_(True)


@pytest.mark.parametrize(
    ("config", "change", "line"),
    [
        (ATTENTION, second_adapter, "adapters default, other"),
        (ATTENTION, thawed_base, "embed_tokens.weight is trained, and the engine would freeze it"),
        (DORA, lambda model: None, "weight_decay=0.1.*magnitudes of DoRA"),
    ],
    ids=["two adapters", "a trained base", "decay and DoRA"],
)
def test_an_adapter_that_it_does_not_train_as_peft_does_is_refused(tmp_path, config, change, line):
    model = adapted(config)
    change(model)
    with pytest.raises(pipetrain.InputError, match=line):
        Trainer(model, arguments(tmp_path), train_dataset=Rows())


def test_an_adapter_that_is_not_lora_is_refused(tmp_path):
    model = peft.get_peft_model(llama(), peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]))
    with pytest.raises(pipetrain.InputError, match="type IA3; the engine trains LoRA"):
        Trainer(model, arguments(tmp_path), train_dataset=Rows())
