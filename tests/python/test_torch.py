"""Pipelines of PyTorch modules against autograd of the whole model, in double precision."""

import copy

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
WIDTH = 12


class Residual(nn.Module):
    """Its parameters hang from several places: a norm, two matrices, a residual, and a gain that is used twice."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.gain = nn.Parameter(torch.full((1,), 0.7, dtype=torch.float64))

    def forward(self, x):
        return x * self.gain + self.down(torch.tanh(self.up(self.norm(x)))) * self.gain


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, WIDTH)

    def forward(self, tokens):
        return self.table(tokens)


class Wide(nn.Module):
    """One matrix of any width: for values of many bytes."""

    def __init__(self, width):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        return torch.tanh(x @ self.matrix)


def make_pieces(count, seed=1):
    torch.manual_seed(seed)
    pieces = [nn.Sequential(Embedding(), Residual())]
    pieces += [nn.Sequential(Residual(), Residual()) for _ in range(count - 2)]
    pieces += [nn.Sequential(Residual(), nn.Linear(WIDTH, 17))]
    return [piece.double() for piece in pieces]


def loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(rows=11):
    torch.manual_seed(5)
    tokens = torch.randint(0, 17, (rows, 7))
    return tokens, tokens.roll(-1, 1)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-2)


def train_whole(pieces, steps, clip_grad=None):
    model = nn.Sequential(*copy.deepcopy(pieces))
    optimizer = adam(model.parameters())
    tokens, targets = batch()
    losses, norms = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(tokens), targets)
        value.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), clip_grad or float("inf"))))
        optimizer.step()
        losses.append(value.item())
    return model, losses, norms


def check_equals_whole(schedule, **arguments):
    chunks = next(chunks for name, chunks, *_ in pipetrain.all_schedules() if name == schedule)
    pieces = make_pieces(4 * chunks)
    whole, losses, norms = train_whole(pieces, 3, arguments.get("clip_grad"))
    tokens, targets = batch()
    with pt.Pipeline(pieces, loss=loss, schedule=schedule, microbatches=4, optimizer=adam, **arguments) as pipeline:
        for expected, norm in zip(losses, norms):
            step = pipeline.step(tokens, targets)  # 11 rows: 3, 3, 3 and 2
            assert step.loss == pytest.approx(expected, rel=1e-12)
            assert step.grad_norm == pytest.approx(norm, rel=1e-12)
    for parameter, other in zip(nn.Sequential(*pieces).parameters(), whole.parameters()):
        torch.testing.assert_close(parameter.cpu(), other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("schedule", [one[0] for one in pipetrain.all_schedules()])
def test_every_schedule_equals_autograd_of_the_whole_model(schedule):
    check_equals_whole(schedule)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-v"])
def test_recomputed_forwards_change_nothing(schedule):
    check_equals_whole(schedule, recompute=True)


def test_clipping_is_over_all_stages_and_ready_order_changes_nothing():
    check_equals_whole("zb-h1", clip_grad=0.05, order="ready")


def split_gradients(module, x, dy):
    module.zero_grad()
    x = x.clone().requires_grad_()
    split = pt.SplitBackward([module(x)], [x], list(module.parameters()))
    dx = split.input_grad([dy])
    early = [parameter.grad is not None for parameter in module.parameters()]
    split.weight_grad()
    return dx[0], [parameter.grad.clone() for parameter in module.parameters()], early


def whole_gradients(module, x, dy):
    module.zero_grad()
    x = x.clone().requires_grad_()
    module(x).backward(dy)
    return x.grad, [parameter.grad.clone() for parameter in module.parameters()]


def test_the_halves_of_a_backward_give_what_it_gives_and_weights_wait_for_w():
    torch.manual_seed(3)
    module = nn.Sequential(Residual(), nn.Linear(WIDTH, WIDTH)).double()
    x, dy = torch.randn(5, WIDTH, dtype=torch.float64), torch.randn(5, WIDTH, dtype=torch.float64)
    dx, gradients, early = split_gradients(module, x, dy)
    expected_dx, expected = whole_gradients(module, x, dy)
    torch.testing.assert_close(dx, expected_dx, rtol=1e-13, atol=0)
    for gradient, other in zip(gradients, expected):
        torch.testing.assert_close(gradient, other, rtol=1e-13, atol=1e-15)
    assert dict(zip([name for name, _ in module.named_parameters()], early)) == {
        name: name == "0.gain" for name, _ in module.named_parameters()  # used twice
    }


def test_a_split_backward_does_the_work_of_each_half_once():
    """Counts the matrix products: I has one of each layer, W the other."""
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    x = torch.randn(4, 8, requires_grad=True)
    split = pt.SplitBackward([module(x)], [x], list(module.parameters()))

    def products(work):
        with torch.profiler.profile() as profile:
            work()
        return sum(event.count for event in profile.key_averages() if event.key == "aten::mm")

    assert products(lambda: split.input_grad([torch.ones(4, 8)])) == 3
    assert products(split.weight_grad) == 3


def test_pieces_may_pass_tuples_with_tensors_that_have_no_gradient():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, mask):
            return self.linear(x) * mask, mask

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x, mask):
            return self.linear(x)

    torch.manual_seed(2)
    pieces = [module.double() for module in (Masked(), Masked(), Last())]
    inputs = [(torch.randn(n, 4, dtype=torch.float64), torch.arange(4) % 2) for n in (2, 3)]
    targets = [torch.randn(n, 2, dtype=torch.float64) for n in (2, 3)]
    x, mask, y = torch.cat([one[0] for one in inputs]), inputs[0][1], torch.cat(targets)
    whole = [copy.deepcopy(piece) for piece in pieces]
    expected = nn.functional.mse_loss(whole[2](*whole[1](*whole[0](x, mask))), y)
    expected.backward()
    with pt.Pipeline(pieces, loss=nn.functional.mse_loss, schedule="zb-h1", microbatches=2) as pipeline:
        step = pipeline.step(inputs, targets)
    assert step.loss == pytest.approx(expected.item(), rel=1e-12)
    for piece, other in zip(pieces, whole):
        torch.testing.assert_close(piece.linear.weight.grad, other.linear.weight.grad, rtol=1e-12, atol=1e-15)


def test_gradients_are_reduced_per_chunk_where_a_function_is_given():
    seen = []
    pieces = make_pieces(2)
    tokens, targets = batch()
    with pt.Pipeline(pieces, loss=loss, microbatches=2, reduce=lambda parameters: seen.append(len(parameters))) as pipeline:
        pipeline.step(tokens, targets)
    assert sorted(seen) == sorted(len(list(piece.parameters())) for piece in pieces)


def test_a_module_that_raises_names_its_stage():
    class Broken(nn.Module):
        def forward(self, x):
            raise ArithmeticError("broken on purpose")

    tokens, targets = batch()
    with pt.Pipeline([make_pieces(2)[0], Broken()], loss=loss, microbatches=2) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="stage 1: ArithmeticError: broken on purpose") as failed:
            pipeline.step(tokens, targets)
    assert isinstance(failed.value.__cause__, ArithmeticError)


def test_a_loss_that_is_not_finite_changes_no_weight():
    pieces = make_pieces(2)
    with torch.no_grad():
        pieces[0][0].table.weight[0] = float("nan")
    before = pieces[1][1].weight.clone()
    tokens, targets = batch()
    with pt.Pipeline(pieces, loss=loss, microbatches=2, optimizer=adam) as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="not finite"):
            pipeline.step(tokens * 0, targets)
    assert torch.equal(pieces[1][1].weight, before)


def test_what_cannot_work_is_refused():
    shared = nn.Linear(4, 4)
    with pytest.raises(pipetrain.InputError, match="stages 0 and 1"):
        pt.Pipeline([shared, shared], loss=loss)
    with pytest.raises(pipetrain.InputError, match="3 modules are not"):
        pt.Pipeline(make_pieces(3), loss=loss, schedule="zb-v")
    with pytest.raises(pipetrain.InputError, match="dropout"):
        pt.Pipeline([nn.Linear(4, 4), nn.Dropout(0.1)], loss=loss, recompute=True)
    with pt.Pipeline(make_pieces(2), loss=loss, microbatches=4) as pipeline:
        with pytest.raises(pipetrain.InputError, match="3 samples"):
            pipeline.step(*batch(3))


def test_a_sequential_model_is_cut_evenly():
    layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(7)])
    pieces = pt.cut_sequential(layers, 3)
    assert [len(piece) for piece in pieces] == [3, 2, 2]
    assert [layer for piece in pieces for layer in piece] == list(layers)
    assert [len(piece) for piece in pt.cut_sequential(nn.Sequential(nn.Linear(99, 99), nn.Tanh(), nn.Tanh()), 3)] == [1, 1, 1]


def test_compiled_pieces_give_the_same_gradients():
    module = Residual().double()
    compiled = torch.compile(module, backend="aot_eager")
    x, dy = torch.randn(5, WIDTH, dtype=torch.float64), torch.randn(5, WIDTH, dtype=torch.float64)
    dx, gradients, early = split_gradients(compiled, x, dy)
    assert all(early)  # its backward is one piece
    expected_dx, expected = whole_gradients(module, x, dy)
    torch.testing.assert_close(dx, expected_dx, rtol=1e-12, atol=1e-14)
    for gradient, other in zip(gradients, expected):
        torch.testing.assert_close(gradient, other, rtol=1e-12, atol=1e-14)
