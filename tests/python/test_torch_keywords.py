"""Keyword arguments of pieces, beside the whole model; and wrong ones, which are named before anything runs."""

import copy
import gc
import weakref

import numpy as np
import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
mse = nn.functional.mse_loss
F64 = torch.float64


class First(nn.Module):
    """Takes what only it needs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()

    def forward(self, x, *, shift=None, attention_mask=None):
        x = self.linear(x)
        x = x if shift is None else x + shift[:, None]
        return x if attention_mask is None else x * attention_mask


class Middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()

    def forward(self, hidden, attention_mask=None, angles=None, scale=1.0):
        out = torch.tanh(self.linear(hidden)) * scale
        if angles is not None:
            cos, sin = angles["pair"]
            out = out * cos + hidden * sin
        return out if attention_mask is None else out * attention_mask


class Anything(nn.Module):
    """Gets all, as layers of Hugging Face's transformers do."""

    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(6, 6).double(), []

    def forward(self, hidden, **kwargs):
        self.seen.append(kwargs)
        return self.linear(hidden) * kwargs.get("attention_mask", 1)


def make_pieces(middle=2, seed=3):
    torch.manual_seed(seed)
    return [First(), *[Middle() for _ in range(middle)], Anything()]


def batch(rows=11):
    torch.manual_seed(4)
    x, y = torch.randn(rows, 6, dtype=F64), torch.randn(rows, 6, dtype=F64)
    kwargs = {
        "attention_mask": torch.rand(rows, 6, dtype=F64),
        "shift": torch.randn(rows, dtype=F64),
        "angles": {"pair": (torch.rand(rows, 6, dtype=F64), torch.rand(rows, 6, dtype=F64))},
        "scale": 0.5,
    }
    return x, y, kwargs


def whole(pieces, x, kwargs):
    for piece in pieces:
        takes = {First: ("shift", "attention_mask"), Middle: ("attention_mask", "angles", "scale"), Anything: kwargs}[type(piece)]
        x = piece(x, **{name: kwargs[name] for name in takes if name in kwargs})
    return x


@pytest.mark.parametrize("schedule, how", [("1f1b", {}), ("1f1b", {"recompute": True}), ("zb-h1", {}), ("zb-h1", {"split_linear": True})])
def test_pieces_get_their_part_of_the_arguments_that_they_take(schedule, how):
    pieces = make_pieces()
    model = copy.deepcopy(pieces)
    x, y, kwargs = batch()
    value = mse(whole(model, x, kwargs), y)
    value.backward()
    with pt.Pipeline(pieces, loss=mse, schedule=schedule, microbatches=4, **how) as pipeline:
        assert pipeline.step(x, y, kwargs=kwargs).loss == pytest.approx(value.item(), rel=1e-12)
        for one, other in zip(nn.ModuleList(pieces).parameters(), nn.ModuleList(model).parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-13)
        found = pipeline.evaluate(x, y, kwargs=kwargs, outputs=True)
        assert found.loss == pytest.approx(value.item(), rel=1e-12)
        torch.testing.assert_close(torch.cat(found.outputs), whole(model, x, kwargs), rtol=1e-12, atol=1e-14)
    seen = pieces[-1].seen
    assert set(seen[0]) == set(kwargs) and all(one["scale"] == 0.5 for one in seen)
    assert [len(one["attention_mask"]) for one in seen[-4:]] == [3, 3, 3, 2]


@pytest.mark.parametrize("schedule", ["interleaved", "zb-v"])
def test_chunks_of_a_stage_get_theirs(schedule):
    pieces = make_pieces(6)
    x, y, kwargs = batch()
    expected = mse(whole(pieces, x, kwargs), y).item()
    with pt.Pipeline(pieces, loss=mse, schedule=schedule, microbatches=4) as pipeline:
        for _ in range(2):
            assert pipeline.step(x, y, kwargs=kwargs).loss == pytest.approx(expected, rel=1e-12)


def test_lists_of_microbatches_say_how_tensors_are_split():
    pieces = make_pieces()
    x, y, kwargs = batch()
    sizes = [1, 5, 2, 3]
    expected = mse(whole(pieces, x, kwargs), y).item()
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        assert pipeline.step(list(x.split(sizes)), list(y.split(sizes)), kwargs=kwargs).loss == pytest.approx(expected, rel=1e-12)


def test_values_that_are_the_same_for_all_and_values_of_each_microbatch():
    pieces = make_pieces()
    x, y, _ = batch(8)
    row, shifts = torch.rand(1, 6, dtype=F64), [torch.randn(2, dtype=F64) for _ in range(4)]
    plain = {"attention_mask": row, "shift": torch.cat(shifts)}
    expected = mse(whole(pieces, x, plain), y).item()
    kwargs = {
        "attention_mask": pt.Repeated(row), "shift": pt.PerMicrobatch(shifts),
        "whatever": pt.Repeated(object()), "angles": {"pair": (pt.Repeated(torch.ones(1)), 0)},
    }  # fmt: skip
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        assert pipeline.step(x, y, kwargs=kwargs).loss == pytest.approx(expected, rel=1e-12)
    assert pieces[-1].seen[-1]["whatever"] is kwargs["whatever"].value
    assert pieces[-1].seen[-1]["attention_mask"].shape == (1, 6)


def test_a_compiled_piece_takes_what_its_module_takes():
    pieces = [First(), torch.compile(Middle(), backend="eager")]
    x, y, kwargs = batch()
    kwargs.pop("shift")
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        pipeline.step(x, y, kwargs=kwargs)
        with pytest.raises(pipetrain.InputError, match="takes scales; did you mean scale"):
            pipeline.step(x, y, kwargs={"scales": 1})


def test_arguments_are_let_go_of_after_the_step():
    x, y, kwargs = batch()
    with pt.Pipeline(make_pieces(), loss=mse, microbatches=4) as pipeline:
        pipeline.stages[-1].modules[0].seen = _Nothing()
        gone = weakref.ref(kwargs["shift"])
        pipeline.step(x, y, kwargs=kwargs)
        del kwargs
        gc.collect()
        assert gone() is None
        pipeline.step(x, y)  # it needs none


class _Nothing:
    def append(self, value):
        pass


def test_wrong_arguments_are_named_before_anything_runs():
    class Box:
        pass

    x, y, _ = batch()
    pieces = make_pieces()[:3]  # none accepts arbitrary keywords
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        for kwargs, words in [
            ([1], "kwargs: a list; give a dict"),
            ({1: 2}, "kwargs: a dict; give a dict from names"),
            ({"attn_mask": x}, "kwargs: no piece's forward takes attn_mask; did you mean attention_mask"),
            ({"zzz": x}, "takes zzz; the pieces take angles, attention_mask, scale, shift"),
            ({"hidden": x}, "kwargs: hidden is what piece 1 is called with"),
            ({"shift": x[:10]}, "kwargs: shift: 10 along the first axis, where inputs have 11, .*Repeated"),
            ({"angles": {"pair": (x, x[:1])}}, r"kwargs: angles\['pair'\]\[1\]: 1 along the first axis, where inputs have 11"),
            ({"scale": torch.tensor(2.0)}, "kwargs: scale: a tensor without axes cannot be split"),
            ({"shift": x.to_sparse()}, "kwargs: shift: a sparse or nested tensor"),
            ({"shift": np.ones(11)}, "kwargs: shift: a ndarray cannot be split into microbatches; give tensors, .*Repeated"),
            ({"shift": [x, Box()]}, r"kwargs: shift\[1\]: a Box cannot be split"),
            ({"shift": pt.PerMicrobatch([1, 2, 3])}, "kwargs: shift: PerMicrobatch of 3 values; the pipeline has 4"),
        ]:
            for call in (pipeline.step, pipeline.evaluate):
                with pytest.raises(pipetrain.InputError, match=words):
                    call(x, y, kwargs=kwargs)
        with pytest.raises(pipetrain.InputError, match="shift: inputs have no tensors that say how to split one"):
            pipeline.step(["a"] * 4, y, kwargs={"shift": x})
        assert pipeline.step(x, y, kwargs={}).step == 1
    with pt.Pipeline([nn.Linear(6, 6).double()], loss=mse, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.InputError, match="takes mask, and none takes any"):
            pipeline.step(x, y, kwargs={"mask": x})


def test_an_argument_that_a_piece_gets_from_the_one_before_too_ends_the_step():
    class Both(nn.Module):
        def forward(self, x):
            return x, x

    x, y, kwargs = batch()
    with pt.Pipeline([Both(), Middle()], loss=mse, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="stage 1: TypeError: .*multiple values for argument 'attention_mask'"):
            pipeline.step(x, y, kwargs={"attention_mask": kwargs["attention_mask"]})
