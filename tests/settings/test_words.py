"""Settings in words: every one has them, what is shown is a settings file, and docs/settings.md is current."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field
from typer.testing import CliRunner

from newkinds import cli
from newkinds.configure import Settings, make_settings
from newkinds.errors import UsageError
from newkinds.settings import Section
from newkinds.settings.files import parse_toml
from newkinds.settings.names import declared, is_everyday, sections
from newkinds.settings.words import WIDTH, page, shown, valid_values

ROOT = Path(__file__).parents[2]
NAMES = list(declared(Settings))


class Engine(Section):
    """The engine."""

    power: float = Field(1.5, gt=0, description="How strong it is.")
    gears: tuple[int, ...] = Field((1, 2), description="Its gears.")


class Car(Section):
    """A car, to see the words of a small model."""

    doors: Annotated[int, Field(ge=2, le=5)] | Literal["auto"] = Field(
        "auto", description="How many doors. " + "Long words. " * 12, json_schema_extra={"everyday": True}
    )
    engine: Engine = Engine()


# What is declared


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_words(name: str) -> None:
    words = declared(Settings)[name].description
    assert words is not None
    assert len(words.split()) >= 4
    assert words[0].isupper() or words[0] == '"'
    assert words.endswith(".")
    assert "  " not in words
    if '"auto"' in valid_values(Settings, name):
        assert '"auto"' in words, "it does not say what auto means"


def test_every_section_has_words() -> None:
    for section in sections(Settings).values():
        assert section.__doc__
        assert section.__doc__.rstrip().endswith(".")


def test_names_are_those_of_a_settings_file() -> None:
    values = Settings().model_dump()
    flat = [key for key, value in values.items() if not isinstance(value, dict)]
    flat += [f"{key}.{inner}" for key, value in values.items() if isinstance(value, dict) for inner in value]
    assert sorted(NAMES) == sorted(flat)


def test_about_a_dozen_settings_are_everyday() -> None:
    everyday = {name for name, field in declared(Settings).items() if is_everyday(field)}
    assert 10 <= len(everyday) <= 17
    assert {"kinds", "method", "network", "seed", "images.size", "discover.variant", "discover.epochs"} <= everyday


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("kinds", 'a whole number of at least 2, or "auto"'),
        ("seed", "a whole number of at least 0"),
        ("images.fit", '"crop" or "squash"'),
        ("pretrain.quarter_turns", 'true or false, or "auto"'),
        ("pretrain.held_out", "a number above 0 and below 1"),
        ("count.probes", '"auto", or a list of texts'),
        ("count.unit_length", "true or false"),
        ("initialise.scale", 'a number above 0, or "none" or "auto"'),
        ("discover.snapshots", "a whole number from 0 to 100"),
        ("discover.evenness", "a number from 0 to 1"),
        ("discover.milestones", "a list of whole numbers"),
    ],
)
def test_valid_values_in_words(name: str, valid: str) -> None:
    assert valid_values(Settings, name) == valid


def test_names_that_are_checked_by_code_are_listed() -> None:
    assert valid_values(Settings, "discover.augmentation").startswith('"auto", "none", "crop"')
    assert "newkinds networks" in valid_values(Settings, "network")


# What is shown


def test_a_small_model_in_full() -> None:
    assert shown(Car, every=True).partition("\n\n")[2] == (
        "# How many doors. Long words. Long words. Long words. Long words. Long words. Long words. Long\n"
        "# words. Long words. Long words. Long words. Long words. Long words.\n"
        '# Valid: a whole number from 2 to 5, or "auto".\n'
        'doors = "auto"\n'
        "\n"
        "# The engine.\n"
        "[engine]\n"
        "\n"
        "# How strong it is.\n"
        "# Valid: a number above 0.\n"
        "power = 1.5\n"
        "\n"
        "# Its gears.\n"
        "# Valid: a list of whole numbers.\n"
        "gears = [1, 2]\n"
    )
    assert "engine" not in shown(Car)
    assert 'doors = "auto"' in shown(Car)


def test_all_settings_as_shown_are_the_defaults() -> None:
    text = shown(Settings, every=True)
    assert parse_toml(text) == parse_toml(Settings().to_toml())
    assert make_settings(parse_toml(text)) == Settings()
    assert all(len(line) <= WIDTH for line in text.splitlines() if line.startswith("#"))


def test_everyday_settings_as_shown_are_defaults_too() -> None:
    values = parse_toml(shown(Settings))
    assert make_settings(values) == Settings()
    flat = {key for key, value in values.items() if not isinstance(value, dict)}
    flat |= {f"{key}.{inner}" for key, value in values.items() if isinstance(value, dict) for inner in value}
    assert flat == {name for name, field in declared(Settings).items() if is_everyday(field)}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("discover.evenness", {"discover": {"evenness": 0.5}}),
        ("evenness", {"discover": {"evenness": 0.5}}),
        ("seed", {"seed": 0}),
        ("kmeans", {"kmeans": {"on": "features", "restarts": 20}}),
        (
            "neighbours",
            {
                "count": {"neighbours": 0},
                "initialise": {"neighbours": 0},
                "discover": {"neighbours": 0},
                "lpnmf": {"neighbours": 5},
            },
        ),
    ],
)
def test_one_setting_or_a_section(name: str, values: dict[str, object]) -> None:
    text = shown(Settings, name)
    assert parse_toml(text) == values
    for section, inner in values.items():
        keys = [f"{section}.{key}" for key in inner] if isinstance(inner, dict) else [section]
        for key in keys:
            words = declared(Settings)[key].description
            assert words is not None
            assert words in " ".join(text.replace("\n# ", " ").split())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("evennes", r"Unknown setting 'evennes' \(did you mean discover\.evenness\?\)\. "),
        ("discover.epohs", r"'discover\.epohs' \(did you mean discover\.epochs\?\)\. "),
        ("dicover.epochs", r"\(did you mean discover\.epochs, "),
        ("pretran", r"\(did you mean pretrain\?\)"),
        ("xyz", r"Unknown setting 'xyz'\. `newkinds settings --all`"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        shown(Settings, name)


def test_the_command() -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli.app, ["settings", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert run() == shown(Settings)
    assert run("--all") == shown(Settings, every=True)
    assert run("evenness") == shown(Settings, "discover.evenness")
    assert "Example: newkinds settings" in run("--help")


# The page


def test_the_page_is_what_is_declared() -> None:
    found = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert found == page(Settings), "docs/settings.md is not what the settings say: run `make docs`"


def test_the_page_has_a_row_for_every_setting() -> None:
    text = page(Settings)
    rows = [line for line in text.splitlines() if line.startswith(("| `", "| **`"))]
    assert [line.split("`")[1] for line in rows] == NAMES
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)
