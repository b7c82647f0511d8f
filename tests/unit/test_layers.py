"""The layers of ARCHITECTURE: imports point down, and heavy libraries stay where they belong."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "boltzport"

BASE = {
    "units",
    "errors",
    "compiling",
    "layout",
    "preset",
    "progress",
    "records",
    "rundir",
    "skeleton",
    "stopwatch",
    "weights",
}
PARTS = {"molecule", "forcefield", "flow", "mcmc", "metrics", "targets"}
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(BASE | PARTS, BASE),
    "draws": BASE | {"flow", "targets"},
    "boltzmann": BASE | {"molecule", "forcefield", "targets"},
    "reference": BASE | {"molecule", "forcefield", "mcmc", "targets", "boltzmann"},
    "methods": BASE | {"flow", "mcmc", "targets", "draws"},
    "evaluate": BASE | PARTS | {"boltzmann", "reference", "draws"},
    "ensemble": BASE | {"molecule", "mcmc", "metrics", "targets", "boltzmann", "flow", "draws"},
    "report": BASE | {"metrics", "targets"},
    "comparison": BASE | {"metrics", "targets", "methods", "report"},
    "run": BASE | PARTS | {"boltzmann", "reference", "methods", "evaluate", "ensemble", "report", "draws"},
    "doctor": BASE | {"molecule"},
    "inspection": BASE | {"molecule", "boltzmann", "flow", "run"},
    "__main__": {"cli"},
    "cli": BASE
    | PARTS - {"mcmc"}
    | {"run", "inspection", "doctor", "report", "comparison", "reference"}
    | {"boltzmann"},
    "__init__": {"run", "methods", "flow", "forcefield", "targets", "ensemble", "metrics", "molecule", "reference"},
}
ONLY_IN: dict[str, set[str]] = {
    "openmm": {
        "molecule/topology",
        "molecule/sequence",
        "molecule/pdb",
        "molecule/parametrise",
        "molecule/build",
        "molecule/molecule",
        "forcefield/extract",
        "forcefield/workers",
        "reference",
        "doctor",
    },
    "deeptime": {"metrics/tica"},
    "ot": {"metrics/wasserstein"},
    "pandas": {"metrics/results"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Modules that a file imports, and submodules that it imports by name from a package outside."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            names.add(node.module)
            if not node.module.startswith("boltzport."):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    module = path.relative_to(SOURCE).with_suffix("").as_posix()
    package = module.split("/")[0]
    assert package in MAY_IMPORT, f"{module} belongs to no layer: give it one here and in ARCHITECTURE"
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "boltzport" and len(parts) > 1 and parts[1] not in (package, "__version__"):
            assert parts[1] in MAY_IMPORT[package], f"{module} may not import {name}"
            # Benchmarks are entered by the command line alone, and import peers that nobody else needs.
            assert len(parts) == 2 or parts[2] == "benchmark", (
                f"{module} imports {name}: other packages import only what __init__ lists"
            )
        for library, places in ONLY_IN.items():
            if name == library or name.startswith(f"{library}."):
                assert package in places or module in places, f"{module} may not import {library}"


def test_every_module_that_is_named_exists() -> None:
    named = {*MAY_IMPORT, *(name for allowed in MAY_IMPORT.values() for name in allowed)}
    named |= {place for places in ONLY_IN.values() for place in places}
    assert [name for name in sorted(named) if not ((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file())] == []


def test_every_file_is_read() -> None:
    assert any(path.name == "coordinates.py" for path in FILES)
    assert len(FILES) > 10
