"""Algorithm 1: pictures find their kinds, with targets made at the right moments and no look at the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from torch import Tensor

from models import student
from newkinds.clustering.neighbours import nearest_by_direction
from newkinds.configure import Settings
from newkinds.equations import clustering_accuracy, consistency, kl_divergence, omega, target
from newkinds.errors import UsageError
from newkinds.features import apply, averaged_features, extract_features
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Snapshot, Solution
from newkinds.methods.dtc import VARIANTS, algorithm, cluster
from newkinds.methods.dtc.monitor import shared_information
from newkinds.methods.dtc.targets import Targets
from newkinds.methods.dtc.task import ClusteringTask
from newkinds.networks import Model, Network, build_network
from newkinds.pretrain.pretraining import pretrain
from newkinds.progress import Progress
from newkinds.randomness import one_thread
from newkinds.settings import Initialise, Pretrain
from newkinds.start import Start, initialise
from newkinds.training import Phase, Record

N, SIZE, KINDS = 60, 8, 3
NETWORK = "vgg6-5-1-slim"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def squares(lit: list[list[int]], seed: int, labelled: bool) -> tuple[ImageSet, NDArray[np.int64]]:
    """Pictures of noise with a square somewhere; kind k lights the channels lit[k]."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(N) % len(lit)).astype(np.int64)
    pixels = rng.integers(0, 50, (N, 3, SIZE, SIZE), dtype=np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        top, left = rng.integers(0, SIZE // 2, 2)
        picture[lit[label], top : top + 4, left : left + 4] += 200
    names = tuple(f"{i}.png" for i in range(N))
    classes = tuple(map(str, range(len(lit)))) if labelled else ()
    return ImageSet(pixels, names, labels if labelled else None, classes, "made up", "no mark"), labels


@pytest.fixture(scope="module")
def f() -> Network:
    """A network that tells cyan, magenta and yellow squares apart."""
    known, _ = squares([[1, 2], [0, 2], [0, 1]], seed=1, labelled=True)
    chosen = Pretrain(epochs=12, augmentation="none", quarter_turns=False, batch_size=15, learning_rate=0.01)
    with one_thread():
        found = pretrain(known, chosen, network=NETWORK)
    assert found.score == 1.0
    return found.network


@pytest.fixture(scope="module")
def unsorted() -> tuple[ImageSet, NDArray[np.int64]]:
    """Red, green and blue squares."""
    return squares([[0], [1], [2]], seed=2, labelled=False)


def chosen(seed: int = 0, **discover: Any) -> Any:
    options = {
        "variant": "pi",
        "warmup_epochs": 2,
        "epochs": 4,
        "augmentation": "crop-flip",
        "first_view": "augmented",
        "batch_size": 20,
        "learning_rate": 1e-3,
        "optimiser": "adam",
        "schedule": "constant",
        "p_from": "pass",
        "update_every": 1,
        "backbone_rate": 1.0,
        "targets": "eq3",
        "consistency": 1.0,
        "alpha": 1.0,
        "batch_norm": "frozen",
        "ramp_epochs": 5,
        "settled": 0.0,
        "guard": "off",
    }
    return Settings(seed=seed, network=NETWORK, kinds=KINDS, discover={**options, **discover})


class InMemory:
    """Checkpoints of every epoch, in memory."""

    def __init__(self, kept: dict[int, dict[str, Tensor]] | None = None) -> None:
        self.kept = kept or {}

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        return max(self.kept.items(), key=lambda pair: pair[0]) if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        self.kept[epoch] = {name: value.detach().clone() for name, value in tensors.items()}


def start_of(f: Network, images: ImageSet, plan: Settings) -> Start:
    """Return where Algorithm 1 starts with these settings, alpha being 1."""
    return initialise(extract_features(f, images), KINDS, plan.initialise, seed=plan.seed)


def bits(found: Solution) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in found.model.state_dict().items()}


# What is found


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("seed", [0, 1])
def test_kinds_far_apart_are_found(variant: str, seed: int, f: Network) -> None:
    images, labels = squares([[0], [1], [2]], seed=10 + seed, labelled=False)
    records: list[Record] = []
    found = cluster(f, images, KINDS, chosen(seed, variant=variant), truth=labels, log=records.append)
    assert clustering_accuracy(found.assignment.labels, labels) == 1.0
    assert found.assignment.probabilities.shape == (N, KINDS)
    assert found.assignment.probabilities.dtype == np.float32
    assert found.assignment.probabilities.sum(axis=1) == pytest.approx(np.ones(N), abs=1e-5)
    assert (found.assignment.labels == found.assignment.probabilities.argmax(axis=1)).all()
    assert [record["phase"] for record in records] == ["warmup"] * 2 + ["main"] * 4
    assert records[1]["kl"] < records[0]["kl"]  # in the warm-up, whose targets stand still
    assert records[-1]["acc"] == 1.0
    assert records[-1]["smallest_kind"] == N // KINDS
    assert ("consistency" in records[0]) is (variant == "pi")  # there is no ensemble in the first epoch
    assert ("consistency" in records[1]) is (variant in ("pi", "te"))
    # The network that is returned says the same of the pictures as they are.
    assert np.exp(apply(found.model, images)) == pytest.approx(found.assignment.probabilities, abs=1e-6)


def test_sharpening_makes_predictions_surer(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    images, _ = unsorted
    short, long = (cluster(f, images, KINDS, chosen(epochs=epochs)) for epochs in (0, 12))
    assert long.assignment.probabilities.max(axis=1).mean() > short.assignment.probabilities.max(axis=1).mean() + 0.03


def test_no_epochs_give_the_start(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    images, _ = unsorted
    found = cluster(f, images, KINDS, chosen(warmup_epochs=0, epochs=0))
    start = initialise(extract_features(f, images), KINDS, chosen().initialise)
    assert torch.equal(found.model.head.centres, torch.from_numpy(start.centres))
    assert torch.equal(found.model.head.bottleneck.weight, torch.from_numpy(start.weight))
    assert (found.assignment.labels == start.labels).mean() > 0.95  # Eq. 1's nearest is k-means' nearest


def test_features_at_hand_are_taken(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    images, _ = unsorted
    features = extract_features(f, images)
    plan = chosen(epochs=1)
    assert bits(cluster(f, images, KINDS, plan, features=features)) == bits(cluster(f, images, KINDS, plan))
    other = cluster(f, images, KINDS, plan, features=features[::-1].copy())
    assert bits(other) != bits(cluster(f, images, KINDS, plan))


def test_the_start_sees_features_averaged_over_views(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    images, _ = unsorted
    plan = chosen(warmup_epochs=0, epochs=0, augmentation="crop-flip").with_changes({"initialise.views": 3})
    seen = averaged_features(f, images, extract_features(f, images), 3, "crop-flip", 0)
    expected = initialise(seen, KINDS, plan.initialise)
    found = cluster(f, images, KINDS, plan)
    assert found.model.head.bottleneck.weight.detach().numpy().tobytes() == expected.weight.tobytes()
    plain = cluster(f, images, KINDS, plan.with_changes({"initialise.views": 0}))
    assert plain.model.head.bottleneck.weight.detach().numpy().tobytes() != expected.weight.tobytes()


def test_f_is_left_as_it_is(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    before = {name: value.clone() for name, value in f.state_dict().items()}
    mode = f.training
    found = cluster(f, unsorted[0], KINDS, chosen(epochs=1))
    assert f.training is mode
    assert all(torch.equal(before[name], value) for name, value in f.state_dict().items())
    assert not torch.equal(found.model.network.backbone.layers[0].weight, f.backbone.layers[0].weight)


def test_truth_is_for_the_log_only(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    images, labels = unsorted
    partly = np.where(np.arange(N) < 5, labels, -1)
    logs: dict[str, list[Record]] = {"none": [], "right": [], "wrong": [], "partly": []}
    results = [
        bits(cluster(f, images, KINDS, chosen(epochs=2), truth=truth, log=log.append))
        for truth, log in zip((None, labels, labels[::-1].copy(), partly), logs.values(), strict=True)
    ]
    assert all(result == results[0] for result in results)
    assert all("acc" not in record for record in logs["none"])
    assert logs["right"][-1]["acc"] > logs["wrong"][-1]["acc"]
    assert logs["partly"][-1]["acc"] in {0.2 * n for n in range(6)}
    without = [{key: value for key, value in record.items() if key != "acc"} for record in logs["right"]]
    assert without == logs["none"]


def test_the_seed_counts_and_the_global_generator_does_not(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    torch.manual_seed(1)
    first = bits(cluster(f, unsorted[0], KINDS, chosen(epochs=1)))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert bits(cluster(f, unsorted[0], KINDS, chosen(epochs=1))) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert bits(cluster(f, unsorted[0], KINDS, chosen(seed=1, epochs=1))) != first


@pytest.mark.parametrize("kinds", [1, N + 1])
def test_kinds_out_of_range(kinds: int, f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    with pytest.raises(UsageError, match=f"{kinds} kinds .* between 2 and {N}"):
        cluster(f, unsorted[0], kinds, chosen())


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_embeddings(variant: str) -> None:
    points, labels = make_blobs(N, 6, centers=KINDS, random_state=3)
    names = tuple(map(str, range(N)))
    images = ImageSet(points.astype(np.float32), names, None, (), "made up", "no mark")
    plan = chosen(variant=variant, augmentation="none")
    f = build_network("identity", 6, 1, seed=0)
    found = cluster(f, images, KINDS, plan)
    assert clustering_accuracy(found.assignment.labels, labels.astype(np.int64)) == 1.0
    # The bottleneck and the centres learn, though f cannot.
    assert not np.array_equal(found.model.head.centres.detach().numpy(), start_of(f, images, plan).centres)


# Targets


@pytest.mark.parametrize(
    ("warmup", "every", "updated", "targets"),
    [
        (2, 1, {2, 3, 4, 5}, "eq3"),
        (2, 2, {2, 4}, "eq3"),
        (0, 1, {1, 2, 3, 4, 5}, "eq3"),
        (2, 1, {2, 3, 4, 5}, "held"),
    ],
)
def test_targets_are_made_at_the_right_epochs(
    warmup: int,
    every: int,
    updated: set[int],
    targets: str,
    f: Network,
    unsorted: tuple[ImageSet, NDArray[np.int64]],
) -> None:
    images, _ = unsorted
    kept = InMemory()
    plan = chosen(warmup_epochs=warmup, epochs=6 - warmup, update_every=every, targets=targets)
    cluster(f, images, KINDS, plan, checkpoints=kept)
    start = start_of(f, images, plan)
    make = Targets(plan.discover, start.labels, KINDS)
    before = make(torch.from_numpy(start.probabilities))
    for epoch in range(1, 6):  # the state after so many epochs
        now = kept.kept[epoch]["task.targets"]
        if epoch in updated:
            # Eq. 3 of what the network says now of all pictures as they are.
            weights = {name[7:]: value for name, value in kept.kept[epoch].items() if name.startswith("module.")}
            model = student(build_network(NETWORK, 3, SIZE, seed=0), KINDS, KINDS)
            model.load_state_dict(weights)
            p = torch.from_numpy(np.exp(apply(model, images)))
            assert torch.allclose(now, target(p) if targets == "eq3" else make(p), atol=1e-5)
            assert not torch.allclose(now, before, atol=1e-5)
        else:
            assert torch.equal(now, before), epoch
        assert now.sum(dim=1) == pytest.approx(np.ones(N), abs=1e-5)
        before = now


@pytest.mark.parametrize(("variant", "p_from"), [(variant, "pass") for variant in VARIANTS] + [("te", "steps")])
def test_going_on_from_any_checkpoint_gives_the_same_bits(
    variant: str, p_from: str, f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    plan = chosen(variant=variant, p_from=p_from, epochs=2, guard="keep-best")
    kept, records = InMemory(), []
    # A start that is partly wrong, so that assignments change.
    given = {"features": extract_features(f, unsorted[0])[np.r_[10:20, 0:10, 20:N]]}
    whole = cluster(f, unsorted[0], KINDS, plan, checkpoints=kept, log=records.append, **given)
    assert records[0]["changed"] > 0
    for epoch in (1, 2, 3):
        since, one = [], InMemory({epoch: kept.kept[epoch]})
        again = cluster(f, unsorted[0], KINDS, plan, checkpoints=one, log=since.append, **given)
        assert bits(again) == bits(whole)
        assert again.assignment.probabilities.tobytes() == whole.assignment.probabilities.tobytes()
        assert since == records[epoch:]
        assert again.choice == whole.choice


@pytest.mark.parametrize("variant", ["pi", "baseline"])
def test_steps_make_q_of_what_they_saw(
    variant: str, f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(unsorted[0], f, variant=variant, p_from="steps")
    monkeypatch.setattr(task, "predict", lambda: pytest.fail("nobody asked for another look at all pictures"))
    halves = [np.arange(0, N, 2), np.arange(1, N, 2)]
    outputs = some_log_p(task.views * N)
    p = torch.empty(N, KINDS)
    for number, items in enumerate(halves):
        mine = outputs[number * task.views * len(items) :][: task.views * len(items)]
        task.losses(mine, items, 0)
        p[torch.from_numpy(items)] = mine[: len(items)].exp()
    before = task.labels
    record = task.epoch_done(Phase("main", 5, task.settings), 2, last_of_phase=False)
    assert torch.allclose(task.targets, target(p))
    assert (task.labels == p.argmax(dim=1).numpy()).all()
    # Beside the second view; where there is none, beside what the epoch before made of the pictures.
    other = np.empty(N, dtype=np.int64) if variant == "pi" else before
    for number, items in enumerate(halves if variant == "pi" else []):
        other[items] = outputs[number * 2 * len(items) :][len(items) : 2 * len(items)].argmax(dim=1).numpy()
    assert record["shared_information"] == pytest.approx(shared_information(task.labels, other, KINDS))
    assert record["changed"] == (task.labels != before).mean()


def test_q_is_made_of_p_averaged_over_the_pictures_that_f_finds_nearest(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    images, _ = unsorted
    plan = chosen(epochs=2, neighbours=4)
    seen: list[Snapshot] = []
    found = cluster(f, images, KINDS, plan, watch=seen.append)
    near = nearest_by_direction(extract_features(f, images), 4)
    start = start_of(f, images, plan)
    make = Targets(plan.discover, start.labels, KINDS, near)
    first = make(torch.from_numpy(start.probabilities)).numpy()
    assert np.allclose(seen[0].q, first[seen[0].items], atol=1e-6)
    alone = cluster(f, images, KINDS, plan.with_changes({"discover.neighbours": 0}))
    assert alone.assignment.probabilities.tobytes() != found.assignment.probabilities.tobytes()


def test_neighbours_for_the_start_and_the_targets_are_found_once(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, _ = unsorted
    plan = chosen(epochs=1, neighbours=4).with_changes({"initialise.neighbours": 6})
    expected = initialise(extract_features(f, images), KINDS, plan.initialise, alpha=plan.discover.alpha)
    asked: list[int] = []

    def counted(features: NDArray[np.float32], number: int) -> NDArray[np.int64]:
        asked.append(number)
        return nearest_by_direction(features, number)

    monkeypatch.setattr("newkinds.clustering.neighbours.nearest_by_direction", counted)
    monkeypatch.setattr(algorithm, "nearest_by_direction", counted)
    seen: list[Snapshot] = []
    cluster(f, images, KINDS, plan, watch=seen.append)
    assert asked == [6, 6]  # among the features, and once more among their averages
    make = Targets(plan.discover, expected.labels, KINDS, nearest_by_direction(extract_features(f, images), 4))
    q = make(torch.from_numpy(expected.probabilities)).numpy()
    assert np.allclose(seen[0].q, q[seen[0].items], atol=1e-6)


# One step


def task_of(images: ImageSet, network: Network, **changes: Any) -> ClusteringTask:
    features = np.random.default_rng(0).normal(size=(len(images), network.feature_dim)).astype(np.float32)
    start = initialise(features, KINDS, Initialise())
    return ClusteringTask(network, start, images, chosen(**changes).discover, seed=0)


def some_log_p(rows: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(5).normal(size=(rows, KINDS)).astype(np.float32)).log_softmax(dim=1)


def test_pi_looks_at_two_views_and_baseline_at_one(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    images, _ = unsorted
    items = np.array([5, 3, 17, 20])
    plain = torch.from_numpy(images.pixels[items]).float() / 255
    for variant, first_view, views in (
        ("baseline", "augmented", 1),
        ("baseline", "plain", 1),
        ("pi", "augmented", 2),
        ("pi", "plain", 2),
    ):
        task = task_of(images, f, variant=variant, first_view=first_view)
        assert task.views == views
        now, later = (task.inputs(items, epoch).view(views, 4, 3, SIZE, SIZE) for epoch in (0, 1))
        assert torch.equal(now[0], plain) is (first_view == "plain")
        assert torch.equal(now[0], later[0]) is (first_view == "plain")
        if variant == "pi":
            assert not torch.equal(now[0], now[1])
            assert not torch.equal(now[1], plain)
            assert not torch.equal(now[1], later[1])


def test_loss_is_eq_6(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    items, log_p = np.array([7, 2, 40]), some_log_p(6)
    for normalisation in ("n", "nk"):
        task = task_of(unsorted[0], f, consistency=3.0, ramp_epochs=10, kl_normalisation=normalisation)
        q = task.targets[torch.from_numpy(items)]
        kl = kl_divergence(q, log_p[:3], normalisation)
        difference = consistency(log_p[:3].exp(), log_p[3:].exp())
        for epoch in (0, 5, 10, 20):
            outputs = log_p.clone().requires_grad_()
            losses = task.losses(outputs, items, epoch)
            assert losses["kl"].item() == pytest.approx(kl.item())
            assert losses["consistency"].item() == pytest.approx(difference.item())
            expected = kl + omega(epoch, 10, 3.0) * difference
            assert losses["loss"].item() == pytest.approx(expected.item())
        # Gradients flow through both views.
        losses["loss"].backward()
        assert (outputs.grad.abs().sum(dim=1) > 0).all()
    task = task_of(unsorted[0], f, variant="baseline")
    losses = task.losses(log_p[:3], items, 0)
    assert set(losses) == {"loss", "kl"}
    assert losses["loss"].item() == pytest.approx(kl_divergence(q, log_p[:3]).item())


def test_embeddings_have_equal_views() -> None:
    points = np.random.default_rng(0).normal(size=(N, 6)).astype(np.float32)
    images = ImageSet(points, tuple(map(str, range(N))), None, (), "made up", "no mark")
    task = task_of(images, build_network("identity", 6, 1, seed=0), augmentation="none")
    items = np.array([4, 9])
    assert torch.equal(task.inputs(items, 0), torch.from_numpy(points[[4, 9]]))  # one pass for both views
    log_p = task.module(task.inputs(items, 0))
    losses = task.losses(log_p, items, 5)
    assert losses["consistency"].item() == 0
    assert losses["loss"].item() == pytest.approx(kl_divergence(task.targets[items], log_p).item())
    mixed = task_of(images, build_network("identity", 6, 1, seed=0), augmentation="none", mixed=True)
    assert len(mixed.inputs(items, 0)) == 3 * len(items)


def test_f_and_the_centres_may_have_rates_of_their_own(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    groups = task_of(unsorted[0], f, backbone_rate=0.1, centre_rate=2.0).parameter_groups(chosen().discover)
    assert [group["lr"] for group in groups] == pytest.approx([1e-4, 1e-3, 2e-3])
    assert len(groups[0]["params"]) == len(list(f.parameters()))
    assert [tuple(weight.shape) for weight in groups[1]["params"]] == [(3, f.feature_dim), (3,)]
    assert [tuple(weight.shape) for weight in groups[2]["params"]] == [(3, 3)]
    still = cluster(f, unsorted[0], KINDS, chosen(epochs=1, backbone_rate=0.0)).model
    assert all(torch.equal(a, b) for a, b in zip(still.network.parameters(), f.parameters(), strict=True))
    assert not torch.equal(still.head.centres, torch.zeros_like(still.head.centres))


def test_the_log_says_how_many_changed(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    records: list[Record] = []
    plan = chosen(warmup_epochs=0, epochs=1)
    found = cluster(f, unsorted[0], KINDS, plan, log=records.append)
    (record,) = records
    changed = found.assignment.labels != start_of(f, unsorted[0], plan).labels
    assert record["changed"] == pytest.approx(changed.mean())
    assert record["smallest_kind"] == np.bincount(found.assignment.labels, minlength=KINDS).min()


# Signs that need no labels


def merging(f: Network, images: ImageSet, **changes: Any) -> tuple[Solution, list[Record]]:
    """A clustering that is driven apart by a learning rate far too large."""
    records: list[Record] = []
    plan = chosen(optimiser="sgd", learning_rate=30.0, epochs=2, **changes)
    return cluster(f, images, KINDS, plan, log=records.append), records


def test_the_best_state_is_kept_when_the_last_is_worse(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    images, labels = unsorted
    found, records = merging(f, images, guard="keep-best")
    assert records[-1]["effective_kinds"] < 2.5
    assert found.choice.kept == "best"
    assert found.choice.monitor > found.choice.last_monitor + 0.02
    assert "merged" in found.choice.why
    assert f"{found.choice.monitor:.3f}" in found.choice.why
    assert clustering_accuracy(found.assignment.labels, labels) > clustering_accuracy(of(found.last, images), labels)
    # The network is that of the state kept, and the last one is there too.
    assert (of(found.model, images) == found.assignment.labels).all()
    start = cluster(f, images, KINDS, chosen(warmup_epochs=0, epochs=0))
    if found.choice.epoch == -1:
        assert bits(found) == bits(start)


@pytest.mark.parametrize("guard", ["off", "warn"])
def test_the_last_state_is_kept_where_it_is_asked_for(
    guard: str, f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]], capsys: pytest.CaptureFixture[str]
) -> None:
    records: list[Record] = []
    plan = chosen(optimiser="sgd", learning_rate=30.0, epochs=2, guard=guard)
    found = cluster(f, unsorted[0], KINDS, plan, log=records.append, progress=Progress("quiet"))
    assert found.choice.kept == "last"
    assert found.choice.epoch == 3
    assert found.last is None
    assert ("merge" in capsys.readouterr().err) is (guard == "warn")
    assert np.bincount(found.assignment.labels, minlength=KINDS).min() == records[-1]["smallest_kind"]


def test_a_clustering_that_goes_well_keeps_its_last_state(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    guarded, free = (cluster(f, unsorted[0], KINDS, chosen(guard=guard)) for guard in ("keep-best", "off"))
    assert guarded.choice.kept == "last"
    assert guarded.choice.epoch == 5
    assert bits(guarded) == bits(free)  # to watch changes nothing


def of(network: Model | None, images: ImageSet) -> NDArray[np.int64]:
    assert network is not None
    return apply(network, images).argmax(axis=1)


# When to stop


def test_settled_assignments_end_the_main_loop(f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]) -> None:
    runs: dict[float, list[Record]] = {0.0: [], 0.01: []}
    for share, records in runs.items():
        plan = chosen(epochs=12, settled=share, settled_epochs=3)
        cluster(f, unsorted[0], KINDS, plan, log=records.append)
    assert len(runs[0.0]) == 14
    stopped = runs[0.01]
    assert len(stopped) < 14
    assert stopped == runs[0.0][: len(stopped)]
    changes = [record["changed"] for record in stopped if record["phase"] == "main"]
    assert changes[-3:] == [0.0] * 3
    # Not a moment later than it had to be, and never in the warm-up, whose targets stand still.
    assert not any(changes[i : i + 3] == [0.0] * 3 for i in range(len(changes) - 3))


def test_warmup_may_have_a_rate_of_its_own_and_keeps_it(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    def loss(**changes: Any) -> list[float]:
        records: list[Record] = []
        plan = chosen(variant="baseline", augmentation="none", optimiser="sgd", warmup_epochs=3, epochs=1, **changes)
        cluster(f, unsorted[0], KINDS, plan, log=records.append)
        return [record["loss"] for record in records]

    still = loss(learning_rate=0.01, warmup_learning_rate=1e-12)
    assert still[:3] == pytest.approx([still[0]] * 3, rel=1e-3)
    steps = {"schedule": "steps", "milestones": (1,), "decay": 1e-9}
    falling = loss(learning_rate=0.01, **steps)
    assert falling[2] < falling[1] < falling[0]  # the schedule is the main loop's


def test_a_mixed_view_lays_each_picture_over_another_and_mixes_their_targets(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]]
) -> None:
    images, _ = unsorted
    items = np.array([3, 9, 27])
    task = task_of(images, f, variant="pi", mixed=True, first_view="plain")
    inputs = task.inputs(items, 1).double()
    others, share = task._mixed_with(items, 1)
    assert share.min() >= 0.5
    assert inputs.shape[0] == 9  # two views and the mixed one
    pixels = torch.from_numpy(images.pixels).double() / 255
    for row, (item, other, own) in enumerate(zip(items, others, share, strict=True)):
        assert torch.allclose(inputs[6 + row], own * pixels[item] + (1 - own) * pixels[other], atol=1e-6)
    # The same whatever batch it is in, and another one in another epoch.
    assert torch.equal(task.inputs(items[1:], 1)[-1].double(), inputs[-1])
    assert not torch.equal(task.inputs(items, 2)[6:].double(), inputs[6:])
    log_p = some_log_p(9)
    found = task.losses(log_p, items, 1)
    alone = task_of(images, f, variant="pi", first_view="plain").losses(log_p[:6], items, 1)
    q = sum(
        weight[:, None] * task.targets[torch.from_numpy(of)] for weight, of in ((share, items), (1 - share, others))
    )
    by_hand = (q * (q.log() - log_p[6:])).sum() / 3
    assert float(found["mixed"]) == pytest.approx(float(by_hand), rel=1e-4)
    assert float(found["loss"]) == pytest.approx((float(alone["loss"]) + float(by_hand)) / 2, rel=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_mixed_pictures_find_their_kinds_too(
    f: Network, unsorted: tuple[ImageSet, NDArray[np.int64]], variant: str
) -> None:
    images, truth = unsorted
    found = cluster(f, images, KINDS, chosen(variant=variant, mixed=True))
    assert clustering_accuracy(found.assignment.labels, truth) > 0.9
