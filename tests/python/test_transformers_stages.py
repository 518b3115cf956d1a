"""pipetrain.transformers.Trainer with families that the engine does not compute: their modules run as PyTorch stages."""

import logging

import numpy
import pytest

import pipetrain

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")

from transformers_models import SIZES, TOLERANCES, Rows, arguments, llama, logged, pad  # noqa: E402

if not hasattr(pipetrain._engine, "Training"):
    pytest.skip("the module was built without training", allow_module_level=True)

from pipetrain.transformers import Trainer  # noqa: E402
from pipetrain.transformers.pieces import check_pieces, cut_model  # noqa: E402
from pipetrain.transformers.stages import StagesRun  # noqa: E402


pytestmark = pytest.mark.usefixtures("one_thread")


def stable_lm():
    torch.manual_seed(0)
    return transformers.StableLmForCausalLM(transformers.StableLmConfig(**SIZES, attention_dropout=0.0))


def neox():
    torch.manual_seed(0)
    sizes = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**sizes, attention_dropout=0.0, hidden_dropout=0.0))


def bert():
    torch.manual_seed(0)
    sizes = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
    config = transformers.BertConfig(**sizes, num_labels=3, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    return transformers.BertForSequenceClassification(config)


class Labelled(Rows):
    def __getitem__(self, row):
        return {"input_ids": self.rows[row], "labels": int(self.rows[row][0]) % 3}


def compare(tmp_path, make, rows, layout, **changes):
    theirs = transformers.Trainer(make(), arguments(tmp_path / "theirs", **changes), **rows)
    theirs.train()
    ours = Trainer(make(), arguments(tmp_path / "ours", **changes), **rows, layout=layout)
    ours.train()
    for name in ("loss", "grad_norm"):
        numpy.testing.assert_allclose(logged(ours, name), logged(theirs, name), rtol=1e-4, atol=TOLERANCES[name], err_msg=name)
    for mine, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        numpy.testing.assert_allclose(mine.detach(), other.detach(), rtol=0, atol=5e-5)
    return ours


@pytest.mark.parametrize(("make", "layout"), [(stable_lm, dict(pp=2, schedule="zb-h1")), (neox, dict(pp=2, schedule="zb-v"))])
def test_another_family_trains_in_stages_as_in_one_piece(tmp_path, make, layout):
    """A last batch of two rows, of different lengths."""
    ours = compare(tmp_path, make, dict(train_dataset=Rows(count=50, shortest=5), data_collator=pad), layout)
    assert "unknown architecture" in ours.torch_stages


def test_an_encoder_trains_in_one_stage_with_any_optimizer(tmp_path):
    compare(tmp_path, bert, dict(train_dataset=Labelled(count=48)), dict(), optim="adafactor", gradient_accumulation_steps=1)


def test_it_says_that_it_runs_stages_and_why(tmp_path):
    seen = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    logger = logging.getLogger("pipetrain.transformers.trainer")
    logger.addHandler(handler)
    try:
        trainer = Trainer(stable_lm(), arguments(tmp_path), train_dataset=Rows(), layout=dict(pp=2))
    finally:
        logger.removeHandler(handler)
    assert "stablelm" in trainer.torch_stages
    assert any("2 PyTorch stages" in line and "stablelm" in line for line in seen)


def test_a_checkpoint_is_that_of_transformers_and_resumes(tmp_path):
    def train(resume=None):
        args = arguments(tmp_path, save_strategy="steps", save_steps=5)
        trainer = Trainer(stable_lm(), args, train_dataset=Rows(), layout=dict(pp=2))
        trainer.train(resume_from_checkpoint=resume)
        return logged(trainer, "loss")

    whole = train()
    assert (tmp_path / "checkpoint-5" / "optimizer.pt").exists()
    assert train(str(tmp_path / "checkpoint-5")) == whole


def test_what_cannot_be_cut_is_refused_by_name(tmp_path):
    with pytest.raises(pipetrain.InputError, match="BertForSequenceClassification has no embedding"):
        Trainer(bert(), arguments(tmp_path), train_dataset=Labelled(), layout=dict(pp=2)).train()
    ids = torch.stack(Rows(count=2).rows)
    model, batch = stable_lm(), {"input_ids": ids, "labels": ids}
    pieces = cut_model(model, 2)
    check_pieces(model, pieces, batch)
    with torch.no_grad():
        other = cut_model(stable_lm(), 2)
        other[1].part.lm_head.weight.mul_(2)
    with pytest.raises(pipetrain.InputError, match="the loss of StableLmForCausalLM is .* of its 2 pieces"):
        check_pieces(model, [pieces[0], other[1]], batch)
    with pytest.raises(pipetrain.InputError, match="tp: modules of PyTorch run in stages only"):
        Trainer(stable_lm(), arguments(tmp_path), train_dataset=Rows(), layout=dict(tp=2))


def test_the_engine_takes_its_own_families(tmp_path):
    trainer = Trainer(llama(), arguments(tmp_path, max_steps=1), train_dataset=Rows())
    trainer.train()
    assert trainer.torch_stages is None and not isinstance(trainer._run, StagesRun)
