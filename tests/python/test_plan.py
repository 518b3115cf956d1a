"""Plans, simulations and their records."""

import pytest

import pipetrain


@pytest.mark.parametrize("schedule", [one[0] for one in pipetrain.all_schedules()])
def test_every_schedule_validates_and_reads_back(schedule, tmp_path):
    plan = pipetrain.Plan.build(schedule, stages=4, microbatches=6)
    needs = plan.validate()
    assert len(needs) == 4
    assert len(needs[0]) == plan.chunks
    assert pipetrain.Plan.parse(plan.text()).text() == plan.text()
    (tmp_path / "plan.csv").write_text(plan.csv())
    assert pipetrain.Plan.read(str(tmp_path / "plan.csv")).csv() == plan.csv()


def test_plan_tells_its_actions():
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=2).with_end(reduce=True)
    assert plan.actions(1) == ["F0", "B0", "F1", "B1", "R", "N", "O"]
    assert plan.has_end
    assert repr(plan) == "<pipetrain.Plan 1f1b: 2 stages, 1 chunks a stage, 2 microbatches>"


def test_errors_say_what_and_where():
    with pytest.raises(pipetrain.InputError, match="zb-h1"):
        pipetrain.Plan.build("2f2b", stages=2, microbatches=2)
    with pytest.raises(pipetrain.PlanError, match="mine.txt:5"):
        text = "schedule: mine\nplacement: looping\nchunks: 1\nmicrobatches: 1\nstage 0: B0 F0\n"
        pipetrain.Plan.parse(text, name="mine.txt")
    with pytest.raises(pipetrain.InputError, match="stage 7"):
        pipetrain.Plan.build("1f1b", stages=2, microbatches=2).actions(7)
    with pytest.raises(pipetrain.InputError, match="order sideways"):
        pipetrain.Plan.build("1f1b", stages=2, microbatches=2).validate(order="sideways")
    assert issubclass(pipetrain.InputError, ValueError)


def test_simulate_follows_the_formulas():
    run = pipetrain.simulate(stages=4, microbatches=8, schedule="zb-h1")
    assert (run.makespan, run.ideal) == (27, 24)  # m (F + I + W) + (p - 1) (F + I - W); docs/schedules.md
    assert run.bubble_fraction == pytest.approx(1 - 24 / 27)
    assert run.peak_activations == [4, 4, 4, 4]
    assert "makespan 27" in repr(run)
    assert run._repr_svg_().startswith("<svg")


def test_simulate_takes_costs_per_stage_and_ends_of_step():
    assert pipetrain.simulate(2, 1, forward=[1, 2], p2p=10, optimizer_time=5).makespan == 1 + 10 + 2 + 2 + 10 + 2 + 5
    with pytest.raises(pipetrain.InputError, match="3 values"):
        pipetrain.simulate(2, 1, forward=[1, 2, 3])
    with pytest.raises(pipetrain.InputError, match="fowrard"):
        pipetrain.simulate(2, 1, fowrard=1)


def test_simulate_all_sorts_by_time():
    runs = pipetrain.simulate(4, 8, "all")
    assert len(runs) == len(pipetrain.all_schedules())
    assert runs["makespan"] == sorted(runs["makespan"])
    assert "1f1b" in runs["schedule"]
    assert "<table>" in runs._repr_html_()
    ready = pipetrain.simulate(4, 8, "all", order="ready", jitter=0.1, seed=3)
    assert 0 < len(ready) < len(runs)


def test_timeline_has_spans_and_pictures():
    timeline = pipetrain.simulate(2, 2).timeline
    action, start, end, waited_for = timeline.spans(1)[0]
    assert (action, start, end, waited_for) == ("F0", 1, 2, "activation")
    assert timeline.csv().startswith("stage,action")
    assert "<html" in timeline.html()
    assert '"ph"' in timeline.chrome_trace()
