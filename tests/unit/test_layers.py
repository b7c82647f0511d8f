"""The layers of ARCHITECTURE: imports point down, and heavy libraries stay where they belong."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "boltzport"

MODEL = {"core", "targets", "flows"}
MOLECULE = {"core", "molecules", "energies", "targets", "targets.boltzmann"}
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "molecules": {"core"},
    "energies": {"core"},
    "targets": {"core"},
    "targets.boltzmann": {"core", "molecules", "energies", "targets"},
    "flows": {"core", "targets"},
    "mcmc": set(),
    "training": MODEL | {"mcmc"},
    "analysis": set(),
    "analysis.metrics": {"core"},
    "analysis.evaluation": MODEL | {"targets.boltzmann", "mcmc", "analysis.metrics"},
    "ensembles": MODEL | {"molecules", "targets.boltzmann", "analysis.metrics", "mcmc"},
    "ensembles.reference": MOLECULE | {"mcmc", "analysis.metrics"},
    "reporting": {"core", "targets", "analysis.metrics"},
    "experiments": MODEL
    | MOLECULE
    | {"mcmc", "training", "analysis.metrics", "analysis.evaluation", "ensembles", "ensembles.reference", "reporting"},
    "experiments.compare": {"core", "targets", "training", "analysis.metrics", "reporting"},
    "bench": MOLECULE
    | {"flows", "analysis.metrics", "analysis.evaluation", "ensembles", "ensembles.reference", "reporting"}
    | {"experiments", "experiments.compare"},
    "cli": {"core", "molecules", "targets", "ensembles"}
    | {
        "analysis.metrics",
        "ensembles.reference",
        "reporting",
        "experiments",
        "experiments.compare",
        "bench",
    },
    "__main__": {"cli"},
    "__init__": {"targets", "flows"}
    | {"molecules", "energies", "training", "analysis.metrics", "ensembles", "ensembles.reference", "experiments"},
}
"""Packages that a package may import, from the bottom to the top."""
PUBLIC = {*MAY_IMPORT, "training.methods", "training.presets"}
"""Packages whose `__init__` lists names for other packages."""
BY_MODULE = {"core", "bench"}
"""Packages that are imported module by module."""
ONLY_IN: dict[str, set[str]] = {
    "openmm": {
        "molecules/topology",
        "molecules/sequence",
        "molecules/pdb",
        "molecules/parametrise",
        "molecules/build",
        "molecules/hydrogens",
        "molecules/molecule",
        "molecules/sanity",
        "molecules/smiles",
        "molecules/mmff",
        "energies/workers",
        "energies/mmff/extract",
        "energies/tensors/extract",
        "ensembles/reference",
        "bench/doctor",
    },
    "rdkit": {f"molecules/{name}" for name in ("chemistry", "mmff", "rings", "smiles", "stereo")},
    "deeptime": {"analysis/metrics/tica"},
    "ot": {"analysis/metrics/wasserstein"},
    "pymbar": {"analysis/metrics/mbar"},
    "pandas": {"analysis/metrics/results"},
    "ase": {"energies/calculators"},
    "cloudpickle": {"energies/ase"},
    "tblite": {"energies/calculators"},
    "torch.distributed": {"core/meeting"},
    "matplotlib": {"reporting"},
    "jinja2": {"reporting"},
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
    return names - {"boltzport", "boltzport.__version__"}


def package_of(module: str) -> str | None:
    """The package of the table that a dotted module is in; None if it is in none."""
    parts = module.split(".")
    heads = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((head for head in heads if head in MAY_IMPORT), None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    module = path.relative_to(SOURCE).with_suffix("").as_posix()
    package = package_of(module.replace("/", "."))
    assert package is not None, f"{module} belongs to no layer: give it one here and in ARCHITECTURE"
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "boltzport" and (other := package_of(".".join(parts[1:]))) != package:
            assert other in MAY_IMPORT[package], f"{module} may not import {name}"
            # A benchmark times the parts of other packages.
            assert package == "bench" or other in BY_MODULE or name.removeprefix("boltzport.") in PUBLIC, (
                f"{module} imports {name}: other packages import only what __init__ lists"
            )
        for library, places in ONLY_IN.items():
            if name == library or name.startswith(f"{library}."):
                assert any(module == place or module.startswith(f"{place}/") for place in places), (
                    f"{module} may not import {library}"
                )


def test_no_layer_may_import_one_above_it() -> None:
    order = list(MAY_IMPORT)
    for package, allowed in MAY_IMPORT.items():
        assert [
            other for other in allowed if other not in order[: order.index(package)] and package != "__init__"
        ] == []


def test_every_module_that_is_named_exists() -> None:
    named = {*MAY_IMPORT, *PUBLIC, *BY_MODULE, *(name for allowed in MAY_IMPORT.values() for name in allowed)}
    named |= {place for places in ONLY_IN.values() for place in places}
    paths = [name.replace(".", "/") for name in sorted(named)]
    assert [name for name in paths if not ((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file())] == []


def test_every_package_is_used_as_the_table_says() -> None:
    """The table allows nothing that is not needed, so that it says what the tree is."""
    used: dict[str, set[str]] = {package: set() for package in MAY_IMPORT}
    for path in FILES:
        package = package_of(path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", "."))
        assert package is not None
        names = {name.removeprefix("boltzport.") for name in imported(path) if name.startswith("boltzport.")}
        used[package] |= {other for name in names if (other := package_of(name)) is not None}
    assert {
        package: MAY_IMPORT[package] - found for package, found in used.items() if MAY_IMPORT[package] - found
    } == {}


def test_every_file_is_read() -> None:
    assert any(path.name == "coordinates.py" for path in FILES)
    assert len(FILES) > 10
