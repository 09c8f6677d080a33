"""Networks as safetensors: whole round trips, and nothing that could run code."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from models import student
from newkinds.errors import DataError
from newkinds.methods.registry import HEADS
from newkinds.networks import NETWORKS, build_network
from newkinds.networks.files import model_from_bytes, model_to_bytes, network_from_bytes, network_to_bytes, read_network
from newkinds.tensors import from_bytes, to_bytes

SMALL = ["vgg6-4-2-slim", "vgg6-5-1-slim", "resnet18-slim", "resnet18-imagenet-slim"]
GOOD = {"network": "vgg6-4-2-slim", "channels": 1, "size": 8}


class Bomb:
    """Unpickling one creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


# Round trips


@pytest.mark.parametrize("name", [*SMALL, "identity"])
def test_a_network_comes_back(name: str, tmp_path: Path) -> None:
    channels, size = (5, 1) if name == "identity" else (3, 8)
    network = build_network(name, channels, size, seed=1)
    network.mean.fill_(0.25)
    file = tmp_path / "network.safetensors"
    file.write_bytes(network_to_bytes(network, held_out_accuracy=0.5, classes=["a", "ü"]))
    again, about = read_network(file)
    assert (again.name, again.channels, again.size) == (name, channels, size)
    assert about["held_out_accuracy"] == 0.5
    assert about["classes"] == ["a", "ü"]
    assert list(again.state_dict()) == list(network.state_dict())
    assert all(torch.equal(again.state_dict()[key], value) for key, value in network.state_dict().items())
    assert network_to_bytes(again, held_out_accuracy=0.5, classes=["a", "ü"]) == file.read_bytes()
    # Anyone's reader of the format can open it.
    assert set(safetensors.torch.load_file(file)) == set(network.state_dict())


@pytest.mark.parametrize("name", ["vgg6-4-2-slim", "identity"])
def test_a_clustering_network_comes_back(name: str) -> None:
    channels, size = (5, 1) if name == "identity" else (1, 8)
    model = student(build_network(name, channels, size, seed=0), 4, 3, 2.5)
    with torch.no_grad():
        model.head.centres.copy_(torch.arange(12.0).view(4, 3))
    extra = {"means": torch.ones(2, 2), "present": torch.tensor([True, False])}
    data = model_to_bytes(model, extra, known_classes=["a"])
    before = torch.get_rng_state()
    again, more, about = model_from_bytes(data, "model", HEADS)
    assert torch.equal(torch.get_rng_state(), before)
    assert not again.training
    assert again.head.alpha == 2.5
    assert all(torch.equal(again.state_dict()[key], value) for key, value in model.state_dict().items())
    assert more.keys() == extra.keys()
    assert all(torch.equal(more[key], value) for key, value in extra.items())
    assert about["known_classes"] == ["a"]
    x = torch.from_numpy(np.random.default_rng(0).random((2, 5) if size == 1 else (2, 1, 8, 8), dtype=np.float32))
    assert torch.equal(again(x), model.eval()(x))


def test_equal_content_gives_equal_bytes() -> None:
    tensors = {"b": torch.ones(2), "a": torch.zeros(3, dtype=torch.int64), "c": torch.tensor(1.5)}
    first = to_bytes(tensors, {"x": 1, "y": 2})
    assert first == to_bytes(dict(reversed(tensors.items())), {"y": 2, "x": 1})
    assert first != to_bytes({**tensors, "b": torch.zeros(2)}, {"x": 1, "y": 2})
    assert first != to_bytes(tensors, {"x": 1, "y": 3})
    again, about = from_bytes(first, "here")
    assert about == {"x": 1, "y": 2}
    assert {name: (value.dtype, value.shape) for name, value in again.items()} == {
        name: (value.dtype, value.shape) for name, value in tensors.items()
    }


def test_views_and_gradients_are_written_as_they_look() -> None:
    base = torch.arange(6.0).view(2, 3).requires_grad_()
    again, _ = from_bytes(to_bytes({"turned": base.T}, {}), "here")
    assert torch.equal(again["turned"], base.detach().T)


# What is refused


def refused(data: bytes, tmp_path: Path, name: str = "weights.pt") -> DataError:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_network(file)
    assert str(file) in caught.value.message
    assert caught.value.hint
    with pytest.raises(DataError):
        model_from_bytes(data, str(file), HEADS)
    return caught.value


def test_pickles_are_refused_and_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made-by-the-bomb"
    state = OrderedDict(build_network("vgg6-4-2-slim", 1, 8, seed=0).state_dict())
    zipped, old = io.BytesIO(), io.BytesIO()
    torch.save({**state, "bomb": Bomb(target)}, zipped)
    torch.save({**state, "bomb": Bomb(target)}, old, _use_new_zipfile_serialization=False)
    bombs = [pickle.dumps(Bomb(target), protocol) for protocol in range(6)] + [zipped.getvalue(), old.getvalue()]
    for data in bombs:
        error = refused(data, tmp_path)
        assert "is not a safetensors file" in error.message
        assert "can run code" in error.hint
        assert not target.exists()
    # The bombs are live.
    pickle.loads(bombs[0])  # noqa: S301
    assert target.is_dir()


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 9, 16, 100, 10_000):
        assert "is not a safetensors file" in refused(random.bytes(size), tmp_path).message
        # A header of a length that fits, with rubbish in it.
        if size > 8:
            header = (size - 8).to_bytes(8, "little") + random.bytes(size - 8)
            assert "is not a safetensors file" in refused(header, tmp_path).message


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    data = network_to_bytes(build_network("vgg6-4-2-slim", 1, 8, seed=0))
    for length in (1, 8, 100, len(data) // 2, len(data) - 1):
        refused(data[:length], tmp_path)
    refused(data + b"\0", tmp_path)


@pytest.mark.parametrize("about", [{}, {"network": "vgg6-4-2-slim"}, {**GOOD, "size": None}])
def test_foreign_safetensors_are_refused(about: dict[str, Any], tmp_path: Path) -> None:
    foreign = safetensors.torch.save({"conv1.weight": torch.zeros(2, 2)}, metadata={"format": "pt"})
    assert "newkinds did not write it" in refused(foreign, tmp_path, "foreign.safetensors").message
    assert "newkinds did not write it" in refused(safetensors.torch.save({"a": torch.zeros(1)}), tmp_path).message
    refused(to_bytes({"a": torch.zeros(1)}, about), tmp_path)


@pytest.mark.parametrize("words", ["3", "[]", '"text"', "null", "{", ""])
def test_words_that_are_no_table_are_refused(words: str, tmp_path: Path) -> None:
    refused(safetensors.torch.save({"a": torch.zeros(1)}, metadata={"newkinds": words}), tmp_path)


@pytest.mark.parametrize(
    "changes", [{"network": "resnet50"}, {"network": 3}, {"channels": -1}, {"channels": "x"}, {"size": 2}, {"size": []}]
)
def test_descriptions_of_no_network_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    state = build_network("vgg6-4-2-slim", 1, 8, seed=0).state_dict()
    full = {**GOOD, "kinds": 2, "width": 2, "alpha": 1.0, **changes}
    assert "does not describe a network" in refused(to_bytes(state, full), tmp_path).message


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    state = build_network("vgg6-4-2-slim", 1, 8, seed=0).state_dict()
    about = {**GOOD, "kinds": 2, "width": 2, "alpha": 1.0}
    first = "backbone.layers.0.weight"
    for wrong in (
        {key: value for key, value in state.items() if key != first},
        {**state, "more": torch.zeros(1)},
        {**state, first: torch.zeros(1, 1, 3, 3)},
    ):
        assert "do not fit the network they name" in refused(to_bytes(wrong, about), tmp_path).message
    refused(to_bytes(state, {**about, "network": "resnet18-slim"}), tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.safetensors", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            read_network(path)


def test_words_are_json_in_the_header() -> None:
    data = to_bytes({"a": torch.zeros(1)}, {"k": "v"})
    length = int.from_bytes(data[:8], "little")
    assert json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["newkinds"]) == {"k": "v"}
    assert set(NETWORKS) >= set(SMALL)


def test_network_from_bytes_names_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="over there"):
        network_from_bytes(b"junk", "over there")
