"""Benchmark of the tensors against the pool of OpenMM processes, side by side in one run."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from boltzport.core.errors import InputError
from boltzport.energies.pool import OpenMMEnergy
from boltzport.energies.tensors.energy import ForceField
from boltzport.energies.tensors.extract import extract
from boltzport.energies.tensors.kernel import Kernel
from boltzport.energies.workers import PLATFORMS

_ROUNDS = 8
# Arithmetic operations; a root, a quotient and an exponential count as one each.
_OPERATIONS = {
    "add", "sub", "rsub", "mul", "div", "neg", "reciprocal", "rsqrt", "sqrt", "exp", "log", "tanh", "atan2",
    "abs", "maximum", "minimum", "clamp_min", "sum",
}  # fmt: skip


@dataclass(frozen=True)
class BenchmarkSubject:
    """A benchmark system: an ``openmm.System`` and a structure in nm."""

    system: Any
    positions: Float[np.ndarray, "atoms 3"]


def benchmark_systems(
    names: Sequence[str] = (), *, seconds: float = 1.0, report: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Run the benchmark on molecules by name; see `run_benchmark`.

    Args:
        names: Systems, sequences or PDB files; all named systems by default.
        seconds: Approximate duration of a round.
        report: Callback that receives progress messages, one line each.

    Raises:
        InputError: There is no such system, or the duration is out of range.
    """
    from boltzport.molecules import SYSTEMS, Molecule

    if not 0.0 < seconds < 600.0:
        raise InputError(f"seconds: expected more than 0 and less than 600, got {seconds:g}")
    molecules = {name: Molecule(name) for name in names or [entry.name for entry in SYSTEMS]}
    subjects = {name: BenchmarkSubject(entry.system, entry.positions) for name, entry in molecules.items()}
    return run_benchmark(subjects, seconds=seconds, report=report)


def run_benchmark(
    subjects: Mapping[str, BenchmarkSubject],
    *,
    seconds: float = 1.0,
    processes: int | None = None,
    memory_batch: int = 1_000_000,
    report: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure energies, and energies with forces, by tensors in float32 and by the pool.

    Both sides use all cores. Their rounds alternate and the best of each counts, so that a short load on the
    machine affects neither; on a machine that is busy throughout, repeat the benchmark.

    Args:
        subjects: systems by name.
        seconds: approximate duration of a round.
        processes: number of OpenMM workers; by default one per core.
        memory_batch: batch size of the memory measurement, on the first subject; 0 to skip it.
        report: callback that receives progress messages, one line each.

    Returns:
        A record for JSON: ``systems`` by name, ``peak_flops`` of the machine, ``cost_exponent_energies`` and
        ``cost_exponent_forces`` (cost grows with this power of the number of atoms), ``memory``.
    """
    memory = None
    if memory_batch and subjects:
        # Measured first: memory freed by an earlier measurement would hide what this one needs.
        if report is not None:
            report(f"memory of a batch of {memory_batch:,}")
        memory = _memory(next(iter(subjects.values())), memory_batch)
    peak = _peak_flops()
    systems = {}
    for name, subject in subjects.items():
        if report is not None:
            report(f"{name}: compiling and measuring")
        systems[name] = _measure(subject, seconds=seconds, processes=processes, peak=peak)
    result: dict[str, Any] = {"systems": systems, "peak_flops": peak, "threads": torch.get_num_threads()}
    if len(systems) > 1:
        atoms = [math.log(entry["atoms"]) for entry in systems.values()]
        for key in ("energies_per_second", "forces_per_second"):
            cost = [-math.log(entry[key]) for entry in systems.values()]
            result[f"cost_exponent_{key.split('_')[0]}"] = float(np.polyfit(atoms, cost, 1)[0])
    if memory is not None:
        result["memory"] = memory
    return result


def benchmark_table(result: Mapping[str, Any]) -> str:
    """Format the record of ``run_benchmark`` as a table."""
    lines = [
        f"{'system':24}{'atoms':>6}{'energies/s':>13}{'OpenMM/s':>11}{'ratio':>8}"
        f"{'forces/s':>12}{'OpenMM/s':>11}{'ratio':>8}{'of peak':>9}{'compile':>9}"
    ]
    for name, entry in result["systems"].items():
        lines.append(
            f"{name:24}{entry['atoms']:6d}{entry['energies_per_second']:13,.0f}"
            f"{entry['openmm_energies_per_second']:11,.0f}{entry['ratio']:8.1f}"
            f"{entry['forces_per_second']:12,.0f}{entry['openmm_forces_per_second']:11,.0f}"
            f"{entry['ratio_with_forces']:8.1f}{entry['fraction_of_peak']:9.1%}{entry['compile_seconds']:8.0f}s"
        )
    lines.append(f"peak of a matrix product {result['peak_flops'] / 1e9:.0f} GFLOP/s")
    for key in ("energies", "forces"):
        if f"cost_exponent_{key}" in result:
            lines.append(f"cost of {key} grows as atoms^{result[f'cost_exponent_{key}']:.2f}")
    if "memory" in result:
        memory = result["memory"]
        lines.append(
            f"batch of {memory['batch']:,}: {memory['extra_bytes'] / 1e6:.0f} MB besides positions of "
            f"{memory['positions_bytes'] / 1e6:.0f} MB"
        )
    return "\n".join(lines)


def _measure(subject: BenchmarkSubject, *, seconds: float, processes: int | None, peak: float) -> dict[str, Any]:
    parameters = extract(subject.system)
    field = ForceField(parameters)
    batch = _configurations(subject, 4096)
    start = time.perf_counter()
    field(batch)
    field.energy_and_forces(batch)
    compile_seconds = time.perf_counter() - start
    best: dict[str, float] = {}
    platforms = {}
    pools = {name: OpenMMEnergy(subject.system, processes=processes, platform=name) for name in PLATFORMS}
    try:
        calls: dict[str, Callable[[Tensor], Any]] = {"energies": field, "forces": field.energy_and_forces}
        for name, pool in pools.items():
            calls |= {f"{name} energies": pool, f"{name} forces": pool.energy_and_forces}
        sizes = {name: _size(call, batch, seconds) for name, call in calls.items()}
        for _ in range(_ROUNDS):
            for name, call in calls.items():
                rate = _rate(call, sizes[name])
                best[name] = max(best.get(name, 0.0), rate)
    finally:
        for pool in pools.values():
            pool.close()
    for kind in ("energies", "forces"):
        platforms[kind] = max(PLATFORMS, key=lambda name, kind=kind: best[f"{name} {kind}"])  # type: ignore[misc]
    openmm = {kind: best[f"{platforms[kind]} {kind}"] for kind in platforms}
    return {
        "atoms": parameters.atoms,
        "energies_per_second": best["energies"],
        "openmm_energies_per_second": openmm["energies"],
        "ratio": best["energies"] / openmm["energies"],
        "forces_per_second": best["forces"],
        "openmm_forces_per_second": openmm["forces"],
        "ratio_with_forces": best["forces"] / openmm["forces"],
        "openmm_platform": platforms["energies"],
        "operations_with_forces": _operations(field),
        "fraction_of_peak": _operations(field) * best["forces"] / peak,
        "compile_seconds": compile_seconds,
    }


def _configurations(subject: BenchmarkSubject, count: int) -> Float[Tensor, "count atoms 3"]:
    """Copies of the structure, with every atom displaced by about its thermal motion."""
    generator = torch.Generator().manual_seed(0)
    positions = torch.tensor(subject.positions, dtype=torch.float32)
    return positions + 0.003 * torch.randn(count, *positions.shape, generator=generator)


def _size(call: Callable[[Tensor], Any], batch: Tensor, seconds: float) -> Tensor:
    """A batch that takes about this many seconds; at least 256 configurations, so that overhead does not dominate."""
    call(batch[:256])
    rate = _rate(call, batch[:256])
    count = int(min(max(256, rate * seconds), 2**16))
    return batch.repeat(-(-count // len(batch)), 1, 1)[:count]


def _rate(call: Callable[[Tensor], Any], batch: Tensor) -> float:
    start = time.perf_counter()
    call(batch)
    return len(batch) / (time.perf_counter() - start)


def _peak_flops(size: int = 2048) -> float:
    """Operations per second of a float32 matrix product."""
    matrix = torch.rand(size, size)
    best = math.inf
    for _ in range(8):
        start = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count the arithmetic operations of the enclosed code."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0].rstrip("_")
        if name in _OPERATIONS and isinstance(result, Tensor) and result.is_floating_point():
            self.count += args[0].numel() if name == "sum" else result.numel()
        return result


def _operations(field: ForceField) -> float:
    """Number of arithmetic operations of one energy with forces."""
    kernel = Kernel(field.constants, torch.device("cpu"), torch.float32)
    lanes = 4
    with _Counter() as counter:
        kernel.energy_and_gradient(torch.rand(1, 3, field.atoms, lanes))
    return float(counter.count) / lanes


def _memory(subject: BenchmarkSubject, batch: int) -> dict[str, int | None]:
    """Peak memory while a batch is evaluated, in addition to the positions."""
    field = ForceField(extract(subject.system))
    field(_configurations(subject, 64))
    positions = _configurations(subject, 1024).repeat(-(-batch // 1024), 1, 1)[:batch].contiguous()
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not (status.exists() and reset.exists()):
        field(positions)
        return {"batch": batch, "positions_bytes": positions.nbytes, "extra_bytes": None}
    reset.write_text("5")
    before = _status_bytes(status, "VmRSS")
    field(positions)
    extra = _status_bytes(status, "VmHWM") - before
    return {"batch": batch, "positions_bytes": positions.nbytes, "extra_bytes": extra}


def _status_bytes(status: Path, key: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024
