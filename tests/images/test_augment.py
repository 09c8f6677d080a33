"""Random views: pure in (seed, epoch, item, view), and what they do to the pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

import newkinds.images.augment as module
from newkinds.errors import UsageError
from newkinds.images.augment import POLICIES, Augmentation, augment, policy
from newkinds.randomness import uniforms

SIZES = (4, 5, 7, 8, 16, 32, 64)
# The columns of the table of random numbers; 0.5 is the middle of every range but the crop's area, where 0 is none.
SHIFT_DOWN, SHIFT_RIGHT, FLIP, AREA, RATIO, ANGLE, SHEAR, SCALE, RIGHT, DOWN = range(10)


def random_pixels(n: int, channels: int, size: int, seed: int = 0) -> Tensor:
    generator = np.random.default_rng(seed)
    return torch.from_numpy(generator.integers(0, 256, (n, channels, size, size), dtype=np.uint8))


def view_of(pixels: Tensor, how: Augmentation, items: NDArray[np.int64] | None = None, **names: int) -> Tensor:
    items = np.arange(len(pixels)) if items is None else items
    return augment(pixels, items, how, **{"seed": 0, "epoch": 0, **names})


@pytest.fixture
def fix_uniforms(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give every picture the numbers asked for, by column."""

    def fix(values: dict[int, float]) -> None:
        row = np.full(10, 0.5)
        row[AREA] = 0.0
        row[list(values)] = list(values.values())

        def fixed(seed: int, purpose: str, epoch: int, items: NDArray[np.int64], columns: int, view: int) -> NDArray:
            return np.tile(row, (len(items), 1))

        monkeypatch.setattr(module, "uniforms", fixed)

    return fix


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("size", [4, 8, 32])
def test_a_view_depends_on_its_item_and_not_on_its_batch(name: str, size: int) -> None:
    pixels, items, how = random_pixels(9, 3, size), np.array([3, 0, 8, 100, 7, 5, 6, 1, 10**6]), policy(name, size)
    together = view_of(pixels, how, items)
    alone = torch.cat([view_of(pixels[i : i + 1], how, items[i : i + 1]) for i in range(9)])
    assert torch.equal(together, alone)
    order = np.array([4, 2, 8, 0])
    assert torch.equal(view_of(pixels[order], how, items[order]), together[order])


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "none"])
def test_a_view_depends_on_seed_epoch_item_and_view(name: str) -> None:
    pixels, how = random_pixels(1, 3, 16).expand(20, -1, -1, -1), policy(name, 16)
    first = view_of(pixels, how)
    assert torch.equal(first, view_of(pixels, how, seed=0, epoch=0, view=0))
    for other in ({"seed": 1}, {"epoch": 1}, {"view": 1}):
        different = (view_of(pixels, how, **other) != first).flatten(1).any(dim=1)
        assert different.float().mean() > 0.8, other
    # The same picture as another item is seen otherwise.
    assert len(torch.unique(first.flatten(1), dim=0)) > 10


def test_no_global_generator_is_used() -> None:
    before = torch.get_rng_state()
    first = view_of(random_pixels(4, 1, 8), policy("affine", 8))
    torch.manual_seed(5)
    assert torch.equal(view_of(random_pixels(4, 1, 8), policy("affine", 8)), first)
    torch.set_rng_state(before)
    view_of(random_pixels(4, 1, 8), policy("affine", 8))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_shape_type_and_range(name: str, channels: int, size: int) -> None:
    pixels = random_pixels(6, channels, size)
    pixels[0], pixels[1] = 255, 0
    before = pixels.clone()
    views = view_of(pixels, policy(name, size))
    assert (views.shape, views.dtype) == (pixels.shape, torch.float32)
    assert views.min() >= 0
    assert views.max() <= 1 + 1e-6
    # What is white or black all over stays so: outside the picture its edge goes on.
    assert torch.allclose(views[0], torch.ones(()), atol=1e-6)
    assert (views[1] == 0).all()
    assert torch.equal(pixels, before)


@given(st.sampled_from(sorted(POLICIES)), st.integers(1, 300))
def test_the_border_is_smaller_than_the_picture_and_keeps_its_proportion(name: str, size: int) -> None:
    border = policy(name, size).border
    assert border < size
    if POLICIES[name].border and size > 1:
        assert border == max(1, round(size / 8))
    else:
        assert border == 0


def test_policies_at_the_customary_size_are_as_listed() -> None:
    assert {name: policy(name, 32) for name in POLICIES} == POLICIES


def test_unknown_policy_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError) as caught:
        policy("crop-filp", 32)
    assert "crop-filp" in caught.value.message
    assert "Did you mean 'crop-flip'?" in caught.value.hint
    assert all(name in caught.value.hint for name in POLICIES)


@pytest.mark.parametrize("size", [1, 4, 32])
def test_none_is_exact(size: int) -> None:
    pixels = random_pixels(5, 3, size)
    for how in (policy("none", size), Augmentation()):
        assert torch.equal(view_of(pixels, how), pixels.float() / 255)


def test_unchanging_draws_are_exact(fix_uniforms: Callable[..., None]) -> None:
    pixels = random_pixels(3, 3, 8)
    fix_uniforms({FLIP: 0.5})  # the first number that does not flip
    assert torch.equal(view_of(pixels, policy("crop-flip", 8)), pixels.float() / 255)
    for name in ("affine", "resized-crop", "resized-crop-flip"):
        assert torch.allclose(view_of(pixels, policy(name, 8)), pixels.float() / 255, atol=1e-5)


def test_flip_mirrors_left_to_right(fix_uniforms: Callable[..., None]) -> None:
    pixels = random_pixels(3, 3, 8)
    fix_uniforms({FLIP: 0.4999})
    assert torch.equal(view_of(pixels, Augmentation(flip=True)), pixels.flip(3).float() / 255)
    # A flip without a border, and the same draw without a flip.
    assert torch.equal(view_of(pixels, Augmentation(border=1)), pixels.float() / 255)


def test_half_of_the_pictures_are_flipped() -> None:
    pixels = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4).expand(4000, -1, -1, -1)
    flipped = (view_of(pixels, Augmentation(flip=True)) != pixels.float() / 255).flatten(1).any(dim=1)
    assert abs(float(flipped.float().mean()) - 0.5) < 4 * 0.5 / np.sqrt(4000)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 12), st.data(), st.booleans(), st.sampled_from([1, 3]), st.integers(0, 1000))
def test_crop_from_a_reflected_border_against_numpy(
    size: int, data: st.DataObject, flip: bool, channels: int, epoch: int
) -> None:
    border = data.draw(st.integers(1, size - 1))
    pixels, items = random_pixels(5, channels, size, seed=epoch), np.arange(10, 15)
    views = view_of(pixels, Augmentation(border=border, flip=flip), items, epoch=epoch)
    draws = uniforms(0, "augment", epoch, items, 3)
    for i in range(5):
        padded = np.pad(pixels[i].numpy(), ((0, 0), (border, border), (border, border)), mode="reflect")
        top, left = (int(draw * (2 * border + 1)) for draw in draws[i, :2])
        crop = padded[:, top : top + size, left : left + size]
        crop = crop[:, :, ::-1] if flip and draws[i, 2] < 0.5 else crop
        assert (views[i].numpy() == crop.astype(np.float32) / np.float32(255)).all()


def test_all_shifts_occur_equally_often() -> None:
    pixels = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8).expand(9000, -1, -1, -1)
    views = view_of(pixels, policy("crop", 8))
    assert policy("crop", 8).border == 1
    kinds, counts = torch.unique(views.flatten(1), dim=0, return_counts=True)
    assert len(kinds) == 9
    assert ((counts - 1000).square().sum() / 1000) < 31.8  # 8 degrees of freedom: one in 10,000 is above


def test_rotation_by_a_quarter(fix_uniforms: Callable[..., None]) -> None:
    pixels = random_pixels(2, 3, 6)
    for draw, turns in ((1.0, 1), (0.0, -1)):
        fix_uniforms({ANGLE: draw})
        views = view_of(pixels, Augmentation(degrees=90.0))
        assert torch.allclose(views, torch.rot90(pixels, turns, dims=(2, 3)).float() / 255, atol=1e-5)


def test_translation_by_whole_pixels_repeats_the_edge(fix_uniforms: Callable[..., None]) -> None:
    pixels = random_pixels(2, 1, 8)
    fix_uniforms({RIGHT: 1.0, DOWN: 0.0})
    views = view_of(pixels, Augmentation(translate=0.25))  # two of eight pixels: looks right, and up
    columns, rows = np.minimum(np.arange(8) + 2, 7), np.maximum(np.arange(8) - 2, 0)
    assert torch.allclose(views, pixels[:, :, rows][:, :, :, columns].float() / 255, atol=1e-5)


def test_scale_by_two_shows_the_middle(fix_uniforms: Callable[..., None]) -> None:
    # A ramp keeps its slope under bilinear interpolation, so that the answer can be written down.
    ramp = torch.arange(0, 160, 10, dtype=torch.uint8).view(1, 1, 1, 16).expand(1, 1, 16, 16).contiguous()
    fix_uniforms({SCALE: 1.0})
    row = view_of(ramp, Augmentation(scale=1.0))[0, 0, 8] * 255
    assert torch.allclose(row, 75 + 5 * (torch.arange(16) - 7.5), atol=1e-3)


def test_shear_moves_rows_sideways(fix_uniforms: Callable[..., None]) -> None:
    pixels = torch.zeros(1, 1, 9, 9, dtype=torch.uint8)
    pixels[..., 4] = 255  # an upright line through the middle
    fix_uniforms({SHEAR: 1.0})
    view = view_of(pixels, Augmentation(shear=45.0))[0, 0]
    assert torch.allclose(view, torch.eye(9).flip(1), atol=1e-5)


def test_resized_crop_keeps_at_least_its_share(fix_uniforms: Callable[..., None]) -> None:
    ramp = torch.arange(0, 160, 10, dtype=torch.uint8).view(1, 1, 1, 16).expand(1, 1, 16, 16).contiguous()
    fix_uniforms({AREA: 1.0})
    row = view_of(ramp, Augmentation(resized_crop=0.25))[0, 0, 8] * 255
    assert torch.allclose(row, 75 + 5 * (torch.arange(16) - 7.5), atol=1e-3)
    # The crop stays inside the picture: at the end of the range it touches the edge.
    fix_uniforms({AREA: 1.0, RIGHT: 1.0})
    row = view_of(ramp, Augmentation(resized_crop=0.25))[0, 0, 8] * 255
    assert torch.allclose(row[:15], (115 + 5 * (torch.arange(16) - 7.5))[:15], atol=1e-3)
    assert row[15] == pytest.approx(150)
    # Wider than high, by 4 to 3 in area's terms: the square root of it on either side.
    fix_uniforms({AREA: 1.0, RATIO: 1.0})
    wide = view_of(ramp, Augmentation(resized_crop=0.25))[0, 0, 8] * 255
    high = view_of(ramp.transpose(2, 3), Augmentation(resized_crop=0.25))[0, 0, :, 8] * 255
    assert wide.diff().mean() / high.diff().mean() == pytest.approx(4 / 3, rel=1e-4)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([5, 8, 16]))
def test_affine_against_scipy(item: int, size: int) -> None:
    how = Augmentation(degrees=40.0, translate=0.2, scale=0.3, shear=20.0)
    pixels = random_pixels(1, 1, size, seed=item)
    ours = view_of(pixels, how, np.array([item]))[0, 0].numpy()
    signed = 2 * uniforms(0, "augment", 0, np.array([item]), 10)[0] - 1
    angle, shear = np.deg2rad(signed[ANGLE] * 40.0), np.deg2rad(signed[SHEAR] * 20.0)
    rotate = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    to_source = rotate @ np.array([[1, np.tan(shear)], [0, 1]]) / (1 + 0.3 * signed[SCALE])  # of (x, y)
    shift = 0.2 * size * signed[[RIGHT, DOWN]]  # in pixels
    # scipy counts (row, column) from the corner, we (x, y) from the middle.
    matrix, middle = to_source[::-1, ::-1], np.full(2, (size - 1) / 2)
    offset = middle + shift[::-1] - matrix @ middle
    picture = pixels[0, 0].numpy() / 255
    theirs = ndimage.affine_transform(picture, matrix, offset, order=1, mode="nearest")
    assert np.abs(ours - theirs).max() < 1e-4


def test_parts_do_not_share_their_draws() -> None:
    # Turning one part on leaves what the others do as it was: each has columns of its own.
    pixels = random_pixels(8, 1, 8)
    crop = view_of(pixels, Augmentation(border=1))
    both = view_of(pixels, Augmentation(border=1, flip=True))
    assert all(torch.equal(a, b) or torch.equal(a.flip(2), b) for a, b in zip(crop, both, strict=True))


@pytest.mark.parametrize("field", ["degrees", "translate", "scale", "shear"])
def test_warps_says_whether_pixels_are_resampled(field: str) -> None:
    assert replace(Augmentation(), **{field: 0.1}).warps
    assert replace(Augmentation(), resized_crop=0.9).warps
    assert not Augmentation(border=3, flip=True).warps
