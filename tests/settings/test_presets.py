"""Presets: valid, complete, apart where the paper and its authors' code part, and only for their own data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from newkinds import api, cli
from newkinds.configure import Settings, make_settings
from newkinds.datasets import DATASETS
from newkinds.errors import UsageError
from newkinds.images import ImageSet
from newkinds.methods.dtc import VARIANTS
from newkinds.presets import KINDS, TRANSFER, all_presets, combine, find_preset, layered, preset_for
from newkinds.presets.text import FOLDER, chain, merged, parsed
from newkinds.settings.files import merge, parse_toml
from newkinds.settings.names import declared
from newkinds.settings.words import valid_values

DATA = ("omniglot", "cifar10", "cifar100", "svhn", "imagenet", TRANSFER)
PUBLISHED = [f"{data}-{kind}" for data in DATA for kind in ("paper", "authors")]
QUICK = [f"{data}-quick" for data in DATA]

# What every published preset has instead of today's default, whatever the data set and the variant.
PINNED = {
    "pretrain.quarter_turns": False,
    "count.probes_at_once": 100_000,
    "count.splits": 1,
    "count.restarts": 10,
    "count.tolerance": 0.0,
    "count.index_tolerance": 1.0,
    "count.decline": 1.0,
    "count.index_sample": 1_000_000,
    "count.rounding": "up",
    "count.unit_length": False,
    "count.dimensions": 100_000,
    "initialise.overseed": 1.0,
    "initialise.scale": "none",
    "discover.p_from": "pass",
    "discover.targets": "eq3",
    "discover.alpha": 1.0,
    "discover.ramp_from": "main",
    "discover.settled": 0.0,
    "dec.optimiser": "sgd",
    "dec.learning_rate": 0.01,
    "similarity.start": "fresh",
    "pairs.start": "fresh",
    "pairs.unknown": "drop",
    "centroids.start": "fresh",
    "centroids.episodes": 10_000,
    "centroids.restarts": 1,
}
# What only some data sets need to state, as nothing looks at it unless another setting has a value.
ONLY_WITH = [
    (
        ("pretrain.loss", "prototypical"),
        {"pretrain.episode_kinds", "pretrain.episodes_of", "pretrain.support", "pretrain.query"},
    ),
    (("pretrain.optimiser", "sgd"), {"pretrain.momentum"}),
    (("discover.schedule", "steps"), {"discover.decay"}),
]

# Where the paper's text and the authors' code part on every data set, and where on some.
PARTED = {
    "count.index_on",
    "initialise.bottleneck",
    "discover.kl_normalisation",
    "discover.consistency",
    "discover.guard",
}
PARTED_TOO = {
    "omniglot": {"count.anchor_share"},
    "cifar10": {"discover.update_every"},
    "cifar100": {"discover.update_every", "count.anchor_share"},
    "svhn": {"discover.update_every"},
    "imagenet": {"discover.update_every", "discover.augmentation", "count.anchor_share", "count.tau"},
    TRANSFER: {"discover.update_every"},
}
# And where not, though the data set is listed above: a variant of the authors' that does as the text.
SAME_AFTER_ALL = {("imagenet", "te"): {"discover.update_every"}, ("imagenet", "pi"): {"discover.augmentation"}}


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def settings_of(name: str, variant: str | None = None) -> dict[str, Any]:
    return flat(find_preset(name).settings(variant).model_dump())


# The files


def test_there_is_one_of_each() -> None:
    assert set(all_presets()) == {*PUBLISHED, *QUICK}
    assert {one.dataset for one in all_presets().values()} - {TRANSFER} == set(DATASETS) - {"digits", "letters"}
    assert [name.rpartition("-")[2] for name in list(all_presets())[:3]] == list(KINDS)


@pytest.mark.parametrize("name", [*PUBLISHED, *QUICK])
def test_every_file_is_valid_for_every_variant(name: str) -> None:
    preset = find_preset(name)
    for variant in VARIANTS:
        assert preset.settings(variant).discover.variant in VARIANTS
    assert preset.settings() == preset.settings(preset.settings().discover.variant)
    assert preset.settings() != Settings()


@pytest.mark.parametrize("name", [*PUBLISHED, *QUICK])
def test_every_file_says_what_it_is_and_shows_how_to_use_it(name: str) -> None:
    lines = find_preset(name).text.splitlines()
    assert lines[0] == f"# {find_preset(name).about}"
    assert lines[0].endswith(".")
    (example,) = [line for line in lines if line.startswith("# For example: newkinds discover ")]
    words = example.split()
    known, unsorted = words[5], words[6]
    assert preset_for(words[words.index("--preset") + 1], known, unsorted).name == name
    assert all(len(line) <= 120 for line in lines)


def another(name: str) -> Any:
    """Return a valid value of a setting that is not its default, if one of those tried here is."""
    default = flat(Settings().model_dump())[name]
    values = [0.5, 0.25, 3, 1000, False, True, (7,), ("*",), "pixels"]
    values += re.findall(r'"([^"]+)"', valid_values(Settings, name))
    return next((value for value in values if value != default and is_valid(name, value)), default)


def is_valid(name: str, value: Any) -> bool:
    try:
        return flat(Settings().with_changes({name: value}).model_dump())[name] == value
    except UsageError:
        return False


@pytest.fixture(scope="module")
def other_defaults() -> dict[str, Any]:
    """Return values as if every default were another one."""
    moved = Settings().with_changes({name: another(name) for name in declared(Settings)}).model_dump()
    defaults, stated = flat(Settings().model_dump()), flat(find_preset("omniglot-paper").values)
    assert not [key for key in stated if flat(moved)[key] == defaults[key]]
    return moved


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_changed_default_changes_no_published_preset(name: str, other_defaults: dict[str, Any]) -> None:
    stated_by_any = {key for one in PUBLISHED for key in flat(find_preset(one).values)}
    for variant in VARIANTS:
        stated = flat(layered([find_preset(name).values], variant))
        before = settings_of(name, variant)
        after = flat(make_settings(merge(other_defaults, stated)).model_dump())
        unused = {key for (what, value), keys in ONLY_WITH if before[what] != value for key in keys}
        changed = {key for key in before if before[key] != after[key]}
        assert not changed & stated_by_any - unused, f"{name} leaves them to defaults: state them in paper.toml"


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_and_no_default_is_pinned(name: str) -> None:
    defaults = flat(Settings().model_dump())
    assert not [key for key, value in PINNED.items() if defaults[key] == value]
    for variant in VARIANTS:
        assert PINNED.items() <= settings_of(name, variant).items()


@pytest.mark.parametrize("name", QUICK)
def test_quick_presets_are_the_defaults_but_for_size_and_time(name: str) -> None:
    allowed = {
        "network",
        "images.size",
        "pretrain.loss",
        "pretrain.epochs",
        "discover.warmup_epochs",
        "discover.epochs",
    }
    allowed |= {"count.max_kinds", "count.splits", "count.restarts"}
    if name == "svhn-quick":
        allowed |= {"pretrain.augmentation", "pretrain.quarter_turns", "discover.augmentation"}
    assert set(flat(find_preset(name).values)) <= allowed
    assert str(settings_of(name)["network"]).endswith("-slim")


# Files that build on others


def test_presets_of_the_paper_and_the_authors_build_on_one_base_each() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == {"paper", "authors", *all_presets()}
    for data in DATA:
        assert [file.name for file in chain(f"{data}-paper")] == ["paper", f"{data}-paper"]
        assert [file.name for file in chain(f"{data}-authors")] == [
            "paper",
            f"{data}-paper",
            "authors",
            f"{data}-authors",
        ]
        assert [file.name for file in chain(f"{data}-quick")] == [f"{data}-quick"]


BASE = parsed(
    "base",
    """# A base.

[pretrain]
epochs = 5  # so many
keep = "last"

[discover]
# Two lines
# of reasons.
milestones = [
  1,  # one
  2,
]
epochs = 6

# For one variant.
[variant.te]
epochs = 7
beta = 0.1
""",
)


def test_what_a_file_states_comes_over_its_base_with_its_reason() -> None:
    own = parsed(
        "data-own", '# Own.\n# More.\n\nextends = "base"\nseed = 3\n[pretrain]\nepochs = 9  # more\nmargin = 1.0\n'
    )
    assert (own.head, own.extends, own.is_base, BASE.is_base) == ("# Own.\n# More.", ("base",), False, True)
    assert (
        merged([BASE, own])
        == """seed = 3

[pretrain]
epochs = 9  # more
keep = "last"
margin = 1.0

[discover]
# Two lines
# of reasons.
milestones = [
  1,  # one
  2,
]
epochs = 6

# For one variant.
[variant.te]
epochs = 7
beta = 0.1
"""
    )


def test_a_table_for_a_variant_counts_in_its_own_file_only_as_in_layers() -> None:
    own = parsed("data-own", "# Own.\n\n[discover]\nepochs = 8\n\n[variant.pi]\nbeta = 0.2\n")
    layers = [parse_toml(merged([one])) for one in (BASE, own)]
    for variant in VARIANTS:
        assert layered([parse_toml(merged([BASE, own]))], variant) == layered(layers, variant)
    assert parse_toml(merged([BASE, own]))["variant"] == {"te": {"beta": 0.1}, "pi": {"beta": 0.2}}


@pytest.mark.parametrize("name", [*PUBLISHED, *QUICK])
def test_the_text_of_a_preset_is_what_its_files_are_in_layers(name: str) -> None:
    layers = [parse_toml(merged([file])) for file in chain(name)]
    for variant in (None, *VARIANTS):
        assert make_settings(layered(layers, variant)) == find_preset(name).settings(variant)
    reasons = [line for file in chain(name) if file.is_base for line in file.head.splitlines()]
    assert set(reasons) <= set(find_preset(name).text.splitlines())


def test_a_settings_file_may_build_on_a_preset(tmp_path: Path) -> None:
    own = {"extends": "cifar10-paper", "discover": {"epochs": 3}}
    for variant in VARIANTS:
        expected = find_preset("cifar10-paper").settings(variant)
        found = combine(own, {"discover.variant": variant})
        assert found == expected.with_changes({"discover.variant": variant, "discover.epochs": 3})
    file = tmp_path / "my.toml"
    file.write_text('extends = ["cifar10-paper", "authors"]\nseed = 4\n', encoding="utf-8")
    assert combine(file, {}) == find_preset("cifar10-authors").settings().with_changes({"seed": 4})
    for wrong, name in (("cifar10-papr", "Did you mean 'cifar10-paper'"), (3, "Unknown preset '3'")):
        with pytest.raises(UsageError, match=name):
            combine({"extends": wrong}, {})


# What they hold


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("data", DATA)
def test_paper_and_authors_part_exactly_where_the_text_and_the_code_do(data: str, variant: str) -> None:
    paper, authors = settings_of(f"{data}-paper", variant), settings_of(f"{data}-authors", variant)
    parted = (PARTED | PARTED_TOO[data]) - SAME_AFTER_ALL.get((data, variant), set())
    assert {key for key in paper if paper[key] != authors[key]} == parted


@pytest.mark.parametrize("name", PUBLISHED)
def test_nothing_of_ours_is_left_in_presets_of_the_paper(name: str) -> None:
    chosen = find_preset(name).settings()
    assert (chosen.discover.batch_norm, chosen.pretrain.keep, chosen.discover.mixed) == ("batch", "last", False)
    assert chosen.discover.guard in ("off", "warn")  # neither changes the result
    assert (chosen.initialise.views, chosen.initialise.neighbours, chosen.discover.neighbours) == (0, 0, 0)
    assert chosen.count.dimensions > 1024  # than the widest features


@pytest.mark.parametrize("data", DATA)
def test_the_text(data: str) -> None:
    for variant in VARIANTS:
        chosen = find_preset(f"{data}-paper").settings(variant)
        assert (chosen.initialise.bottleneck, chosen.discover.kl_normalisation) == ("pca", "n")
        assert (chosen.discover.consistency, chosen.discover.update_every) == (1, 1)
        assert (chosen.count.anchor_share, chosen.count.tau, chosen.count.max_kinds) == (0.8, 0.01, 100)


# In the authors' code: warm-up rate and epochs, main rate and epochs, weight decay, epochs between updates of q, omega.
AUTHORS = {
    ("omniglot", None): (0.001, 10, 0.001, 90, 0, 1, 100),
    ("cifar10", "baseline"): (0.1, 10, 0.1, 100, 1e-5, 5, 10),
    ("cifar10", "pi"): (0.1, 10, 0.05, 100, 1e-4, 5, 10),
    ("cifar10", "te"): (0.1, 10, 0.05, 100, 1e-5, 5, 10),
    ("cifar10", "tep"): (0.1, 10, 0.05, 100, 1e-5, 5, 10),
    ("cifar100", None): (0.1, 30, 0.05, 100, 1e-5, 10, 10),
    ("svhn", "pi"): (0.1, 10, 0.001, 60, 0, 5, 10),
    ("svhn", "te"): (0.1, 10, 0.001, 60, 0, 5, 100),
    ("imagenet", "pi"): (0.1, 10, 0.05, 60, 1e-5, 5, 100),
    ("imagenet", "te"): (0.1, 10, 0.05, 60, 1e-5, 1, 100),
    ("imagenet", "tep"): (0.1, 10, 0.05, 60, 1e-5, 5, 100),
    (TRANSFER, None): (0.1, 10, 0.1, 100, 1e-5, 5, 10),
}


@pytest.mark.parametrize(("data", "variant"), AUTHORS)
def test_the_authors_training(data: str, variant: str | None) -> None:
    for one in VARIANTS if variant is None else [variant]:
        chosen = find_preset(f"{data}-authors").settings(one).discover
        found = (chosen.warmup_learning_rate, chosen.warmup_epochs, chosen.learning_rate, chosen.epochs)
        found += (chosen.weight_decay, chosen.update_every, chosen.consistency)
        assert found == AUTHORS[data, variant]
        assert (chosen.optimiser, chosen.batch_size) == (("adam", 100) if data == "omniglot" else ("sgd", 128))
        halved = data in ("cifar100", TRANSFER)
        assert (chosen.schedule, chosen.milestones) == (("steps", (20, 40, 60, 80)) if halved else ("constant", ()))
        assert (chosen.beta, chosen.ramp_epochs, chosen.kl_normalisation, chosen.guard) == (0.6, 5, "nk", "off")


@pytest.mark.parametrize(
    ("data", "loss", "optimiser", "rate", "epochs", "milestones", "network"),
    [
        ("omniglot", "prototypical", "adam", 0.001, 200, (), "vgg6-4-2"),
        ("cifar10", "cross-entropy", "adam", 0.1, 180, (100, 150), "resnet18"),
        ("cifar100", "cross-entropy", "adam", 0.001, 180, (100, 150), "vgg6-5-1"),
        ("svhn", "cross-entropy", "adam", 0.1, 180, (100, 150), "resnet18"),
        ("imagenet", "cross-entropy", "sgd", 0.1, 90, (30, 60), "resnet18-imagenet"),
    ],
)
def test_pretraining(
    data: str, loss: str, optimiser: str, rate: float, epochs: int, milestones: tuple[int, ...], network: str
) -> None:
    for kind in ("paper", "authors"):
        whole = find_preset(f"{data}-{kind}").settings()
        chosen = whole.pretrain
        assert (chosen.loss, chosen.optimiser, chosen.learning_rate) == (loss, optimiser, rate)
        assert (chosen.epochs, chosen.milestones, whole.network) == (epochs, milestones, network)
        assert chosen.schedule == ("steps" if milestones else "constant")
        if loss == "prototypical":
            assert (chosen.episode_kinds, chosen.support, chosen.query) == (20, 5, 5)


# Which preset suits which pictures


def images(source: str) -> ImageSet:
    return ImageSet(np.zeros((2, 1, 8, 8), np.uint8), ("a", "b"), None, (), source, "no mark")


@pytest.mark.parametrize(
    ("name", "known", "unsorted", "found"),
    [
        ("paper", "omniglot", "omniglot:Tengwar", "omniglot-paper"),
        ("omniglot-authors", "omniglot:background", "omniglot:Tengwar", "omniglot-authors"),
        ("quick", "cifar10", "cifar10", "cifar10-quick"),
        ("paper", "imagenet", "cifar10", f"{TRANSFER}-paper"),
        (f"{TRANSFER}-authors", "cifar10", "cifar10", f"{TRANSFER}-authors"),
        (f"{TRANSFER}-quick", "imagenet:probes", None, f"{TRANSFER}-quick"),
        ("authors", "imagenet", None, "imagenet-authors"),
        ("paper", images("svhn:labelled"), images("svhn:unlabelled"), "svhn-paper"),
    ],
)
def test_presets_that_suit(name: str, known: object, unsorted: object, found: str) -> None:
    assert preset_for(name, known, unsorted).name == found


@pytest.mark.parametrize(
    ("name", "known", "unsorted", "words"),
    [
        (
            "cifar10-paper",
            "omniglot",
            "omniglot:Tengwar",
            ["'cifar10-paper' is for cifar10", "omniglot-paper, omniglot-a"],
        ),
        (
            "paper",
            "photos/known",
            "photos/unsorted",
            ["photos/known and photos/unsorted", "the defaults, or --settings"],
        ),
        ("quick", Path("omniglot"), Path("omniglot"), ["not for omniglot", "my.toml"]),
        ("paper", "omniglot", "photos/unsorted", ["omniglot and photos/unsorted", "the defaults"]),
        ("authors", "digits", "digits", ["not for digits.", "There is no preset for that"]),
        ("paper", images("photos"), images("photos"), ["not for photos.", "the defaults"]),
        (f"{TRANSFER}-paper", "cifar10", None, ["Presets for that: cifar10-paper, cifar10-authors, cifar10-quick."]),
    ],
)
def test_presets_for_other_data_are_refused(name: str, known: object, unsorted: object, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        preset_for(name, known, unsorted)
    for word in words:
        assert word in str(caught.value)


def test_a_folder_called_as_a_data_set_is_somebodys_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "svhn").mkdir()
    with pytest.raises(UsageError, match="the defaults"):
        preset_for("paper", "svhn", "svhn")
    assert preset_for("paper", "svhn:labelled", "svhn:unlabelled").name == "svhn-paper"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'omniglot-paper'"):
        preset_for("omniglot-papr", "omniglot", "omniglot:Tengwar")
    with pytest.raises(UsageError, match="Unknown preset 'paper'"):
        find_preset("paper")  # of which data set?


# Layers


def test_layers_come_over_one_another_each_with_its_table_for_the_variant() -> None:
    low = {
        "network": "resnet18",
        "discover": {"epochs": 1, "alpha": 2.0},
        "variant": {"te": {"epochs": 2, "beta": 0.1}},
    }
    high = {"discover": {"epochs": 3}, "variant": {"pi": {"alpha": 4.0}}}
    assert layered([low], "pi") == {"network": "resnet18", "discover": {"epochs": 1, "alpha": 2.0}}
    assert layered([low], "te")["discover"] == {"epochs": 2, "alpha": 2.0, "beta": 0.1}
    assert layered([low, high], "te")["discover"] == {"epochs": 3, "alpha": 2.0, "beta": 0.1}
    assert layered([low, high])["discover"] == {"epochs": 3, "alpha": 4.0}  # pi is the default
    assert layered([low, {"discover": {"variant": "te"}}, {}])["discover"]["epochs"] == 2
    assert layered([{"variant": {"te": {"beta": 0.1}}}], "te") == {"discover": {"beta": 0.1}}
    assert low["discover"] == {"epochs": 1, "alpha": 2.0}


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"tee": {"epochs": 1}}, "Unknown variant 'tee'"),
        ({"te": {"epohs": 1}}, r"'discover\.epohs'"),
        ({"te": 3}, r"\[variant\.te\] should hold settings"),
        ({"te": {"variant": "pi"}}, r"\[variant\.te\] should hold settings"),
        ({"te": {"network": "os:system"}}, r"'discover\.network'"),  # no way round the check of networks
        ("te", "Unknown setting 'variant'"),
    ],
)
def test_bad_tables_are_refused_whether_used_or_not(tables: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make_settings(layered([{"variant": tables}], "pi"))


def test_a_settings_object_leaves_nothing_to_a_preset() -> None:
    with pytest.raises(UsageError, match="has all values"):
        combine(Settings(), {}, find_preset("svhn-paper"))


# The command line and Python


class Stop(Exception):
    """Raised instead of running a pipeline."""


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Settings]:
    """Return a list that gets the settings a run would start with; none is started."""
    found: list[Settings] = []

    def instead(*arguments: Any) -> None:
        found.extend(one for one in arguments if isinstance(one, Settings))
        raise Stop

    monkeypatch.setattr(api, "open_pipeline", instead)
    monkeypatch.setattr(api, "pretrain_run", instead)
    monkeypatch.setattr(api, "open_known", lambda *arguments, **options: images("omniglot:train"))
    monkeypatch.chdir(tmp_path)
    return found


def run(*arguments: str) -> None:
    result = CliRunner().invoke(cli.app, list(arguments))
    assert isinstance(result.exception, Stop), (result.output, result.exception)


@pytest.mark.parametrize("command", ["discover", "count", "pretrain"])
def test_the_commands_take_presets_below_files_below_options(command: str, chosen: list[Settings]) -> None:
    Path("my.toml").write_text("[discover]\nepochs = 7\nalpha = 2.0\n[variant.te]\nbeta = 0.3\n", encoding="utf-8")
    sources = ["omniglot"] if command == "pretrain" else ["omniglot", "omniglot:Tengwar"]
    run(command, *sources, "--out", "r", "--preset", "paper", "--settings", "my.toml", "--set", "discover.alpha=3.0")
    preset = find_preset("omniglot-paper").settings()
    assert chosen == [preset.with_changes({"discover.epochs": 7, "discover.alpha": 3.0})]
    run(command, *sources, "--out", "r", "--preset", "paper", "--settings", "my.toml", "--set", "discover.variant=te")
    assert (chosen[1].discover.variant, chosen[1].discover.beta, chosen[1].discover.alpha) == ("te", 0.3, 2.0)


def test_a_variant_gets_its_own_values(chosen: list[Settings]) -> None:
    for variant in ("baseline", "pi"):
        run("discover", "cifar10", "cifar10", "--out", "r", "--preset", "authors", "--variant", variant)
    assert [one.discover.variant for one in chosen] == ["baseline", "pi"]
    assert [one.discover.learning_rate for one in chosen] == [0.1, 0.05]
    assert [one.discover.weight_decay for one in chosen] == [1e-5, 1e-4]


def test_python_takes_presets(chosen: list[Settings]) -> None:
    with pytest.raises(Stop):
        api.discover("svhn", "svhn", out="r", preset="authors", variant="te", settings={"discover": {"epochs": 2}})
    expected = find_preset("svhn-authors").settings("te").with_changes({"discover.variant": "te", "discover.epochs": 2})
    assert chosen[-1] == expected
    assert chosen[-1].discover.consistency == 100
    with pytest.raises(Stop):
        api.count("svhn", "svhn", out="r", preset="svhn-quick", seed=3)
    assert chosen[-1] == find_preset("svhn-quick").settings().with_changes({"seed": 3})
    with pytest.raises(Stop):
        api.pretrain("omniglot", out="r", preset="quick")
    assert chosen[-1] == find_preset("omniglot-quick").settings()
    with pytest.raises(UsageError, match="is for svhn"):
        api.pretrain("omniglot", out="r", preset="svhn-quick")


@pytest.mark.parametrize("name", [*PUBLISHED, *QUICK])
def test_a_printed_preset_is_a_settings_file(name: str, chosen: list[Settings]) -> None:
    shown = CliRunner().invoke(cli.app, ["presets", name])
    assert shown.exit_code == 0
    assert shown.output == find_preset(name).text
    Path("my.toml").write_text(shown.output, encoding="utf-8")
    for variant in VARIANTS:
        run("discover", "photos/a", "photos/b", "--out", "r", "--settings", "my.toml", "--variant", variant)
        assert chosen[-1] == find_preset(name).settings(variant).with_changes({"discover.variant": variant})


def test_presets_are_listed_with_what_they_are() -> None:
    listed = CliRunner().invoke(cli.app, ["presets"], env={"COLUMNS": "300"})
    assert listed.exit_code == 0
    for preset, line in zip(all_presets().values(), listed.output.splitlines(), strict=True):
        assert line.split()[:2] == [preset.name, preset.dataset]
        assert preset.about in line
    assert "Example: newkinds presets" in CliRunner().invoke(cli.app, ["presets", "--help"]).output


@pytest.mark.parametrize("name", [name for name in all_presets() if name not in QUICK])
def test_other_methods_are_as_published(name: str) -> None:
    preset = find_preset(name)
    chosen = preset.settings()
    assert {chosen.similarity.start, chosen.pairs.start, chosen.centroids.start} == {"fresh"}
    assert (chosen.similarity.epochs, chosen.pairs.epochs, chosen.centroids.episodes) == (50, 150, 10_000)
    # What `newkinds presets NAME` prints is all of it.
    assert make_settings(layered([parse_toml(preset.text)], None)) == chosen
