"""What a user of PyTorch does around a pipeline: structured values, autocast, shared weights, schedulers; and mistakes, which are named."""

import copy

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
mse = nn.functional.mse_loss


def layers(count, seed=3):
    torch.manual_seed(seed)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double() for _ in range(count)]


def batch(rows=8):
    torch.manual_seed(4)
    return torch.randn(rows, 6, dtype=torch.float64), torch.randn(rows, 6, dtype=torch.float64)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def gradients_of(pieces):
    return [one.grad for one in nn.ModuleList(pieces).parameters()]


def check_gradients(pieces, expected):
    for gradient, other in zip(gradients_of(pieces), expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-13)


class Named(nn.Module):
    """Takes and returns a dict, with a list in it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()

    def forward(self, x):
        if torch.is_tensor(x):
            x = {"hidden": x, "rest": [x, "a word"]}
        return {"hidden": torch.tanh(self.linear(x["hidden"])), "rest": [x["hidden"] + x["rest"][0], "a word"]}


class Unnamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()

    def forward(self, x):
        assert x["rest"][1] == "a word"
        return self.linear(x["hidden"]) + x["rest"][0]


@pytest.mark.parametrize("schedule,recompute", [("1f1b", False), ("zb-h1", False), ("1f1b", True)])
def test_dicts_and_lists_inside_of_them_carry_gradients(schedule, recompute):
    torch.manual_seed(6)
    pieces = [Named(), Named(), Named(), Unnamed()]
    whole = copy.deepcopy(pieces)
    x, y = batch()
    value = mse(nn.Sequential(*whole)(x), y)
    value.backward()
    with pt.Pipeline(pieces, loss=mse, schedule=schedule, microbatches=4, recompute=recompute) as pipeline:
        assert pipeline.step(x, y).loss == pytest.approx(value.item(), rel=1e-12)
    check_gradients(pieces, gradients_of(whole))


def test_inputs_and_targets_may_be_dicts_microbatch_by_microbatch():
    torch.manual_seed(6)
    pieces = [Named(), Unnamed()]
    x, y = batch()
    inputs = [{"hidden": one, "rest": [one, "a word"]} for one in x.split(2)]
    targets = [{"y": one} for one in y.split(2)]
    with pt.Pipeline(pieces, loss=lambda out, target: mse(out, target["y"]), microbatches=4) as pipeline:
        assert pipeline.step(inputs, targets).loss == pytest.approx(mse(nn.Sequential(*pieces)(x), y).item(), rel=1e-12)


def test_an_object_that_hides_tensors_is_refused():
    class Box:
        def __init__(self, value):
            self.value = value

    class Boxing(nn.Linear):
        def forward(self, x):
            return Box(super().forward(x))

    class Unboxing(nn.Linear):
        def forward(self, x):
            return super().forward(x.value)

    with pt.Pipeline([Boxing(6, 6).double(), Unboxing(6, 6).double()], loss=mse, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="piece 0 returned a Box, in which gradients are not found"):
            pipeline.step(*batch())


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_autocast_around_a_step_is_that_of_its_forwards(schedule):
    seen = []

    class Seen(nn.Linear):
        def forward(self, x):
            seen.append(super().forward(x).dtype)
            return super().forward(x)

    torch.manual_seed(6)
    pieces = [Seen(6, 6) for _ in range(3)]
    whole = copy.deepcopy(pieces)
    x, y = (one.float() for one in batch())
    with torch.autocast("cpu", torch.bfloat16):
        outputs = [nn.Sequential(*whole)(one) for one in x.split(2)]
        value = sum(mse(output, one) / 4 for output, one in zip(outputs, y.split(2)))
    value.backward()
    seen.clear()
    with pt.Pipeline(pieces, loss=mse, schedule=schedule, microbatches=4) as pipeline:
        with torch.autocast("cpu", torch.bfloat16):
            assert pipeline.step(x, y).loss == pytest.approx(value.item(), rel=1e-5)
        assert set(seen) == {torch.bfloat16}
        assert all(gradient.dtype == torch.float32 for gradient in gradients_of(pieces))
        for gradient, other in zip(gradients_of(pieces), gradients_of(whole), strict=True):
            torch.testing.assert_close(gradient, other, rtol=2e-2, atol=2e-3)
        seen.clear()
        pipeline.step(x, y)
        assert set(seen) == {torch.float32}


def test_autocast_does_not_go_with_split_linear():
    with pt.Pipeline(layers(2), loss=mse, microbatches=4, split_linear=True) as pipeline:
        with torch.autocast("cpu", torch.bfloat16), pytest.raises(pipetrain.InputError, match="split_linear"):
            pipeline.step(*batch())


@pytest.mark.parametrize("schedule", ["zb-v", "interleaved"])
def test_chunks_of_a_stage_may_share_weights(schedule):
    pieces = layers(4)
    chunks_of_one_stage = {"zb-v": (0, 3), "interleaved": (0, 2)}[schedule]
    pieces[chunks_of_one_stage[1]] = pieces[chunks_of_one_stage[0]]
    whole = nn.Sequential(*copy.deepcopy(nn.ModuleList(pieces)))
    x, y = batch()
    optimizer = sgd(whole.parameters())
    losses, norms = [], []
    for _ in range(3):
        optimizer.zero_grad()
        value = mse(whole(x), y)
        value.backward()
        losses.append(value.item())
        norms.append(float(nn.utils.clip_grad_norm_(whole.parameters(), 0.05)))
        optimizer.step()
    with pt.Pipeline(pieces, loss=mse, schedule=schedule, stages=2, microbatches=4, clip_grad=0.05, optimizer=sgd) as pipeline:
        steps = [pipeline.step(x, y) for _ in range(3)]
    assert [one.loss for one in steps] == pytest.approx(losses, rel=1e-10)
    assert [one.grad_norm for one in steps] == pytest.approx(norms, rel=1e-10)
    with pytest.raises(pipetrain.InputError, match="reduce: chunks of a stage share"):
        pt.Pipeline(pieces, loss=mse, schedule=schedule, stages=2, microbatches=4, reduce=lambda parameters: None)


def test_learning_rates_are_scheduled_and_a_run_goes_on_from_its_state():
    x, y = batch()

    def run(pieces, steps, state=None):
        whole = nn.Sequential(*pieces)
        with pt.Pipeline(pieces, loss=mse, microbatches=4, optimizer=lambda p: torch.optim.AdamW(p, lr=0.1)) as pipeline:
            schedulers = [torch.optim.lr_scheduler.StepLR(one, 1, 0.5) for one in pipeline.optimizers]
            if state is not None:
                whole.load_state_dict(state[0])
                for kept, one in zip(state[1], [*pipeline.optimizers, *schedulers], strict=True):
                    one.load_state_dict(kept)
            losses = []
            for _ in range(steps):
                losses.append(pipeline.step(x, y).loss)
                for one in schedulers:
                    one.step()
            return losses, copy.deepcopy((whole.state_dict(), [one.state_dict() for one in [*pipeline.optimizers, *schedulers]]))

    expected, _ = run(layers(4), 5)
    first, state = run(layers(4), 2)
    rest, _ = run(layers(4, seed=9), 3, state)
    assert first + rest == expected


def test_without_an_optimizer_gradients_are_left_clipped_for_one_of_the_callers():
    pieces = layers(4)
    whole = nn.Sequential(*copy.deepcopy(nn.ModuleList(pieces)))
    x, y = batch()
    mine, others = sgd(nn.ModuleList(pieces).parameters()), sgd(whole.parameters())
    with pt.Pipeline(pieces, loss=mse, microbatches=4, clip_grad=0.05) as pipeline:
        for _ in range(3):
            others.zero_grad()
            value = mse(whole(x), y)
            value.backward()
            nn.utils.clip_grad_norm_(whole.parameters(), 0.05)
            assert pipeline.step(x, y).loss == pytest.approx(value.item(), rel=1e-10)
            check_gradients(pieces, [one.grad for one in whole.parameters()])
            mine.step()
            others.step()
        with pytest.raises(pipetrain.InputError, match="learning_rate: 0.1, and the pipeline has no optimizer"):
            pipeline.step(x, y, learning_rate=0.1)


def test_optimizers_leave_out_stages_without_weights():
    with pt.Pipeline([nn.Tanh(), *layers(2)], loss=mse, microbatches=4, optimizer=sgd) as pipeline:
        pipeline.step(*batch())
        assert len(pipeline.optimizers) == 2


def test_running_statistics_are_not_counted_twice():
    pieces = [nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).double() for _ in range(2)]
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        pipeline.step(*batch())
    assert pieces[0][1].num_batches_tracked == 4
    with pytest.raises(pipetrain.InputError, match="recompute: 1 has running statistics"):
        pt.Pipeline(pieces, loss=mse, microbatches=4, recompute=True)


def test_mistakes_in_making_a_pipeline_are_named():
    made = torch.optim.SGD(nn.Sequential(*layers(2)).parameters(), lr=0.1)
    for change, words in [
        ({"loss": None}, "loss: None; give a function"),
        ({"optimizer": made}, "optimizer: a SGD; give a function"),
        ({"pieces": nn.Sequential(*layers(2))}, r"pieces: one Sequential; give a list of modules, such as cut_sequential\(\)"),
        ({"pieces": [torch.tanh, layers(1)[0]]}, "pieces: number 0 is a builtin_function_or_method"),
    ]:
        arguments = {"pieces": layers(2), "loss": mse, "microbatches": 4, **change}
        with pytest.raises(pipetrain.InputError, match=words):
            pt.Pipeline(arguments.pop("pieces"), **arguments)
    with pt.Pipeline(nn.ModuleList(layers(2)), loss=mse, microbatches=4) as pipeline:
        pipeline.step(*batch())


def test_batches_that_do_not_fit_are_named():
    x, y = batch(12)
    with pt.Pipeline(layers(2), loss=mse, microbatches=4) as pipeline:
        for inputs, targets, words in [
            (x.numpy(), y, "inputs: a ndarray; give a tensor, or a list of 4 microbatches"),
            ({"x": x}, y, "inputs: a dict; give a tensor"),
            (list(x.split(4)), y, "inputs: a list of 3; the pipeline has 4"),
            (x, list(y.split(4)), "targets: a list of 3; the pipeline has 4"),
            (x, y[:6], "targets: 6 along the first axis, where inputs have 12"),
            (x[:7], torch.cat([y, y[:2]]), "targets: 14 along the first axis, where inputs have 7"),
            (torch.tensor(1.0), y, "inputs: 0 samples cannot be split into 4 microbatches"),
            (x, torch.tensor(1.0), "targets: 0 samples cannot be split into 4 microbatches"),
            (x[:0], y, "inputs: 0 samples cannot be split into 4 microbatches"),
            (x[:0], y[:0], "inputs: 0 samples cannot be split into 4 microbatches"),
        ]:
            with pytest.raises(pipetrain.InputError, match=words):
                pipeline.step(inputs, targets)
        assert pipeline.step(x, y).step == 1


def test_a_loss_that_is_no_number_is_named():
    with pt.Pipeline(layers(2), loss=lambda output, target: (output - target) ** 2, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match=r"loss: it gave a tensor of shape \[2, 6\]; give a tensor of one number"):
            pipeline.step(*batch())
