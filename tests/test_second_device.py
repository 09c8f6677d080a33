"""The made-up device refuses what CUDA refuses, and lets pass what CUDA lets pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from second_device import SECOND, convolutions, second_device


@pytest.fixture(autouse=True)
def _there() -> Iterator[None]:
    with second_device():
        yield


def here(*shape: int) -> Tensor:
    return torch.ones(shape)


def there(*shape: int) -> Tensor:
    return torch.ones(shape, device=SECOND)


def put(into: Tensor, index: Tensor, value: Tensor) -> None:
    into[index] = value


NUMBERS = torch.tensor([0, 2])


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    "mixed",
    [
        lambda: here(3) + there(3),
        lambda: there(3) * here(3),
        lambda: here(3) + there(),  # a number there is no number here
        lambda: here(3).add_(there(3)),
        lambda: here().add_(there()),
        lambda: there(2, 3) @ here(3, 2),
        lambda: F.linear(there(2, 3), here(4, 3)),
        lambda: F.conv2d(there(1, 1, 4, 4), here(1, 1, 3, 3)),
        lambda: torch.cat([there(1), here(1)]),
        lambda: torch.stack([there(), here()]),
        lambda: torch.where(here(3) > 0, there(3), there(3)),
        lambda: there(3).masked_fill(here(3) > 0, 0.0),
        lambda: there(3).index_select(0, NUMBERS),
        lambda: there(3).gather(0, NUMBERS),
        lambda: here(3)[NUMBERS.to(SECOND)],
        lambda: put(there(3), NUMBERS, here(2)),
        lambda: put(here(3), NUMBERS, there(2)),
        lambda: F.cross_entropy(there(2, 3), NUMBERS),
    ],
)
def test_tensors_of_two_devices_do_not_mix(mixed: Callable[[], object], inference: bool) -> None:
    with torch.inference_mode(inference), pytest.raises(RuntimeError, match=r"same device"):
        mixed()


@pytest.mark.parametrize("array", [lambda tensor: tensor.numpy(), np.asarray])
def test_numpy_does_not_see_what_is_there(array: Callable[[Tensor], object]) -> None:
    with pytest.raises(TypeError, match=r"can't convert lazy:0 device type tensor to numpy. Use Tensor.cpu()"):
        array(there(3))
    assert np.asarray(there(3).cpu()).tolist() == [1, 1, 1]


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    ("allowed", "device"),
    [
        (lambda: here() * there(3), SECOND),
        (lambda: there(3)[NUMBERS], SECOND),
        (lambda: there(3)[NUMBERS.to(SECOND)], SECOND),
        (lambda: there(3)[there(3) > 0], SECOND),
        (lambda: there(3).copy_(here(3)), SECOND),
        (lambda: here(3).copy_(there(3)), here().device),
        (lambda: here(3).to(there(3)), SECOND),
        (lambda: there(3).to(here(3).double()), here().device),
        (lambda: here(3).to(SECOND, non_blocking=True), SECOND),
        (lambda: there(3).cpu(), here().device),
        (lambda: torch.arange(3, device=SECOND), SECOND),
        (lambda: torch.tensor([1.0, 2.0], device=SECOND), SECOND),
        (lambda: torch.zeros_like(there(3)), SECOND),
        (lambda: there(3).new_zeros(2), SECOND),
    ],
)
def test_what_goes_from_one_device_to_the_other(
    allowed: Callable[[], Tensor], device: torch.device, inference: bool
) -> None:
    with torch.inference_mode(inference):
        assert allowed().device == device


def test_a_copy_is_a_copy_and_a_view_is_a_view() -> None:
    first = there(4)
    moved, part = first.cpu(), first[1:3]
    part.fill_(5)
    assert first.tolist() == [1, 5, 5, 1]
    assert moved.tolist() == [1, 1, 1, 1]
    assert first.sum().item() == 12
    first[0:1] = here(1) * 7  # `copy_` goes across
    assert first[0].item() == 7


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_a_module_learns_there_as_it_does_here(optimiser: Callable[..., torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 3))
    moved = copy.deepcopy(module)
    before = list(moved.parameters())
    moved.to(SECOND)
    assert all(one is other for one, other in zip(before, moved.parameters(), strict=True))  # as on CUDA
    assert all(isinstance(one, nn.Parameter) and one.device == SECOND for one in moved.parameters())
    x, y = torch.randn(5, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1])
    for model, device in ((module, "cpu"), (moved, SECOND)):
        steps = optimiser(model.parameters(), lr=0.01, weight_decay=0.01)
        for _ in range(3):
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            steps.zero_grad()
            loss.backward()
            steps.step()
    copied = copy.deepcopy(moved)
    for name, value in module.state_dict().items():
        assert moved.state_dict()[name].device == SECOND
        assert torch.equal(value, copied.state_dict()[name].cpu())
    with torch.inference_mode():
        assert torch.equal(module.eval()(x), moved.eval()(x.to(SECOND)).cpu())
    assert convolutions == {"cpu": 4, "lazy": 4}
    assert all(type(value) is Tensor for value in moved.to("cpu").state_dict().values())
