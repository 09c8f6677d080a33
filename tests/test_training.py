"""The training loop: it goes on from a checkpoint with the same bits, and stops before a value that is not finite."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.errors import NumericsError
from newkinds.networks import build_network
from newkinds.randomness import one_thread, seeded_torch, uniforms
from newkinds.settings import Optimiser
from newkinds.training import Phase, Record, Task, make_optimiser, train

N, BATCH = 11, 4


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


class Fit(Task):
    """Fit a small network with batch norm to noisy targets, and carry a state that feeds back into the loss."""

    stage = "fit"
    title = "Fitting"

    def __init__(self, n: int = N, batch_size: int = BATCH, seed: int = 0) -> None:
        with seeded_torch(seed, "weights"):
            self.module = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 1))
        self.names = [f"picture-{i}" for i in range(n)]
        self.batch_size = batch_size
        self.seed = seed
        self.x = torch.from_numpy(np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32))
        self.average = torch.zeros(n)
        self.seen: list[tuple[int, list[int]]] = []

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        return self.x[items]

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        self.seen.append((epoch, items.tolist()))
        noise = torch.from_numpy(uniforms(self.seed, "noise", epoch, items, 1)).float()
        square = (outputs - noise).square().mean()
        return {"loss": square + 0.1 * (outputs[:, 0] - self.average[items]).square().mean(), "square": square}

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        self.module.eval()
        with torch.no_grad():
            self.average = 0.5 * self.average + 0.5 * self.module(self.x)[:, 0]
        return {"last": last_of_phase}

    def state(self) -> dict[str, Tensor]:
        return {"average": self.average}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.average = state["average"]


class InMemory:
    """Checkpoints in memory: copies, as the ones on disk are."""

    def __init__(self, due: bool = True) -> None:
        self.kept: dict[int, dict[str, Tensor]] = {}
        self.is_due = due

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        assert stage == "fit"
        return max(self.kept.items(), key=lambda pair: pair[0]) if self.kept else None

    def due(self) -> bool:
        return self.is_due

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        assert stage == "fit"
        self.kept[epoch] = {name: value.detach().clone() for name, value in tensors.items()}


def phases(first: int = 3, second: int = 4, **second_options: Any) -> list[Phase]:
    options = {"optimiser": "sgd", "learning_rate": 0.05, "schedule": "cosine", **second_options}
    adam = Optimiser(optimiser="adam", learning_rate=0.01, weight_decay=0.01)
    return [Phase("warmup", first, adam), Phase("main", second, Optimiser(**options))]


def bits(task: Task) -> dict[str, bytes]:
    tensors = {**task.module.state_dict(), **task.state()}
    return {name: value.numpy().tobytes() for name, value in tensors.items()}


# Continuing


@pytest.mark.parametrize("second", ["sgd", "adam"])
def test_going_on_from_any_checkpoint_gives_the_same_bits(second: str) -> None:
    plan = phases(optimiser=second)
    whole, kept, records = Fit(), InMemory(), []
    train(whole, plan, checkpoints=kept, log=records.append)
    assert sorted(kept.kept) == [1, 2, 3, 4, 5, 6]  # none after the last epoch: the result is kept then
    for epoch in kept.kept:  # 3 is exactly on the boundary of the phases
        task, rest, since = Fit(), InMemory(), []
        rest.kept = {epoch: kept.kept[epoch]}
        train(task, plan, checkpoints=rest, log=since.append)
        assert bits(task) == bits(whole), epoch
        assert since == records[epoch:]
        assert {number for number, _ in task.seen} == set(range(epoch, 7))
        for later in range(epoch + 1, 7):
            for name, value in rest.kept[later].items():
                assert torch.equal(value, kept.kept[later][name]), (epoch, later, name)


def test_checkpoints_do_not_change_the_result() -> None:
    with_them, without, never = Fit(), Fit(), Fit()
    train(with_them, phases(), checkpoints=InMemory())
    train(without, phases())
    not_due = InMemory(due=False)
    train(never, phases(), checkpoints=not_due)
    assert bits(with_them) == bits(without) == bits(never)
    assert not not_due.kept


def test_each_part_of_a_checkpoint_is_needed() -> None:
    whole, kept = Fit(), InMemory()
    train(whole, phases(optimiser="adam"), checkpoints=kept)
    for part in ("module.0.weight", "module.1.running_mean", "task.average", "optimiser.0.exp_avg", "optimiser.0.step"):
        task, rest = Fit(), InMemory()
        rest.kept = {5: {name: value.clone() for name, value in kept.kept[5].items()}}
        rest.kept[5][part] += 1
        train(task, phases(optimiser="adam"), checkpoints=rest)
        assert bits(task) != bits(whole), part


def test_the_second_phase_has_an_optimiser_of_its_own() -> None:
    kept = InMemory()
    train(Fit(), phases(optimiser="adam"), checkpoints=kept)
    steps = {epoch: float(tensors["optimiser.0.step"]) for epoch, tensors in kept.kept.items()}
    assert steps == {1: 3, 2: 6, 3: 9, 4: 3, 5: 6, 6: 9}  # three batches an epoch; it starts anew after the third


@pytest.mark.parametrize(("first", "second"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_empty_and_short_phases(first: int, second: int) -> None:
    plan, whole, kept, records = phases(first, second), Fit(), InMemory(), []
    train(whole, plan, checkpoints=kept, log=records.append)
    assert [record["epoch"] for record in records] == list(range(first + second))
    assert [record["phase"] for record in records] == ["warmup"] * first + ["main"] * second
    for epoch in kept.kept:
        task, rest = Fit(), InMemory()
        rest.kept = {epoch: kept.kept[epoch]}
        train(task, plan, checkpoints=rest)
        assert bits(task) == bits(whole)


def test_the_global_generator_does_not_matter() -> None:
    first, second = Fit(), Fit()
    torch.manual_seed(1)
    train(first, phases())
    torch.manual_seed(2)
    train(second, phases())
    assert bits(first) == bits(second)
    third = Fit(seed=1)
    train(third, phases())
    assert bits(third) != bits(first)


# Views, modes and the end


class Shaken(Fit):
    """Two views of each item: as it is, and moved a little; the loss takes the first and compares it to the second."""

    views = 2

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        moved = torch.from_numpy(uniforms(self.seed, "moved", epoch, items, 3)).float()
        return torch.cat([self.x[items], self.x[items] + moved])

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        assert outputs.shape == (2 * len(items), 1)
        first, second = outputs.chunk(2)
        losses = super().losses(first, items, epoch)
        return {**losses, "loss": losses["loss"] + (first - second).square().mean()}


def test_training_is_a_plain_loop_of_gradient_steps() -> None:
    whole, by_hand = Shaken(), Shaken()
    plan = [Phase("main", 3, Optimiser(optimiser="adam", learning_rate=0.02, weight_decay=0.1))]
    train(whole, plan)
    adam = torch.optim.Adam(by_hand.module.parameters(), lr=0.02, weight_decay=0.1)
    for epoch in range(3):
        by_hand.module.train()
        for items in by_hand.batches(epoch):
            adam.zero_grad()
            outputs = by_hand.module(by_hand.inputs(items, epoch))  # one call: batch norm sees both views at once
            by_hand.losses(outputs, items, epoch)["loss"].backward()
            adam.step()
        by_hand.epoch_done(plan[0], epoch, last_of_phase=epoch == 2)
    assert by_hand.seen == whole.seen
    assert bits(by_hand) == bits(whole)


def test_the_task_says_what_is_trained_and_in_which_mode() -> None:
    class Frozen(Fit):
        def set_mode(self) -> None:
            self.module.train()
            self.module[1].eval()

        def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
            return [{"params": list(self.module[3].parameters()), "lr": optimiser.learning_rate}]

    task = Frozen()
    before = {name: value.clone() for name, value in task.module.state_dict().items()}
    train(task, phases(1, 2))
    changed = {name for name, value in task.module.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"3.weight", "3.bias"}


def test_bfloat16_is_for_the_steps_alone_and_goes_on_with_the_same_bits() -> None:
    class Deep(Fit):
        def __init__(self) -> None:
            super().__init__()
            self.f = build_network("vgg6-4-2-slim", 1, 8, seed=0)
            self.module = nn.Sequential(self.f, nn.Linear(self.f.feature_dim, 1))
            self.x = torch.from_numpy(np.random.default_rng(0).random((N, 1, 8, 8), dtype=np.float32))
            self.f.register_forward_hook(lambda *_: self.modes.append((self.f.training, self.f.in_bfloat16)))
            self.modes: list[tuple[bool, bool]] = []

    exact, rough, kept = Deep(), Deep(), InMemory()
    train(exact, phases(1, 2))
    train(rough, phases(1, 2), checkpoints=kept, precision="bfloat16")
    assert set(exact.modes) == {(True, False), (False, False)}
    assert set(rough.modes) == {(True, True), (False, False)}  # what is due after an epoch is in float32
    weights = rough.module.state_dict()
    assert all(value.dtype == (torch.int64 if "tracked" in name else torch.float32) for name, value in weights.items())
    assert bits(rough) != bits(exact)
    again, rest = Deep(), InMemory()
    rest.kept = {2: kept.kept[2]}
    train(again, phases(1, 2), checkpoints=rest, precision="bfloat16")
    assert bits(again) == bits(rough)


def test_a_settled_task_spares_the_epochs_that_are_left() -> None:
    class Settles(Fit):
        def __init__(self, after: int) -> None:
            super().__init__()
            self.after, self.left = after, after

        def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
            self.left = self.after - epoch - 1
            return super().epoch_done(phase, epoch, last_of_phase)

        def settled(self) -> bool:
            return self.left <= 0

    whole, kept = Fit(), InMemory()
    train(whole, phases(), checkpoints=kept)
    for after in (1, 3, 5):  # in the first phase, at its end, in the second
        task, mine, records = Settles(after), InMemory(), []
        train(task, phases(), checkpoints=mine, log=records.append)
        assert [record["epoch"] for record in records] == list(range(after))
        assert sorted(mine.kept) == list(range(1, after))  # the end is a result, not a checkpoint
        # It is the same training, cut short.
        weights = {name.removeprefix("module."): value for name, value in kept.kept[after].items()}
        assert all(torch.equal(value, weights[name]) for name, value in task.module.state_dict().items())
        # Going on from a checkpoint, it ends where it ended.
        again = Settles(after)
        if mine.kept:
            train(again, phases(), checkpoints=mine)
            assert bits(again) == bits(task)


# Log and rates


def test_log_has_the_mean_losses_of_each_epoch() -> None:
    task, records = Fit(), []
    means: list[dict[str, float]] = []
    own = task.losses
    parts: list[tuple[int, dict[str, float]]] = []

    def spy(outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        losses = own(outputs, items, epoch)
        parts.append((len(items), {name: value.item() for name, value in losses.items()}))
        return losses

    task.losses = spy  # type: ignore[method-assign]
    train(task, phases(2, 1), log=records.append)
    for start in range(0, 9, 3):
        epoch = parts[start : start + 3]
        means.append({name: sum(n * loss[name] for n, loss in epoch) / N for name in ("loss", "square")})
    assert [record["loss"] for record in records] == pytest.approx([mean["loss"] for mean in means])
    assert [record["square"] for record in records] == pytest.approx([mean["square"] for mean in means])
    assert [record["last"] for record in records] == [False, True, True]
    assert {record["stage"] for record in records} == {"fit"}


def test_cosine_by_hand() -> None:
    phase = Phase("main", 4, Optimiser(schedule="cosine"))
    half = math.sqrt(0.5)
    expected = [1, (1 + half) / 2, 0.5, (1 - half) / 2]
    assert [phase.rate(epoch) for epoch in range(4)] == pytest.approx(expected)


def test_steps_by_hand() -> None:
    phase = Phase("main", 6, Optimiser(schedule="steps", milestones=(2, 5), decay=0.1))
    assert [phase.rate(epoch) for epoch in range(7)] == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.01, 0.01])
    assert [Phase("main", 3, Optimiser()).rate(epoch) for epoch in range(3)] == [1, 1, 1]


def test_rates_follow_the_schedule_of_their_own_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    class Groups(Fit):
        def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
            first, *rest = self.module.parameters()
            rate = optimiser.learning_rate
            return [{"params": [first], "lr": rate * 0.1}, {"params": rest, "lr": rate}, {"params": [], "lr": 7.0}]

    rates: list[list[float]] = []
    for kind in (torch.optim.SGD, torch.optim.Adam):
        own = kind.step

        def step(self: Any, *given: Any, own: Callable[..., Any] = own) -> Any:
            rates.append([group["lr"] for group in self.param_groups])
            return own(self, *given)

        monkeypatch.setattr(kind, "step", step)
    train(Groups(n=4), phases(2, 2))  # one batch an epoch
    assert rates == [[pytest.approx(0.001), pytest.approx(0.01)]] * 2 + [
        [pytest.approx(0.005), pytest.approx(0.05)],
        [pytest.approx(0.0025), pytest.approx(0.025)],
    ]


def test_make_optimiser_takes_every_setting() -> None:
    weight = nn.Parameter(torch.ones(1))
    groups = [{"params": [weight], "lr": 0.5}]
    sgd = make_optimiser(Optimiser(optimiser="sgd", momentum=0.7, weight_decay=0.2), groups)
    assert isinstance(sgd, torch.optim.SGD)
    (group,) = sgd.param_groups
    assert (group["lr"], group["base"], group["momentum"], group["weight_decay"]) == (0.5, 0.5, 0.7, 0.2)
    adam = make_optimiser(Optimiser(optimiser="adam", weight_decay=0.2), groups)
    assert isinstance(adam, torch.optim.Adam)
    (group,) = adam.param_groups
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.5, 0.2, (0.9, 0.999))


# Values that are not finite


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("bad_epoch", [0, 2, 4])
def test_a_loss_that_is_not_finite_stops_before_a_checkpoint(value: float, bad_epoch: int) -> None:
    class Breaks(Fit):
        def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
            losses = super().losses(outputs, items, epoch)
            if epoch == bad_epoch and 7 in items:
                losses["loss"] = losses["loss"] * value
            return losses

    task, kept, records = Breaks(batch_size=3), InMemory(), []
    with pytest.raises(NumericsError) as caught:
        train(task, phases(), checkpoints=kept, log=records.append)
    assert f"epoch {bad_epoch}" in caught.value.message
    last_batch = task.seen[-1][1]
    assert 7 in last_batch
    assert all(f"picture-{item}" in caught.value.message for item in last_batch)
    assert not any(f"picture-{item}," in caught.value.message for item in range(N) if item not in last_batch)
    assert "fit.learning_rate" in caught.value.hint
    assert sorted(kept.kept) == list(range(1, bad_epoch + 1))
    assert len(records) == bad_epoch
    assert all(weight.isfinite().all() for weight in task.module.parameters())


def test_weights_that_are_not_finite_stop_before_a_checkpoint() -> None:
    class Breaks(Fit):
        def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
            losses = super().losses(outputs, items, epoch)
            if (epoch, items.tolist()) == (2, self.batches(2)[-1].tolist()):
                # Zero, but with an infinite slope.
                losses["loss"] = losses["loss"] + (self.module[0].weight * 0).sum().sqrt()
            return losses

    task, kept, records = Breaks(), InMemory(), []
    with pytest.raises(NumericsError) as caught:
        train(task, phases(), checkpoints=kept, log=records.append)
    assert "A weight is not finite after epoch 2" in caught.value.message
    assert all(f"picture-{item}" in caught.value.message for item in task.seen[-1][1])
    assert sorted(kept.kept) == [1, 2]
    assert len(records) == 2


def test_a_buffer_that_is_not_finite_counts_too() -> None:
    class Breaks(Fit):
        def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
            self.module[1].running_var.fill_(math.inf)
            return {}

    kept = InMemory()
    with pytest.raises(NumericsError):
        train(Breaks(), phases(), checkpoints=kept)
    assert not kept.kept


def test_a_long_list_of_pictures_is_cut() -> None:
    class Breaks(Fit):
        def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
            return {"loss": super().losses(outputs, items, epoch)["loss"] * math.nan}

    with pytest.raises(NumericsError, match=r"(picture-\d+, ){4}picture-\d+ and 6 more"):
        train(Breaks(batch_size=20), phases())


# Batches


@given(st.integers(2, 300), st.integers(2, 40), st.integers(0, 5))
def test_batches_cover_every_item_once(n: int, batch_size: int, epoch: int) -> None:
    task = Fit.__new__(Fit)
    task.names, task.batch_size, task.seed = [""] * n, batch_size, 0
    batches = task.batches(epoch)
    assert sorted(itertools.chain.from_iterable(batch.tolist() for batch in batches)) == list(range(n))
    sizes = [len(batch) for batch in batches]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 2  # batch norm knows nothing to do with one
    assert max(sizes) <= max(batch_size, 3)
    assert [batch.tolist() for batch in task.batches(epoch)] == [batch.tolist() for batch in batches]


def test_batches_differ_by_epoch_and_seed() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(Fit(seed=seed).batches(epoch)).tolist()

    orders = [order(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert len({tuple(one) for one in orders}) == 6


def test_batches_of_two_train_with_an_odd_number_of_pictures() -> None:
    train(Fit(n=7, batch_size=2), phases(1, 1))
