"""Checks of this machine and the installation, with advice on what is missing."""

import os
import platform
import re
import shutil
import sysconfig
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple


class Status(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Check(NamedTuple):
    """One line of the report: what was checked, the outcome, what was found, and what to do."""

    name: str
    status: Status
    found: str
    advice: str = ""


def examine() -> tuple[Check, ...]:
    """Check everything that boltzport can use; never raises."""
    checks = []
    for name, check in _CHECKS.items():
        try:
            checks.append(check())
        except Exception as error:  # a broken installation fails in ways that cannot be listed
            found = f"{type(error).__name__}: {error}"
            checks.append(Check(name, Status.FAILED, found, "reinstall boltzport in a new environment"))
    return tuple(checks)


def _python() -> Check:
    return Check("python", Status.OK, f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > cores:
        advice = "more threads than cores run many times slower: unset OMP_NUM_THREADS"
        return Check("cores", Status.WARNING, f"{cores}, OMP_NUM_THREADS={threads}", advice)
    return Check("cores", Status.OK, str(cores))


def _memory() -> Check:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if gib < 4:
        return Check("memory", Status.WARNING, f"{gib:.1f} GiB", "expected 4 GiB; use smaller buffers")
    return Check("memory", Status.OK, f"{gib:.1f} GiB")


def _disk() -> Check:
    gib = shutil.disk_usage(Path.cwd()).free / 2**30
    if gib < 1:
        return Check("disk", Status.WARNING, f"{gib:.1f} GiB free here", "expected 1 GiB for runs: free some space")
    return Check("disk", Status.OK, f"{gib:.0f} GiB free here")


def _torch() -> Check:
    import torch

    device = str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "no accelerator"
    probe = torch.linalg.solve(torch.eye(3, dtype=torch.float64) * 2, torch.ones(3, dtype=torch.float64))
    if not torch.allclose(probe, torch.full((3,), 0.5, dtype=torch.float64)):
        return Check("torch", Status.FAILED, f"{torch.__version__} computes wrongly", "reinstall torch")
    return Check("torch", Status.OK, f"{torch.__version__}, {torch.get_num_threads()} threads, {device}")


def _compiler() -> Check:
    name = next((name for name in (os.environ.get("CXX"), "g++", "clang++") if name and shutil.which(name)), None)
    slower = "everything works, several times slower; install"
    if name is None:
        return Check("compiler", Status.WARNING, "no C++ compiler", f"{slower} g++")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        found = f"{name}, but no Python headers"
        return Check("compiler", Status.WARNING, found, f"{slower} Python's development package")
    return Check("compiler", Status.OK, name)


def _openmm() -> Check:
    import openmm

    platforms = [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]
    found = f"{openmm.Platform.getOpenMMVersion()}, platforms {', '.join(platforms)}"
    if "CPU" not in platforms:
        # Plugins for GPUs fail to load on a machine without one; the CPU plugin should always load.
        return Check("openmm", Status.WARNING, found, "dynamics will be slow; reinstall openmm to get its CPU platform")
    return Check("openmm", Status.OK, found)


def _molecule() -> Check:
    from boltzport.molecules import Molecule

    energy = Molecule("alanine-dipeptide").reference_energy()
    return Check("molecule", Status.OK, f"built and minimised alanine-dipeptide, {energy:.1f} kJ/mol")


def dependencies() -> list[str]:
    """Names of the packages that boltzport requires, from its metadata; those of extras are not included."""
    needed = requires("boltzport") or []
    return [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needed if "extra ==" not in need]


def _packages() -> Check:
    found, missing = [], []
    for package in dependencies():
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return Check("packages", Status.FAILED, f"missing {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return Check("packages", Status.OK, ", ".join(found))


_CHECKS: dict[str, Callable[[], Check]] = {
    "python": _python,
    "cores": _cores,
    "memory": _memory,
    "disk": _disk,
    "packages": _packages,
    "torch": _torch,
    "compiler": _compiler,
    "openmm": _openmm,
    "molecule": _molecule,
}
