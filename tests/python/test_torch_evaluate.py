"""Evaluation of a pipeline of PyTorch modules, beside a plain forward of the whole model; and calls of it out of order."""

import copy
import os
import subprocess
import sys
import threading

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from test_torch import adam, batch, loss, make_pieces  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
mse = nn.functional.mse_loss


def chunks_of(schedule):
    return next(chunks for name, chunks, *_ in pipetrain.all_schedules() if name == schedule)


def whole_loss(pieces, tokens, targets):
    with torch.no_grad():
        return loss(nn.Sequential(*copy.deepcopy(pieces)).eval()(tokens), targets).item()


def layers(count, seed=3):
    torch.manual_seed(seed)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double() for _ in range(count)]


def numbers(rows=8):
    torch.manual_seed(4)
    return torch.randn(rows, 6, dtype=torch.float64), torch.randn(rows, 6, dtype=torch.float64)


@pytest.mark.parametrize("schedule", [one[0] for one in pipetrain.all_schedules()])
def test_every_schedule_evaluates_what_the_whole_model_does_and_changes_nothing(schedule):
    pieces = make_pieces(4 * chunks_of(schedule))
    alone = copy.deepcopy(pieces)
    tokens, targets = batch()
    others = tokens.roll(1, 0), targets.roll(2, 1)
    how = {"loss": loss, "schedule": schedule, "microbatches": 4, "optimizer": adam}
    with pt.Pipeline(alone, **how) as pipeline:
        steps = [pipeline.step(tokens, targets) for _ in range(2)]
    with pt.Pipeline(pieces, **how) as pipeline:
        assert pipeline.evaluate(*others).loss == pytest.approx(whole_loss(pieces, *others), rel=1e-12)
        assert pipeline.step(tokens, targets) == steps[0]
        gradients = [one.grad.clone() for one in nn.ModuleList(pieces).parameters()]
        for _ in range(2):
            assert pipeline.evaluate(*others).loss == pytest.approx(whole_loss(pieces, *others), rel=1e-12)
        assert all(torch.equal(one.grad, kept) for one, kept in zip(nn.ModuleList(pieces).parameters(), gradients))
        assert pipeline.timeline().title.endswith(", evaluated")
        assert {action[-2] for row in range(4) for action, *_ in pipeline.timeline().spans(row) if action[-1].isdigit()} == {"F"}
        assert pipeline.step(tokens, targets) == steps[1]


@pytest.mark.parametrize("how", [{"recompute": True}, {"split_linear": True}, {"order": "ready"}])
def test_evaluation_goes_with_what_steps_go_with(how):
    pieces = make_pieces(4)
    tokens, targets = batch()
    expected = whole_loss(pieces, tokens, targets)
    with pt.Pipeline(pieces, loss=loss, microbatches=4, **how) as pipeline:
        pipeline.step(tokens, targets)
        assert pipeline.evaluate(tokens, targets).loss == pytest.approx(expected, rel=1e-12)


class Noticing(nn.Module):
    """Does something of its own when its mode changes, as layers that merge their adapters do; and says how it was called."""

    def __init__(self):
        super().__init__()
        self.linear, self.dropout, self.norm = nn.Linear(6, 6), nn.Dropout(0.5), nn.BatchNorm1d(6)
        self.merged, self.called = False, []

    def train(self, mode=True):
        self.merged = not mode
        return super().train(mode)

    def forward(self, x):
        self.called.append((self.training, self.merged, torch.is_grad_enabled()))
        return self.norm(self.dropout(self.linear(x)))


def test_modules_are_in_eval_mode_under_no_grad_and_afterwards_as_they_were():
    torch.manual_seed(5)
    pieces = [Noticing().double() for _ in range(3)]
    x, y = numbers(16)
    nn.Sequential(*pieces)(x)  # gives the norms statistics
    pieces[1].norm.eval()  # frozen
    pieces[2].eval()
    pieces[2].dropout.train()
    modes = [one.training for one in nn.ModuleList(pieces).modules()]
    before = copy.deepcopy(nn.ModuleList(pieces).state_dict())
    expected = mse(nn.Sequential(*copy.deepcopy(pieces)).eval()(x), y).item()
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        for one in pieces:
            one.called.clear()
        assert pipeline.evaluate(x, y).loss == pytest.approx(expected, rel=1e-12)
        for one in pieces:
            assert one.called == [(False, True, False)] * 4
        assert [one.training for one in nn.ModuleList(pieces).modules()] == modes
        assert [one.merged for one in pieces] == [False, False, True]
    for name, value in nn.ModuleList(pieces).state_dict().items():
        assert torch.equal(value, before[name]), name


def test_outputs_of_the_last_piece_are_kept_where_they_are_asked_for():
    pieces = layers(3)
    x, y = numbers(7)
    whole = nn.Sequential(*pieces)
    with pt.Pipeline(pieces, loss=mse, schedule="interleaved", stages=3, microbatches=3) as pipeline:
        assert pipeline.evaluate(x, y).outputs is None
        found = pipeline.evaluate(x, outputs=True)
        assert found.loss is None and [len(one) for one in found.outputs] == [3, 2, 2]
        assert not any(one.requires_grad for one in found.outputs)
        torch.testing.assert_close(torch.cat(found.outputs), whole(x), rtol=1e-12, atol=1e-14)
        both = pipeline.evaluate(list(x.split(3)), list(y.split(3)), outputs=True)
        assert both.loss == pytest.approx(mse(whole(x), y).item(), rel=1e-12) and len(both.outputs) == 3
        with pytest.raises(pipetrain.InputError, match="targets: None, and no outputs"):
            pipeline.evaluate(x)
        with pytest.raises(pipetrain.InputError, match="inputs: None"):
            pipeline.evaluate(None, y)


def test_weights_say_how_much_a_microbatch_counts():
    pieces = layers(2)
    x, y = numbers(8)
    weights = [1.0, 0.0, 3.0, 0.0]
    whole = nn.Sequential(*pieces)
    expected = sum(weight / 4 * mse(whole(one), other).item() for weight, one, other in zip(weights, x.split(2), y.split(2)))
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        assert pipeline.evaluate(x, y, weights=weights).loss == pytest.approx(expected, rel=1e-12)


def test_a_loss_that_is_not_finite_is_given_and_ends_nothing():
    pieces = layers(2)
    x, y = numbers()
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        assert pipeline.evaluate(x, y / 0).loss == float("inf")
        assert pipeline.step(x, y).step == 1


def test_autocast_around_an_evaluation_is_that_of_its_forwards():
    seen = []

    class Seen(nn.Linear):
        def forward(self, x):
            seen.append(super().forward(x).dtype)
            return super().forward(x)

    x, y = (one.float() for one in numbers())
    with pt.Pipeline([Seen(6, 6), Seen(6, 6)], loss=mse, microbatches=4) as pipeline:
        with torch.autocast("cpu", torch.bfloat16):
            pipeline.evaluate(x, y)
        assert set(seen) == {torch.bfloat16}


class Gate(nn.Module):
    """Waits in its first forward until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6).double()
        self.begun, self.go_on, self.modes = threading.Event(), threading.Event(), []

    def forward(self, x):
        self.begun.set()
        self.go_on.wait(20)
        self.modes.append(self.training)
        return self.linear(x)


@pytest.mark.parametrize("running", ["step", "evaluate"])
def test_it_is_refused_while_another_call_runs_and_leaves_that_alone(running):
    gate = Gate()
    x, y = numbers()
    with pt.Pipeline([gate, *layers(1)], loss=mse, microbatches=4) as pipeline:
        ended = []
        runner = threading.Thread(target=lambda: ended.append(getattr(pipeline, running)(x, y)))
        runner.start()
        assert gate.begun.wait(20)
        for call in (pipeline.step, pipeline.evaluate):
            with pytest.raises(pipetrain.MisuseError, match=f"{call.__name__}: a step of this pipeline is running"):
                call(x * 0, y)
        with pytest.raises(pipetrain.MisuseError, match="running"):
            pipeline.close()
        gate.go_on.set()
        runner.join()
        assert gate.modes == [running == "step"] * 4 and gate.training
        assert ended[0].loss == pytest.approx(pipeline.evaluate(x, y).loss, rel=1e-12)


def test_of_two_threads_that_evaluate_one_is_refused_or_waits_for_its_turn():
    pieces = layers(2)
    x, y = numbers()
    expected = mse(nn.Sequential(*pieces)(x), y).item()
    found, refused = [], []

    def evaluate():
        for _ in range(20):
            try:
                found.append(pipeline.evaluate(x, y).loss)
            except pipetrain.MisuseError as error:
                refused.append(str(error))

    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        threads = [threading.Thread(target=evaluate) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert len(found) + len(refused) == 60 and found == pytest.approx([expected] * len(found), rel=1e-12)
    assert all("running" in line for line in refused)
    assert all(one.training for one in nn.ModuleList(pieces).modules())


def test_from_inside_a_modules_code_it_is_refused():
    class Inside(nn.Linear):
        def forward(self, x):
            pipeline.evaluate(*numbers())
            return super().forward(x)

    x, y = numbers()
    with pt.Pipeline([Inside(6, 6).double(), *layers(1)], loss=mse, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="MisuseError: evaluate: called from inside a callback"):
            pipeline.evaluate(x, y)


def test_what_a_module_raises_ends_the_pipeline_and_modes_are_restored():
    class Broken(nn.Module):
        def forward(self, x):
            raise ArithmeticError("broken on purpose")

    pieces = [*layers(1), Broken()]
    x, y = numbers()
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="stage 1: ArithmeticError: broken on purpose") as failed:
            pipeline.evaluate(x, y)
        assert isinstance(failed.value.__cause__, ArithmeticError)
        assert all(one.training for one in nn.ModuleList(pieces).modules())
        for call in (pipeline.evaluate, pipeline.step):
            with pytest.raises(pipetrain.RunFailed, match="broken on purpose"):
                call(x, y)
        assert all(one.training for one in nn.ModuleList(pieces).modules())
    with pytest.raises(pipetrain.MisuseError, match="evaluate: the pipeline has been closed"):
        pipeline.evaluate(x, y)


def test_a_module_whose_mode_cannot_change_is_its_own_error():
    class Stubborn(nn.Linear):
        def train(self, mode=True):
            if not mode:
                raise TypeError("not to be evaluated")
            return super().train(mode)

    pieces = [*layers(1), Stubborn(6, 6).double()]
    x, y = numbers()
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        with pytest.raises(TypeError, match="not to be evaluated"):
            pipeline.evaluate(x, y)
        assert all(one.training for one in nn.ModuleList(pieces).modules())
        assert pipeline.step(x, y).step == 1


def test_a_module_of_two_pieces_is_afterwards_in_its_own_mode():
    frozen = nn.Dropout(0.5).eval()
    first, second = (nn.Sequential(nn.Linear(6, 6), frozen).double() for _ in range(2))
    second.eval()
    first.train()
    frozen.eval()
    x, y = numbers()
    for pieces in ([first, second], [second, first]):
        modes = [one.training for one in nn.ModuleList(pieces).modules()]
        with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
            pipeline.evaluate(x, y)
            assert [one.training for one in nn.ModuleList(pieces).modules()] == modes
    assert first.training and not second.training and not frozen.training


def test_a_module_that_cannot_go_back_to_its_mode_is_its_own_error_and_the_others_are_in_theirs():
    class Stubborn(nn.Linear):
        def train(self, mode=True):
            if mode:
                raise TypeError("not to be trained again")
            return super().train(mode)

    pieces = [Stubborn(6, 6).double(), *layers(2)]
    pieces[1][1].eval()
    x, y = numbers()
    modes = [one.training for one in nn.ModuleList(pieces).modules()]
    with pt.Pipeline(pieces, loss=mse, microbatches=4) as pipeline:
        with pytest.raises(TypeError, match="not to be trained again"):
            pipeline.evaluate(x, y)
        assert [one.training for one in nn.ModuleList(pieces).modules()] == modes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_told_that_it_has_no_threads():
    program = """
import os, sys, torch, pipetrain
import pipetrain.torch as pt
torch.set_num_threads(1)
pieces = [torch.nn.Linear(4, 4) for _ in range(2)]
x = torch.ones(4, 4)
pipeline = pt.Pipeline(pieces, loss=torch.nn.functional.mse_loss, microbatches=2)
expected = pipeline.evaluate(x, x).loss
child = os.fork()
if child == 0:
    for call in (pipeline.step, pipeline.evaluate):
        try:
            call(x, x)
            os._exit(1)
        except pipetrain.MisuseError as error:
            if "a fork has none of its threads" not in str(error) or not pieces[0].training:
                os._exit(2)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert pipeline.evaluate(x, x).loss == expected
pipeline.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
