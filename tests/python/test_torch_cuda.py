"""Stages on GPUs, beside autograd of the whole model on the CPU, in double precision. Skipped where there is no GPU."""

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from test_torch import Wide, adam, batch, check_equals_whole, make_pieces, loss, train_whole  # noqa: E402
from test_torch_keywords import batch as keyword_batch  # noqa: E402
from test_torch_keywords import make_pieces as keyword_pieces  # noqa: E402
from test_torch_keywords import whole  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def devices(stages):
    return [f"cuda:{stage % torch.cuda.device_count()}" for stage in range(stages)]


@pytest.mark.parametrize("split_linear", [False, True])
@pytest.mark.parametrize("schedule", [one[0] for one in pipetrain.all_schedules()])
def test_every_schedule_equals_autograd_of_the_whole_model(schedule, split_linear):
    check_equals_whole(schedule, devices=devices(4), split_linear=split_linear)


def test_the_stages_of_one_model_may_be_on_the_cpu_and_on_a_gpu():
    check_equals_whole("zb-h1", devices=["cpu", "cuda:0", "cpu", "cuda:0"])


def test_inputs_and_targets_on_any_device_and_many_steps():
    """Long enough for memory to be used anew while copies of it run, if nothing held it."""
    pieces = make_pieces(4)
    whole, losses, _ = train_whole(pieces, 30)
    tokens, targets = batch()
    tokens, targets = tokens.to(devices(4)[1]), targets.to(devices(4)[0])
    with pt.Pipeline(pieces, loss=loss, microbatches=4, optimizer=adam, devices=devices(4), schedule="zb-h1") as pipeline:
        found = [pipeline.step(tokens, targets).loss for _ in losses]
    assert found == pytest.approx(losses, rel=1e-9)


@pytest.mark.parametrize("place", ["cpu", "cuda:0"])
def test_keyword_arguments_go_to_the_gpu_of_each_stage_and_outputs_stay_on_the_last(place):
    pieces = keyword_pieces()
    x, y, kwargs = keyword_batch()
    with torch.no_grad():
        outputs = whole(pieces, x, kwargs)
    kwargs = {name: one.to(place) if isinstance(one, torch.Tensor) else one for name, one in kwargs.items()}
    mse = nn.functional.mse_loss
    with pt.Pipeline(pieces, loss=mse, schedule="zb-h1", microbatches=4, devices=devices(4)) as pipeline:
        found = pipeline.evaluate(x, y, kwargs=kwargs, outputs=True)
        assert all(one.device == torch.device(devices(4)[-1]) for one in found.outputs)
        torch.testing.assert_close(torch.cat(found.outputs).cpu(), outputs, rtol=1e-11, atol=1e-13)
        assert found.loss == pytest.approx(mse(outputs, y).item(), rel=1e-11)
        assert pipeline.step(x, y, kwargs=kwargs).loss == pytest.approx(found.loss, rel=1e-11)


def test_large_values_arrive_whole_while_the_sender_goes_on():
    torch.manual_seed(1)
    pieces = [Wide(2048) for _ in range(2)]
    x = torch.randn(16 * 1024, 2048)
    expected = nn.functional.mse_loss(nn.Sequential(*pieces).cuda()(x.cuda()), torch.zeros_like(x).cuda())
    with pt.Pipeline(pieces, loss=nn.functional.mse_loss, microbatches=16, devices=devices(2)) as pipeline:
        for _ in range(5):
            assert pipeline.step(x, torch.zeros_like(x)).loss == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-v"])
def test_compiled_layers_whose_weights_wait_for_w(schedule):
    """The factors of the weights' gradients are memory that compiled code made, and would use anew."""

    def blocks(count):
        torch.manual_seed(2)
        pieces = [nn.Sequential(*[Mixed() for _ in range(2)]).double() for _ in range(count)]
        pieces[-1].append(nn.Linear(Mixed.width, 17).double())
        return [nn.Sequential(nn.Embedding(17, Mixed.width).double(), pieces[0]), *pieces[1:]]

    pieces = blocks(2 if schedule == "1f1b" else 4)
    whole, losses, norms = train_whole(pieces, 3)
    for piece in pieces:
        for layer in piece.modules():
            if isinstance(layer, Mixed):
                layer.compile()
    tokens, targets = batch()
    with pt.Pipeline(
        pieces, loss=loss, schedule=schedule, microbatches=4, optimizer=adam, devices=devices(2), split_linear=True
    ) as pipeline:
        for expected, norm in zip(losses, norms):
            step = pipeline.step(tokens, targets)
            assert (step.loss, step.grad_norm) == pytest.approx((expected, norm), rel=1e-10)


class Mixed(nn.Module):
    """Products between elementwise operations, which a compiler fuses and computes in place."""

    width = 32

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(self.width)
        self.gate, self.up, self.down = (nn.Linear(self.width, self.width) for _ in range(3))

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * torch.tanh(self.up(y)))
