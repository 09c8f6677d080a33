"""DEC: the autoencoder's loss by hand and in loops, targets and centres, kinds found without labels; runs go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from torch import Tensor, nn

from newkinds.configure import Settings
from newkinds.equations import assignment, clustering_accuracy, kl_divergence, target
from newkinds.errors import UsageError
from newkinds.features import apply, model_outputs
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem, Solution
from newkinds.methods.dec import AutoencoderTask, DecTask, _as_discovery, _start, dec, normalise
from newkinds.methods.registry import HEADS
from newkinds.networks import Model, StudentHead, build_network
from newkinds.networks.files import model_from_bytes, model_to_bytes
from newkinds.randomness import one_thread
from newkinds.runs.checkpoints import DiskCheckpoints
from newkinds.training import Phase, Record

N, SIZE, KINDS = 60, 8, 3
WIDTHS = (24, 16, 4)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def corners(channels: int = 1) -> tuple[ImageSet, NDArray[np.int64]]:
    """Pictures of noise, each kind bright in a corner of its own."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(N) % KINDS).astype(np.int64)
    pixels = rng.integers(0, 60, (N, channels, SIZE, SIZE), dtype=np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        top, left = divmod(int(label), 2)
        picture[:, top * 4 : top * 4 + 4, left * 4 : left * 4 + 4] += 150
    return ImageSet(pixels, tuple(f"{i}.png" for i in range(N)), None, (), "made up", "no mark"), labels


def chosen(seed: int = 0, **options: Any) -> Settings:
    small = {"widths": WIDTHS, "batch_size": 20, "autoencoder_epochs": 30, "epochs": 5, "settled": 0.0, "restarts": 5}
    return Settings(seed=seed, dec={**small, **options})


def problem(settings: Settings | None = None, **given: Any) -> Problem:
    images, labels = corners()
    f = build_network("pixels", 1, SIZE, seed=0)
    known = replace(images, labels=labels, classes=("a", "b", "c"))
    features = np.full((N, 2), np.nan, dtype=np.float32)  # nobody is to look at them
    return Problem(
        f, known, settings or chosen(), **{"unsorted": images, "kinds": KINDS, "features": features, **given}
    )


def bits(found: Solution) -> dict[str, bytes]:
    assert found.model is not None
    weights = {name: value.numpy().tobytes() for name, value in found.model.state_dict().items()}
    return {**weights, "p": found.assignment.probabilities.tobytes(), "embedding": found.embedding.tobytes()}


# The autoencoder


def autoencoder_task(images: ImageSet, **options: Any) -> AutoencoderTask:
    encoder = build_network("encoder-24-16-4", images.channels, images.size, seed=0)
    normalise(encoder, images)
    return AutoencoderTask(encoder, images, chosen(**options).dec, seed=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_layers_are_mirrored(channels: int) -> None:
    inputs = channels * SIZE**2
    module = autoencoder_task(corners(channels)[0]).autoencoder
    encoder, decoder = module.encoder.backbone.layers, module.decoder.layers
    assert isinstance(encoder, nn.Sequential)
    shapes = [(layer.in_features, layer.out_features) for layer in [*encoder, *decoder] if isinstance(layer, nn.Linear)]
    assert shapes == [(inputs, 24), (24, 16), (16, 4), (4, 16), (16, 24), (24, inputs)]
    between = [type(layer).__name__ for layer in [*encoder, *decoder]]
    assert between == ["Linear", "ReLU", "Linear", "ReLU", "Linear"] * 2
    assert module(torch.rand(2, channels, SIZE, SIZE)).shape == (2, inputs)


def test_reconstruction_error_by_hand() -> None:
    # Two pictures of one value each, 0 and 1 (of 255 / 255): the mean is 1/2, so is the standard deviation, and the
    # inputs are -1 and 1. Outputs of 0 are off by 1 everywhere, outputs of 1 by 2 and by 0.
    pixels = np.stack([np.zeros((1, SIZE, SIZE)), np.full((1, SIZE, SIZE), 255)]).astype(np.uint8)
    task = autoencoder_task(replace(corners()[0], pixels=pixels, names=("0", "1")))
    items = np.array([0, 1])
    assert task.losses(torch.zeros(2, 64), items, 0)["loss"].item() == pytest.approx(1.0)
    assert task.losses(torch.ones(2, 64), items, 0)["loss"].item() == pytest.approx(2.0)


@pytest.mark.parametrize("channels", [1, 3])
def test_reconstruction_error_is_what_plain_loops_give(channels: int) -> None:
    images, _ = corners(channels)
    task, items = autoencoder_task(images, noise=0.5), np.array([7, 3])
    outputs = torch.from_numpy(np.random.default_rng(1).normal(size=(2, channels * SIZE**2)))
    total = 0.0
    for row, item in zip(outputs.tolist(), items, strict=True):
        for c in range(channels):
            values = images.pixels[:, c].astype(np.float64) / 255
            wanted = ((values[item] - images.pixels[:, c].mean() / 255) / values.std()).flatten().tolist()
            part = row[c * SIZE**2 : (c + 1) * SIZE**2]
            total += sum((a - b) ** 2 for a, b in zip(part, wanted, strict=True))
    loss = task.losses(outputs, items, epoch=0)["loss"].item()
    assert loss == pytest.approx(total / outputs.numel(), rel=1e-5)


def test_a_share_of_what_enters_the_first_layer_is_0() -> None:
    images, _ = corners(3)
    items = np.arange(N)
    task = autoencoder_task(images, noise=0.3)
    entering = task.autoencoder.wanted(task.inputs(items, 0))
    plain = task.autoencoder.wanted(torch.from_numpy(images.pixels) / 255)
    lost = entering == 0
    assert lost.float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert torch.allclose(entering[~lost], plain[~lost])
    # Others in the next epoch; the same for a picture whatever its batch.
    assert not torch.equal(task.inputs(items, 1), task.inputs(items, 0))
    assert torch.equal(task.inputs(items[::-1].copy(), 0), task.inputs(items, 0).flip(0))
    assert torch.equal(autoencoder_task(images, noise=0.0).inputs(items, 0), torch.from_numpy(images.pixels) / 255)


def blobs(offset: float = 0.0, scale: float = 1.0) -> tuple[ImageSet, NDArray[np.int64]]:
    points, labels = make_blobs(N, 6, centers=KINDS, random_state=3)
    pixels = (offset + scale * points).astype(np.float32)
    return ImageSet(pixels, tuple(map(str, range(N))), None, (), "made up", "no mark"), labels.astype(np.int64)


def test_embeddings_enter_with_mean_0_and_one_scale() -> None:
    images, _ = blobs(offset=100.0, scale=50.0)
    module = autoencoder_task(images).autoencoder
    entering = module.wanted(torch.from_numpy(images.pixels)).numpy()
    assert entering.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-4)
    assert np.square(entering).mean() == pytest.approx(1.0, rel=1e-4)
    ratio = entering.std(axis=0) / images.pixels.std(axis=0)
    assert ratio == pytest.approx(np.full(6, ratio[0]), rel=1e-4)
    same = replace(images, pixels=np.ones((N, 6), dtype=np.float32))
    assert autoencoder_task(same).autoencoder.wanted(torch.ones(1, 6)).tolist() == [[0.0] * 6]


# The clustering


def dec_task(**options: Any) -> tuple[DecTask, NDArray[np.float32], ImageSet]:
    images, _ = corners()
    encoder = build_network("encoder-24-16-4", 1, SIZE, seed=0)
    normalise(encoder, images)
    codes = apply(encoder, images)
    start = _start(codes, KINDS, restarts=5, seed=0)
    return DecTask(encoder, start, images, _as_discovery(chosen(**options).dec), seed=0), codes, images


def test_it_starts_at_the_codes_and_their_centres() -> None:
    task, codes, images = dec_task()
    assert isinstance(task.module, Model)
    assert model_outputs(task.module, images).embedding == pytest.approx(codes, abs=1e-6)
    centres = task.module.head.centres.detach().numpy()
    for kind in range(KINDS):
        assert centres[kind] == pytest.approx(codes[task.labels == kind].mean(axis=0), abs=1e-4)
    p = assignment(torch.from_numpy(codes), torch.from_numpy(centres), alpha=1.0)
    assert torch.allclose(task.predict(), p, atol=1e-5)
    assert torch.allclose(task.targets, target(p), atol=1e-5)
    assert (task.predict().argmax(dim=1).numpy() == task.labels).all()


def test_loss_is_the_divergence_from_the_targets() -> None:
    task, _, _ = dec_task()
    items = np.array([5, 2, 40])
    log_p = torch.from_numpy(np.random.default_rng(5).normal(size=(3, KINDS)).astype(np.float32)).log_softmax(dim=1)
    losses = task.losses(log_p, items, 0)
    q = task.targets[torch.from_numpy(items)]
    assert losses["loss"].item() == pytest.approx(kl_divergence(q, log_p).item())
    by_loops = sum(q[i, k].item() * (q[i, k].log() - log_p[i, k]).item() for i in range(3) for k in range(KINDS))
    assert losses["loss"].item() == pytest.approx(by_loops / 3, rel=1e-4)


@pytest.mark.parametrize("every", [1, 2])
def test_targets_are_made_anew_every_so_many_epochs(every: int) -> None:
    task, _, _ = dec_task(update_every=every)
    phase = Phase("main", 9, chosen().dec)
    for epoch in range(4):
        with torch.no_grad():
            task.module.head.centres += 0.05 * (epoch + 1) * torch.tensor([[1.0], [0.0], [-1.0]])
        before = task.targets
        task.epoch_done(phase, epoch, last_of_phase=False)
        if (epoch + 1) % every == 0:
            assert torch.allclose(task.targets, target(task.predict()))
        else:
            assert task.targets is before


def test_encoder_and_centres_learn_and_the_codes_stay_codes() -> None:
    kept: dict[str, dict[str, Tensor]] = {}
    found = dec(problem(keep=keeper(kept)))
    assert isinstance(found.model, Model)
    assert isinstance(found.model.head, StudentHead)
    assert torch.equal(found.model.head.bottleneck.weight, torch.eye(4))
    assert torch.equal(found.model.head.bottleneck.bias, torch.zeros(4))
    before, after = kept["autoencoder"], found.model.network.state_dict()
    moved = {name for name in after if not torch.equal(before[name], after[name])}
    assert moved == {name for name in after if name.startswith("backbone")}
    still = dec(problem(chosen(epochs=0), keep=keeper(kept)))
    assert isinstance(still.model, Model)
    assert isinstance(still.model.head, StudentHead)
    assert not torch.equal(found.model.head.centres, still.model.head.centres)
    assert (
        found.assignment.probabilities.max(axis=1).mean() > still.assignment.probabilities.max(axis=1).mean()
    )  # surer than it was


# What is found


@pytest.mark.parametrize("seed", [0, 1])
def test_kinds_far_apart_are_found_without_labels(seed: int) -> None:
    records: list[Record] = []
    labels = corners()[1]
    given = problem(chosen(seed), truth=labels, log=records.append)
    found = dec(replace(given, known=replace(given.known, labels=None)))
    assert clustering_accuracy(found.assignment.labels, labels) == 1.0
    assert found.assignment.probabilities.sum(axis=1) == pytest.approx(np.ones(N), abs=1e-5)
    assert found.embedding.shape == (N, 4)
    first, second = ([r for r in records if r["stage"] == stage] for stage in ("autoencoder", "dec"))
    assert first + second == records
    assert (len(first), len(second)) == (30, 5)
    assert first[-1]["loss"] < 0.5 * first[0]["loss"]
    assert all(record["changed"] <= 1 for record in second)
    assert second[-1]["acc"] == 1.0
    # The network that is returned says the same, also when it comes from a file.
    assert found.model is not None
    again = model_from_bytes(model_to_bytes(found.model, {}), "here", HEADS)[0]
    assert np.exp(apply(again, given.unsorted)) == pytest.approx(found.assignment.probabilities, abs=1e-6)


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (1000.0, 30.0), (0.0, 1e-3)])
def test_embeddings_of_any_scale(offset: float, scale: float) -> None:
    images, labels = blobs(offset, scale)
    f = build_network("identity", 6, 1, seed=0)
    found = dec(Problem(f, images, chosen(noise=0.1), unsorted=images, kinds=KINDS, features=images.pixels))
    assert clustering_accuracy(found.assignment.labels, labels) == 1.0


def test_it_ends_when_hardly_an_assignment_changes() -> None:
    runs: dict[float, list[Record]] = {0.0: [], 0.01: []}
    for share, records in runs.items():
        dec(problem(chosen(epochs=12, settled=share, update_every=2), log=records.append))
    long, short = ([r for r in records if r["stage"] == "dec"] for records in runs.values())
    assert len(long) == 12
    assert len(short) < 12
    assert short == long[: len(short)]
    assert [record["changed"] for record in short[-2:]] == [0.0, 0.0]  # as many epochs as from targets to targets
    assert not any(a["changed"] == b["changed"] == 0 for a, b in pairwise(short[:-1]))


def test_truth_is_for_the_log_only() -> None:
    labels = corners()[1]
    records: list[Record] = []
    partly = np.where(np.arange(N) < 5, labels, -1)
    without = bits(dec(problem(log=records.append)))
    assert all("acc" not in record for record in records)
    assert bits(dec(problem(truth=labels))) == bits(dec(problem(truth=partly))) == without


def test_the_seed_counts_and_the_global_generator_does_not() -> None:
    torch.manual_seed(1)
    first = bits(dec(problem()))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert bits(dec(problem())) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert bits(dec(problem(chosen(seed=1)))) != first


def test_double_precision() -> None:
    found = dec(problem(chosen().with_changes({"precision": "float64"})))
    assert clustering_accuracy(found.assignment.labels, corners()[1]) == 1.0
    assert found.model is not None
    assert {value.dtype for value in found.model.state_dict().values()} == {torch.float32}


# Runs that go on


def keeper(kept: dict[str, dict[str, Tensor]]) -> Callable[[str, Callable[[], dict[str, Tensor]]], dict[str, Tensor]]:
    def keep(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        if name not in kept:
            kept[name] = {key: value.clone() for key, value in make().items()}
        return kept[name]

    return keep


class Killed(Exception):
    """Somebody pulled the plug."""


class Interrupted(DiskCheckpoints):
    """Checkpoints on disk; the run is killed after that of an epoch of a stage."""

    def __init__(self, folder: Path, at: tuple[str, int]) -> None:
        super().__init__(folder, seconds=0)
        self.at = at

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        super().save(stage, epoch, tensors)
        if (stage, epoch) == self.at:
            raise Killed


@pytest.mark.parametrize("at", [("autoencoder", 2), ("dec", 1), ("dec", 3)])
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(at: tuple[str, int], tmp_path: Path) -> None:
    plan = chosen(autoencoder_epochs=4, update_every=2)
    whole = bits(dec(problem(plan)))
    kept: dict[str, dict[str, Tensor]] = {}
    with pytest.raises(Killed):
        dec(problem(plan, checkpoints=Interrupted(tmp_path, at), keep=keeper(kept)))
    records: list[Record] = []
    last = DiskCheckpoints(tmp_path, seconds=1e9)
    assert bits(dec(problem(plan, checkpoints=last, keep=keeper(kept), log=records.append))) == whole
    assert (records[0]["stage"], records[0]["epoch"]) == at  # what was done before is not done again


# What is refused


@pytest.mark.parametrize("widths", [(), (500, 0), (-1,), (100_000,), (2,) * 10])
def test_widths_that_make_no_encoder(widths: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"dec\.widths = .* 1 to 9 layers"):
        dec(problem(chosen(widths=widths)))


def test_more_kinds_than_pictures() -> None:
    with pytest.raises(UsageError, match=f"{N + 1}"):
        dec(problem(chosen(autoencoder_epochs=0), kinds=N + 1))
