"""Settings: checked, kept as TOML, changed by dotted keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from newkinds.configure import Settings, make_settings
from newkinds.errors import UsageError
from newkinds.images.augment import POLICIES
from newkinds.images.decode import FITS
from newkinds.methods.dtc import VARIANTS
from newkinds.methods.registry import METHODS
from newkinds.networks import NETWORKS
from newkinds.settings import Section
from newkinds.settings.files import merge, parse_toml, parse_value, read_toml

STAGES = ["images", "pretrain", "transfer", "count", "rehearse", "initialise"]  # those of methods come behind them
SECTIONS = [*STAGES, *dict.fromkeys(name for method in METHODS.values() for name in method.sections)]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        result |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return result


DEFAULTS = flat(Settings().model_dump())


# Defaults


def test_every_default_is_valid() -> None:
    # pydantic does not check defaults by itself: give each of them as a value.
    assert make_settings(Settings().model_dump()) == Settings()
    for key, value in DEFAULTS.items():
        assert Settings().with_changes({key: value}) == Settings(), key


def test_sections_and_their_defaults() -> None:
    assert [name for name, value in Settings() if isinstance(value, Section)] == SECTIONS
    for name in SECTIONS:
        assert getattr(Settings(), name) == type(getattr(Settings(), name))()


def test_names_that_are_listed_twice_agree() -> None:
    for name in VARIANTS:
        assert make_settings({"discover": {"variant": name}}).discover.variant == name
    for name in ("auto", *POLICIES):
        for section in ("pretrain", "discover"):
            assert getattr(make_settings({section: {"augmentation": name}}), section).augmentation == name
    for name in ("auto", *NETWORKS):
        assert make_settings({"network": name}).network == name
    for fit in FITS:
        assert make_settings({"images": {"fit": fit}}).images.fit == fit


def test_settings_cannot_be_changed_in_place() -> None:
    chosen = Settings()
    with pytest.raises(ValidationError):
        chosen.seed = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        chosen.discover.epochs = 3  # type: ignore[misc]


# TOML


def some_value(default: Any) -> Any:
    """A value other than the default, of its type."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    if isinstance(default, float):
        return default + 0.01 if default > 1 else default / 2 + 0.01
    return default


@pytest.mark.parametrize("changes", [{}, {key: some_value(value) for key, value in DEFAULTS.items()}])
def test_toml_round_trip(changes: dict[str, Any], tmp_path: Path) -> None:
    chosen = Settings().with_changes(changes)
    assert (chosen == Settings()) is (not changes)
    file = tmp_path / "settings.toml"
    file.write_text(chosen.to_toml())
    assert make_settings(read_toml(file)) == chosen
    assert set(flat(read_toml(file))) == set(DEFAULTS)  # all of them are written
    assert make_settings(read_toml(file)).to_toml() == chosen.to_toml()


@given(st.floats(1e-12, 1e12), st.integers(0, 2**62), st.lists(st.integers(1, 10**6), max_size=4))
def test_toml_keeps_every_digit(rate: float, seed: int, milestones: list[int]) -> None:
    chosen = Settings().with_changes(
        {"discover.learning_rate": rate, "seed": seed, "pretrain.milestones": tuple(milestones)}
    )
    again = make_settings(parse_toml(chosen.to_toml()))
    assert again == chosen
    assert again.discover.learning_rate == rate


def test_a_file_may_say_only_what_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('kinds = 7\n[discover]\nvariant = "baseline"\n', encoding="utf-8")
    chosen = make_settings(read_toml(file))
    assert (chosen.kinds, chosen.discover.variant) == (7, "baseline")
    assert chosen == Settings().with_changes({"kinds": 7, "discover.variant": "baseline"})


@pytest.mark.parametrize("data", [b"kinds = = 3", b"\xff\xfe", b"[discover\n", b"kinds = 1\nkinds = 2\n"])
def test_files_that_are_not_toml(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"mine\.toml is not TOML"):
        read_toml(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_toml(path)


# What is refused


@pytest.mark.parametrize(
    ("values", "key", "meant"),
    [
        ({"kids": 3}, "kids", "kinds"),
        ({"sead": 3}, "sead", "seed"),
        ({"discover": {"epohs": 3}}, "discover.epohs", "discover.epochs"),
        ({"pretrain": {"learningrate": 3}}, "pretrain.learningrate", "pretrain.learning_rate"),
        ({"evenness": 1}, "evenness", "discover.evenness"),
        ({"evenes": 1}, "evenes", "discover.evenness"),
        ({"discover": {"max_kinds": 3}}, "discover.max_kinds", "count.max_kinds"),
        ({"pretrain": {"kinds": 3}}, "pretrain.kinds", "kinds"),
        ({"network": "auto", "neighbors": 3}, "neighbors", "count.neighbours, initialise.neighbours, discover.neigh"),
        ({"discover": {"lr": 3}}, "discover.lr", "discover.learning_rate"),
        ({"dicover": {"epochs": 3}}, "dicover", "discover"),
        ({"dicover": {}}, "dicover", "discover"),
        ({"training": {"quarter_turn": True}}, "training.quarter_turn", "pretrain.quarter_turns"),
        ({"initialise": {"int": 3}}, "initialise.int", None),
        ({"interval": 3}, "interval", None),
        ({"floats": {"a": 3}}, "floats.a", None),
        ({"discover": {"xyz": 1}}, "discover.xyz", None),
    ],
)
def test_unknown_keys_are_named_with_what_was_meant_wherever_that_stands(
    values: dict[str, Any], key: str, meant: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        make_settings(values)
    assert f"Unknown setting {key!r}" in caught.value.message
    if meant is None:
        assert "did you mean" not in caught.value.message
    else:
        assert f"Unknown setting {key!r} (did you mean {meant}" in caught.value.message
    assert "newkinds settings --all" in caught.value.hint


@pytest.mark.parametrize(
    ("key", "last"), [("epochs", "epochs"), ("lerning_rate", "learning_rate"), ("lr", "learning_rate")]
)
def test_a_key_of_several_sections_suggests_a_few_of_them_the_everyday_ones_first(key: str, last: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings().with_changes({key: 3})
    names = caught.value.message.partition("did you mean ")[2].rstrip("?).").replace(" or ", ", ").split(", ")
    assert f"discover.{last}" in names[:2]
    assert 2 <= len(names) <= 5
    assert all(name.endswith(f".{last}") for name in names)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("kinds", 1, "2 kinds or more"),
        ("kinds", 0, "2 kinds or more"),
        ("kinds", -3, "2 kinds or more"),
        ("kinds", "many", "'auto'"),
        ("seed", -1, "greater than or equal to 0"),
        ("seed", "x", "integer"),
        ("seed", 1.5, "integer"),
        (
            "network",
            "resnet50",
            "Valid: FILE.onnx, auto, efficientnet-lite0, efficientnet-lite1, efficientnet-lite2, "
            "identity, module:function, pixels, resnet18",
        ),
        ("images.size", 0, "greater than or equal to 1, or 'auto'"),
        ("images.size", "large", "'auto'"),
        ("images.fit", "stretch", "'crop' or 'squash'"),
        ("images.largest", 4, "greater than or equal to 8"),
        ("pretrain.epochs", -1, "greater than or equal to 0, or 'auto'"),
        ("pretrain.held_out", 1.0, "less than 1"),
        ("pretrain.augmentation", "crop_flip", "Did you mean 'crop-flip'?"),
        ("pretrain.quarter_turns", 3, "boolean, unable to interpret input, or 'auto'"),
        ("pretrain.batch_size", 1, "greater than or equal to 2"),
        ("count.tau", 1.0, "less than 1"),
        ("count.max_kinds", 0, "greater than or equal to 1"),
        ("initialise.width", 0, "greater than or equal to 1, or 'kinds'"),
        ("initialise.scale", -2.0, "greater than 0, or 'none' or 'auto'"),
        ("initialise.scale", "wide", "or 'none' or 'auto'"),
        ("discover.variant", "te2", "'baseline'"),
        ("discover.learning_rate", 0, "greater than 0"),
        ("discover.learning_rate", math.inf, "finite"),
        ("discover.learning_rate", math.nan, "discover.learning_rate"),
        ("discover.schedule", "linear", "'constant', 'cosine' or 'steps'"),
        ("discover.momentum", 1.0, "less than 1"),
        ("discover.milestones", [1, "x"], "integer"),
        ("centroids.episodes", -1, "greater than or equal to 0, or 'auto'"),
        ("centroids.episodes", "many", "'auto'"),
    ],
)
def test_bad_values_are_named_with_what_is_valid(key: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings().with_changes({key: value})
    message = caught.value.message
    assert f"{key}.1 = 'x'" in message if isinstance(value, list) else f"{key} = {value!r}" in message
    assert says in message
    assert message.count(f"{key} =") <= 1  # one line for each setting
    assert caught.value.exit_code == 2


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        make_settings({"seed": -1, "kids": 3, "discover": {"alpha": 0, "epohs": 1}, "count": {"tau": "x"}})
    for part in ("seed = -1", "'kids'", "discover.alpha = 0", "'discover.epohs'", "count.tau = 'x'"):
        assert part in caught.value.message


def test_a_section_must_be_a_table() -> None:
    with pytest.raises(UsageError, match="discover = 3"):
        make_settings({"discover": 3})
    with pytest.raises(UsageError, match=r"seed = \{'x': 3\}: .* integer"):
        Settings().with_changes({"seed.x": 3})


# Changing


def test_merge_replaces_dotted_keys_and_leaves_its_input() -> None:
    values = {"seed": 1, "discover": {"epochs": 3, "alpha": 2.0}}
    merged = merge(values, {"discover.epochs": 9, "kinds": 5, "count.tau": 0.1})
    assert merged == {"seed": 1, "discover": {"epochs": 9, "alpha": 2.0}, "kinds": 5, "count": {"tau": 0.1}}
    assert values == {"seed": 1, "discover": {"epochs": 3, "alpha": 2.0}}
    assert merge({}, {}) == {}


def test_with_changes_checks_again_and_leaves_its_object() -> None:
    before = Settings()
    after = before.with_changes({"discover.epochs": 7, "kinds": 4})
    assert (after.discover.epochs, after.kinds) == (7, 4)
    assert before == Settings()
    with pytest.raises(UsageError, match=r"'discover\.epoch'"):
        before.with_changes({"discover.epoch": 7})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("true", True),
        ('"auto"', "auto"),
        ("auto", "auto"),
        ("crop-flip", "crop-flip"),
        ("[1, 2]", [1, 2]),
        ("vgg6-4-2", "vgg6-4-2"),
        ("", ""),
        ("C:\\photos", "C:\\photos"),
        ("[1, 2", "[1, 2"),
    ],
)
def test_parse_value(text: str, value: Any) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@given(st.text())
def test_parse_value_takes_any_text(text: str) -> None:
    parse_value(text)
