"""docs/architecture.md is true: imports go in its order, its references lead somewhere, its sketches work."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from newkinds.methods.registry import METHODS
from newkinds.runs import names
from references import resolves

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "newkinds"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

# What may import what: a room imports itself and those before it.
ROOMS = (
    "version.py",
    "errors.py",
    "arguments.py",
    "environment.py",
    "plotting.py",
    "files.py",
    "stopping.py",
    "cells.py",
    "memory.py",
    "distances.py",
    "randomness.py",
    "progress.py",
    "cache.py",
    "tensors.py",
    "equations.py",
    "regression.py",
    "parallel/",
    "images/",
    "datasets/",
    "networks/",
    "settings/",
    "profiles/",
    "training.py",
    "features.py",
    "clustering/",
    "pretrain/",
    "transfer.py",
    "known_at_most.py",
    "novelty.py",
    "count/",
    "start.py",
    "rehearsal/",
    "assignment.py",
    "unlike.py",
    "corrections/",
    "methods/",
    "configure.py",
    "presets/",
    "evaluation/",
    "runs/",
    "trained_network.py",
    "predict.py",
    "discovery.py",
    "report/",
    "pipeline/",
    "export/",
    "journal.py",
    "app/",
    "opening.py",
    "api.py",
    "compare/",
    "demo.py",
    "listing.py",
    "__init__.py",
    "cli/",
    "__main__.py",
)

Sources = Mapping[str, str]  # the text of each module, by its name
Imports = Mapping[str, set[str]]  # the modules that each imports


@cache
def sources() -> Sources:
    found = {}
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = file.read_text(encoding="utf-8")
    return found


def run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes that can run, in functions too: not those that only type checkers see."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        children: list[ast.AST] = [*node.orelse]
    else:
        children = [*ast.iter_child_nodes(node)]
    for child in children:
        yield child
        yield from run_nodes(child)


def imports(modules: Sources) -> Imports:
    """Return which of these modules each imports; `from package import module` is the module."""
    found: dict[str, set[str]] = {}
    for name, text in modules.items():
        wanted: set[str] = set()
        for node in run_nodes(ast.parse(text)):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} has a relative import"
                inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= {one if one in modules else str(node.module) for one in inner.values()}
        found[name] = (wanted & modules.keys()) - {name}
    return found


def room(module: str) -> str:
    """Return the room that a module is in, as ROOMS has it."""
    _, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    if not first:
        return "__init__.py"
    return f"{first}/" if (PACKAGE / first).is_dir() else f"{first}.py"


def cycle(graph: Imports) -> list[str]:
    """Return modules that import one another in a circle, [] if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upward(graph: Imports) -> list[str]:
    """Return the imports that go against the order of the rooms."""
    place = {name: number for number, name in enumerate(ROOMS)}
    return sorted(
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if place[room(other)] > place[room(module)]
    )


def test_there_are_no_import_cycles() -> None:
    assert cycle(imports(sources())) == []


def test_imports_go_in_the_order_of_the_rooms() -> None:
    assert upward(imports(sources())) == []


def test_the_checks_of_imports_notice() -> None:
    inside = "def later():\n    from newkinds import files"
    assert imports({"newkinds.a": inside, "newkinds.files": ""}) == {
        "newkinds.a": {"newkinds.files"},
        "newkinds.files": set(),
    }
    typed = "if TYPE_CHECKING:\n    import newkinds.b\nelse:\n    import newkinds.c"
    found = imports({"newkinds.a": typed, "newkinds.b": "", "newkinds.c": ""})
    assert found["newkinds.a"] == {"newkinds.c"}
    assert len(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == 4
    assert upward({"newkinds.networks.files": {"newkinds.settings"}, "newkinds.settings": {"newkinds.networks"}}) == [
        "newkinds.networks.files imports newkinds.settings"
    ]


def test_the_rooms_are_those_of_the_page_and_of_the_package() -> None:
    (table,) = re.findall(r"\n\| room \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE)
    assert re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE) == list(ROOMS)
    there = {
        f"{entry.name}/" if entry.is_dir() else entry.name
        for entry in PACKAGE.iterdir()
        if entry.suffix == ".py" or (entry / "__init__.py").is_file()
    }
    assert there == set(ROOMS)


def test_the_short_list_for_contributors_has_the_same_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\n\| \| in `src/newkinds/` \|\n\|[-|]+\n((?:\|.*\n)+)", text)
    listed = re.findall(r"`([^`]+)`", table)
    assert listed == sorted(listed, key=ROOMS.index)


# Nothing names a method but itself and the registry

NAMED = {
    ("newkinds.clustering", "kmeans"): "the function, in __all__",
    ("newkinds.pipeline.scoring", "kmeans"): "the key of the baseline in scores.json",
    ("newkinds.runs.results", "kmeans"): "the same",
    ("newkinds.runs.forms", "kmeans"): "the same",
}
IMPORTED = {
    ("newkinds.presets", "newkinds.methods.dtc"): "the variants, which have settings of their own",
}


def strings(text: str) -> list[str]:
    """Return the strings in the text of a module, without docstrings and empty ones."""
    tree = ast.parse(text)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in told]
    return [node.value for node in constants if isinstance(node.value, str) and node.value]


def names_of_methods(text: str) -> list[str]:
    """Return the strings in the text of a module that are the name of a method, or a list of names."""
    return [string for string in strings(text) if set(re.split(r"[,\s]+", string)) <= METHODS.keys()]


def test_nothing_else_names_a_method() -> None:
    outside = {name: text for name, text in sources().items() if not name.startswith("newkinds.methods.")}
    named = {(module, name) for module, text in outside.items() for name in names_of_methods(text)}
    assert named == NAMED.keys()
    shared = {f"newkinds.methods.{name}" for name in ("base", "registry", "mixed")}
    imported = {
        (module, other)
        for module, others in imports(sources()).items()
        for other in others
        if other.startswith("newkinds.methods.") and other not in shared and module in outside
    }
    assert imported == IMPORTED.keys()


def test_a_method_names_no_other() -> None:
    homes = {method.name: str(method.run.__module__) for method in METHODS.values()}
    for module, text in sources().items():
        if module.startswith("newkinds.methods.") and module != "newkinds.methods.registry":
            for name in names_of_methods(text):
                home = homes[name].removeprefix("newkinds.methods.").partition(".")[0]
                own = module.startswith(f"newkinds.methods.{home}")
                assert own or (module, name) == ("newkinds.methods.lsc", "kmeans"), f"{module} names {name}"


@pytest.mark.parametrize(
    "line",
    [
        'if settings.method == "dtc": pass',
        'Method = Literal["dtc", "kmeans", "kcl"]',
        'RUN = {"dec": run_dec}',
        'methods: str = "kmeans,lsc,mcl,dtc"',
    ],
)
def test_the_check_of_names_notices(line: str) -> None:
    assert names_of_methods(line)
    assert not names_of_methods('"""kmeans"""\nx = "k-means", "the default: dtc", ""')


def test_one_place_knows_the_file_names_of_a_run() -> None:
    files = {value for name, value in vars(names).items() if name.isupper() and "." in value}
    named = {module for module, text in sources().items() for string in strings(text) if string in files}
    assert named == {"newkinds.runs.names"}


# References

SKETCHED = re.findall(r"^`(\S+?)`(?:, at the end)?:\n\n```(\w+)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL))
REFERENCES = sorted({one for one in CODE if re.fullmatch(r"newkinds\w*(\.\w+)*:[\w.]+", one)})
COMMANDS = sorted({one for one in CODE if re.fullmatch(r"newkinds [a-z]+( [a-z-]+)?", one)})
PATHS = sorted({one for one in CODE if re.fullmatch(r"[\w./-]+(/|\.(py|md|toml|json|csv|j2))", one)})


@pytest.mark.parametrize("target", REFERENCES)
def test_references_lead_somewhere(target: str) -> None:
    assert resolves(target)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_exist(line: str) -> None:
    command = " ".join(line.split()[:2])
    assert resolves(command)
    assert resolves(line) or command == "newkinds settings"  # which takes a setting's name


@pytest.mark.parametrize("path", PATHS)
def test_paths_exist(path: str) -> None:
    if path in {name for name, _, _ in SKETCHED} or path in vars(names).values():
        return
    found = [base / path for base in (ROOT, PACKAGE) if (base / path).exists()]
    assert found, path
    assert found[0].is_dir() == path.endswith("/")


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, heading = link.partition("#")
        text = (ROOT / "docs" / file).read_text(encoding="utf-8") if file else PAGE
        titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        assert not heading or heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_and_the_contributors_page_lead_here() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        assert "](docs/architecture.md)" in (ROOT / page).read_text(encoding="utf-8")


def test_what_is_checked_was_found_on_the_page() -> None:
    assert len(REFERENCES) > 40
    assert len(PATHS) > 50
    assert len(SKETCHED) == PAGE.count("\n```") / 2


# Sketches


def applied(before: str, diff: str) -> str:
    """Return a text with the hunks of a diff applied: each must fit in one place. Without context, it is appended."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = "".join(line[1:] for line in lines if line[0] != "-")
        assert not old or before.count(old) == 1, f"not there once:\n{old}"
        before = before.replace(old, new) if old else before + new
    return before


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout's package with every sketch of the page in it."""
    root = tmp_path_factory.mktemp("extended")
    shutil.copytree(PACKAGE, root / "src" / "newkinds", ignore=shutil.ignore_patterns("__pycache__"))
    for path, language, text in SKETCHED:
        file = root / path
        assert file.exists() == (language == "diff"), path
        file.write_text(applied(file.read_text(), text) if language == "diff" else text)
    return root


USED = """
import newkinds as nk

found = nk.discover(
    "stripes", "stripes", out="run", kinds=4, heap="new", method="spherical", network="patches", truth="folders",
    settings={"pretrain": {"epochs": 1}, "spherical": {"restarts": 3}, "initialise": {"jitter": 0.5}},
)
print(found, *nk.methods(), *nk.networks(), *nk.datasets(), nk.settings("jitter"))
"""


def test_the_sketches_work(extended: Path) -> None:
    where = {**os.environ, "PYTHONPATH": str(extended / "src")}
    done = subprocess.run([sys.executable, "-c", USED], cwd=extended, env=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for said in ("80 pictures in 4 new kinds", "spherical", "patches", "stripes", "How much noise the centres"):
        assert said in done.stdout
    assert "jitter = 0.5" in (extended / "run" / "settings.toml").read_text()
    assert "The largest kind holds" in (extended / "run" / "report" / "index.html").read_text(encoding="utf-8")


def test_the_sketches_are_clean(extended: Path) -> None:
    files = [path for path, language, _ in SKETCHED if path.endswith(".py")]
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [ruff, *command, "--config", ROOT / "pyproject.toml", *files], cwd=extended, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
