"""Weights whose gradients are products of their own, beside autograd of the whole model, in double precision."""

import copy

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from test_torch import WIDTH, Residual, adam, batch, check_equals_whole, loss, make_pieces  # noqa: E402
from pipetrain.torch.split_linear import WeightGradients  # noqa: E402
from torch import nn  # noqa: E402


@pytest.mark.parametrize("schedule", [one[0] for one in pipetrain.all_schedules()])
def test_every_schedule_equals_autograd_of_the_whole_model(schedule):
    check_equals_whole(schedule, split_linear=True)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-v"])
def test_recomputed_forwards_change_nothing(schedule):
    check_equals_whole(schedule, split_linear=True, recompute=True)


class Compiled(nn.Module):
    """A layer whose forward torch.compile makes, as users compile a transformer's blocks."""

    def __init__(self):
        super().__init__()
        self.body = Residual()
        self.body.compile(backend="aot_eager")

    def forward(self, x):
        return self.body(x)


def products_of(work):
    with torch.profiler.profile() as profile:
        work()
    return sum(event.count for event in profile.key_averages() if event.key in ("aten::mm", "aten::addmm", "aten::addmm_"))


def test_a_compiled_layer_leaves_the_products_of_its_weights_to_w():
    torch.manual_seed(4)
    layer, plain = Compiled().double(), Residual().double()
    plain.load_state_dict(layer.body.state_dict())
    x, dy = torch.randn(5, WIDTH, dtype=torch.float64), torch.randn(5, WIDTH, dtype=torch.float64)
    stage = pt.TorchStage([layer], 3, loss=loss, device=torch.device("cpu"), split_linear=True)

    def launch(kind, **inputs):
        return pipetrain.Launch(kind, 0, 0, 1, **{"activation": None, "gradient": None, "target": None, **inputs})

    for compiled in (False, True):
        layer.zero_grad()
        stage.forward(launch("F", activation=x))
        in_i = products_of(lambda: stage.input_grad(launch("I", gradient=[dy])))
        assert layer.body.up.weight.grad is None and layer.body.norm.weight.grad is not None
        in_w = products_of(lambda: stage.weight_grad(launch("W")))
        if compiled:
            assert (in_i, in_w) == (2, 2)
    plain(x).backward(dy)
    for parameter, other in zip(layer.body.parameters(), plain.parameters()):
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-12, atol=1e-14)
    stage.close()
    assert type(layer.body.up) is nn.Linear


def test_a_piece_that_begins_with_a_linear_layer_and_input_without_a_gradient():
    torch.manual_seed(6)
    pieces = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()).double(), nn.Linear(4, 2).double()]
    whole = nn.Sequential(*copy.deepcopy(pieces))
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    expected = nn.functional.mse_loss(whole(x), y)
    expected.backward()
    for schedule in ("1f1b", "zb-h1"):
        for piece in pieces:
            piece.zero_grad()
        with pt.Pipeline(pieces, loss=nn.functional.mse_loss, schedule=schedule, microbatches=3, split_linear=True) as pipeline:
            assert pipeline.step(x, y).loss == pytest.approx(expected.item(), rel=1e-12)
        for parameter, other in zip(nn.Sequential(*pieces).parameters(), whole.parameters()):
            torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-12, atol=1e-15)


def test_factors_that_compiled_code_overwrites_are_noticed():
    """Stands for a compiler that uses memory anew."""
    weight = nn.Parameter(torch.ones(2, 2))
    kept = WeightGradients(set())
    inputs, gradient = torch.ones(3, 2), torch.ones(3, 2)
    kept.keep(weight, inputs, gradient)
    gradient.zero_()
    with pytest.raises(pipetrain.Error, match="memory of a weight gradient's factors anew"):
        kept.add()
    assert weight.grad is None


def test_factors_that_are_not_finite_are_no_damage():
    weight = nn.Parameter(torch.ones(2, 2))
    kept = WeightGradients(set())
    kept.keep(weight, torch.full((3, 2), float("nan")), torch.full((3, 2), float("inf")))
    kept.add()
    assert weight.grad.isnan().all()


def test_a_pipeline_that_is_refused_leaves_the_modules_as_they_were():
    shared = nn.Linear(4, 4)
    pieces = [nn.Sequential(nn.Linear(4, 4), shared), shared]
    with pytest.raises(pipetrain.InputError, match="stages 0 and 1"):
        pt.Pipeline(pieces, loss=loss, split_linear=True)
    assert [type(one) for one in (pieces[0][0], shared)] == [nn.Linear, nn.Linear]


def test_weights_that_something_else_has_too_stay_with_autograd():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(17, WIDTH), nn.Linear(WIDTH, 17, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            return self.head(self.table(tokens))

    torch.manual_seed(7)
    piece = Tied().double()
    whole = copy.deepcopy(piece)
    tokens, targets = batch()
    expected = loss(whole(tokens), targets)
    expected.backward()
    with pt.Pipeline([piece], loss=loss, microbatches=2, split_linear=True) as pipeline:
        assert type(piece.head) is nn.Linear
        pipeline.step(tokens, targets)
    torch.testing.assert_close(piece.table.weight.grad, whole.table.weight.grad, rtol=1e-12, atol=1e-15)


def test_autocast_and_a_backward_outside_the_pipeline_are_refused():
    pieces = make_pieces(2)
    tokens, targets = batch()
    with pt.Pipeline(pieces, loss=loss, microbatches=2, optimizer=adam, split_linear=True):
        with pytest.raises(pipetrain.Error, match="outside the pipeline"):
            loss(nn.Sequential(*pieces)(tokens), targets).backward()
        with torch.autocast("cpu"), pytest.raises(pipetrain.InputError, match="autocast"):
            pieces[1](torch.randn(2, 7, WIDTH, dtype=torch.float64))
    loss(nn.Sequential(*pieces)(tokens), targets).backward()  # the pipeline is closed
