"""The shape of ColossalAI's Booster, beside a loop of PyTorch."""

import numpy
import pytest

import pipetrain

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")

from transformers_models import SIZES, Rows, llama  # noqa: E402

if not hasattr(pipetrain._engine, "Training"):
    pytest.skip("the module was built without training", allow_module_level=True)

from pipetrain.colossalai import Booster, HybridParallelPlugin  # noqa: E402


def stable_lm():
    torch.manual_seed(0)
    return transformers.StableLmForCausalLM(transformers.StableLmConfig(**SIZES, attention_dropout=0.0))


def adamw(model, **changes):
    return torch.optim.AdamW(model.parameters(), **{"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.0, **changes})


def reference(model, rows, steps):
    optimizer = adamw(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    losses = []
    for step in range(steps):
        ids = torch.stack(rows.rows[8 * step : 8 * step + 8])
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("make", "sizes"), [(llama, dict(tp_size=2, pp_size=2, num_microbatches=4)), (stable_lm, dict(pp_size=2, pp_style="zbv"))])
def test_a_script_of_colossalai_trains_as_one_of_pytorch(make, sizes):
    rows, steps = Rows(count=40), 5
    theirs = make()
    expected = reference(theirs, rows, steps)
    model = make()
    booster = Booster(plugin=HybridParallelPlugin(**sizes, precision="fp32", zero_stage=0, max_norm=1.0, enable_flash_attention=True))
    optimizer = adamw(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    loader = booster.plugin.prepare_dataloader(rows, batch_size=8)
    model, optimizer, criterion, loader, scheduler = booster.boost(model, optimizer, lambda outputs, inputs: outputs.loss, loader, scheduler)
    losses, batches = [], iter(loader)
    for _ in range(steps):
        losses.append(booster.execute_pipeline(batches, model, criterion, optimizer, return_loss=True)["loss"].item())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    numpy.testing.assert_allclose(losses, expected, rtol=0, atol=2e-4)
    for mine, other in zip(model.unwrap().parameters(), theirs.parameters(), strict=True):
        numpy.testing.assert_allclose(mine.detach(), other.detach(), rtol=0, atol=2e-4)


def test_what_it_does_not_follow_is_refused_by_name():
    for arguments, line in [(dict(precision="fp16"), "precision='fp16'"), (dict(cpu_offload=True), "cpu_offload=True"), (dict(pp_style="dp"), "pp_style")]:
        with pytest.raises(pipetrain.InputError, match=line):
            HybridParallelPlugin(**arguments)
    booster, model = Booster(plugin=HybridParallelPlugin()), llama()
    with pytest.raises(pipetrain.InputError, match="norm.* has weight decay 0.1"):
        booster.boost(model, adamw(model, weight_decay=0.1))
    with pytest.raises(pipetrain.InputError, match="a SGD"):
        booster.boost(model, torch.optim.SGD(model.parameters(), lr=1))


def test_calls_out_of_order_and_another_criterion_are_refused():
    booster, model = Booster(plugin=HybridParallelPlugin()), llama()
    rows = Rows(count=8)
    loader = booster.plugin.prepare_dataloader(rows, batch_size=4)
    model, optimizer, *_ = booster.boost(model, adamw(model), None, loader)
    with pytest.raises(pipetrain.MisuseError, match="call execute_pipeline"):
        optimizer.step()
    with pytest.raises(pipetrain.InputError, match="criterion: gives"):
        booster.execute_pipeline(iter(loader), model, lambda outputs, inputs: 2 * outputs.loss, optimizer)
    batches = iter(loader)
    booster.execute_pipeline(batches, model, None, optimizer)
    with pytest.raises(pipetrain.MisuseError, match="optimizer.step"):
        booster.execute_pipeline(batches, model, None, optimizer)
