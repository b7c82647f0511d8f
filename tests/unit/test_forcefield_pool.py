"""The pool of OpenMM processes: order, failures, deaths, and nothing left behind."""

import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import openmm
import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies import ForceField, OpenMMEnergy, extract
from forcefields import AMBER96_OBC1, case, reference


@pytest.fixture
def pool() -> Iterator[OpenMMEnergy]:
    with OpenMMEnergy(system(), processes=2, platform="Reference") as energy:
        yield energy


def system() -> openmm.System:
    return case("ACE-ALA-NME", AMBER96_OBC1).system


def positions(count: int = 4) -> Tensor:
    one = case("ACE-ALA-NME", AMBER96_OBC1)
    noise = torch.randn(count, *one.thermal.shape[1:], generator=torch.Generator().manual_seed(2))
    return one.thermal[torch.arange(count) % 4] + 0.002 * noise


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody waited for yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def all_gone_soon(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        if all(gone(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_order_is_kept(pool: OpenMMEnergy) -> None:
    given = positions(100)
    expected = reference(system(), given)
    torch.testing.assert_close(pool(given), expected.energy, rtol=1e-12, atol=1e-12)
    energies, forces = pool.energy_and_forces(given)
    torch.testing.assert_close(energies, expected.energy, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(forces, expected.forces, rtol=1e-12, atol=1e-9)
    assert pool.failures == 0
    assert len(pool.process_ids) == 2


def test_same_call_as_the_tensors(pool: OpenMMEnergy) -> None:
    field = ForceField(extract(system()), compiled=False)
    given = positions(5).float().requires_grad_()
    energies = pool(given)
    assert energies.dtype == torch.float32
    weights = torch.arange(5.0)
    (by_openmm,) = torch.autograd.grad(energies @ weights, given)
    (by_tensors,) = torch.autograd.grad(field(given) @ weights, given)
    assert (by_openmm - by_tensors).norm() < 1e-4 * by_tensors.norm()


def test_empty_batch_starts_nothing(pool: OpenMMEnergy) -> None:
    assert pool(torch.empty(0, 22, 3)).shape == (0,)
    assert pool.energy_and_forces(torch.empty(0, 22, 3)).forces.shape == (0, 22, 3)
    assert pool.process_ids == []


def test_nan_positions_are_nan_and_counted(pool: OpenMMEnergy, caplog: pytest.LogCaptureFixture) -> None:
    given = positions(6)
    expected = reference(system(), given).energy
    given[2, 3, 1] = torch.nan
    given[4, 0, 0] = torch.inf
    with caplog.at_level(logging.WARNING):
        energies, forces = pool.energy_and_forces(given)
    assert energies.isnan().tolist() == [False, False, True, False, True, False]
    assert forces.isnan().all(dim=(1, 2)).tolist() == [False, False, True, False, True, False]
    torch.testing.assert_close(energies[[0, 1, 3, 5]], expected[[0, 1, 3, 5]])
    assert pool.failures == 2
    assert "2 of 6 configurations" in caplog.text


def test_coincident_atoms_are_nan_and_counted(pool: OpenMMEnergy) -> None:
    given = positions(3)
    given[1, 10] = given[1, 0]
    energies = pool(given)
    assert energies.isnan().tolist() == [False, True, False]
    assert pool.failures == 1


def test_a_killed_worker_is_replaced_in_the_middle_of_a_batch(pool: OpenMMEnergy) -> None:
    given = positions(600)
    pool(given[:8])
    victim = pool.process_ids[0]
    # The worker is stopped first, so that it cannot be done with the batch before it dies.
    os.kill(victim, signal.SIGSTOP)
    killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    killer.start()
    energies = pool(given)
    killer.join()
    torch.testing.assert_close(energies, reference(system(), given).energy, rtol=1e-12, atol=1e-12)
    assert pool.restarts == 1
    assert pool.failures == 0
    assert victim not in pool.process_ids
    torch.testing.assert_close(pool(given[:5]), energies[:5])


def test_a_killed_idle_worker_is_replaced(pool: OpenMMEnergy) -> None:
    given = positions(8)
    expected = pool(given)
    # Several times: a retry on another idle worker, dead as well, fails only now and then.
    for _ in range(4):
        for pid in pool.process_ids:
            os.kill(pid, signal.SIGKILL)
        torch.testing.assert_close(pool(given), expected)
    assert pool.restarts >= 4


FORCES = """
import os, numpy

def energy(state):
    x = state.getPositions(asNumpy=True)._value[0, 0]
    if x > 5.0:
        os._exit(9)
    if x < 0.0:
        raise ValueError("left of the origin")
    return float(x), numpy.array([[-1.0, 0.0, 0.0]])
"""


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> openmm.System:
    """A force that ends its process beyond 5 nm and raises below zero."""
    (tmp_path / "deadly_force.py").write_text(FORCES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    system = openmm.System()
    system.addParticle(1.0)
    system.addForce(openmm.PythonForce(importlib.import_module("deadly_force").energy))
    return system


@pytest.mark.slow
def test_a_configuration_that_kills_its_worker_twice_is_nan_alone(deadly: openmm.System) -> None:
    given = torch.zeros(12, 1, 3, dtype=torch.float64)
    given[:, 0, 0] = torch.arange(12) * 0.1
    given[7, 0, 0], given[3, 0, 0] = 6.0, -1.0
    with OpenMMEnergy(deadly, processes=1, platform="Reference") as pool:
        energies = pool(given)
        assert pool.failures == 2
        assert pool.restarts == 2
    expected = given[:, 0, 0].clone()
    expected[[3, 7]] = torch.nan
    torch.testing.assert_close(energies, expected, equal_nan=True)


def test_a_system_that_openmm_refuses_is_refused_in_words() -> None:
    refused = openmm.System()
    refused.addParticle(1.0)
    refused.addForce(openmm.CustomExternalForce("no_such_function(x)"))
    refused.getForce(0).addParticle(0)
    for platform in ("Reference", None):
        with pytest.raises(InputError, match=r"no_such_function|none of OpenMM's platforms"):
            OpenMMEnergy(refused, processes=1, platform=platform)(torch.zeros(1, 1, 3))


def test_close_leaves_nothing_running() -> None:
    pool = OpenMMEnergy(system(), processes=2, platform="CPU")
    pool(positions(8))
    pids = pool.process_ids
    assert pids
    pool.close()
    pool.close()
    assert all_gone_soon(pids)
    with pytest.raises(InputError, match="closed"):
        pool(positions(1))


def test_platform_is_chosen_by_a_probe() -> None:
    with OpenMMEnergy(system(), processes=1) as pool:
        assert pool.platform is None
        energies = pool(positions(2))
        assert pool.platform in ("Reference", "CPU")
    torch.testing.assert_close(energies, reference(system(), positions(2)).energy, rtol=1e-4, atol=1e-2)


def test_wrong_input_is_refused_in_words(pool: OpenMMEnergy) -> None:
    with pytest.raises(InputError, match=r"got \(22, 3\)"):
        pool(torch.zeros(22, 3))
    with pytest.raises(InputError, match="for 22 atoms, got positions of 3"):
        pool(torch.zeros(1, 3, 3))
    with pytest.raises(InputError, match="angstrom"):
        pool(positions(2) * 10)
    with pytest.raises(InputError, match="one of Reference, CPU, got 'Abacus'"):
        OpenMMEnergy(system(), platform="Abacus")
    with pytest.raises(InputError, match="at least 1, got 0"):
        OpenMMEnergy(system(), processes=0)


PARENT = """
import sys, openmm, torch
from boltzport.energies import OpenMMEnergy
system = openmm.XmlSerializer.deserialize(open(sys.argv[1]).read())
positions = torch.load(sys.argv[2])
pool = OpenMMEnergy(system, processes=2, platform="Reference")
pool(positions[:4])
print(*pool.process_ids, flush=True)
while sys.argv[3] != "exit":
    pool(positions)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["exit", "interrupt", "terminate", "kill"])
def test_nothing_is_left_when_the_parent_ends(end: str, tmp_path: Path) -> None:
    """However it ends: by itself, by Ctrl-C to the whole group, by a signal, by kill -9."""
    (tmp_path / "system.xml").write_text(openmm.XmlSerializer.serialize(system()))
    torch.save(positions(2000), tmp_path / "positions.pt")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "system.xml"), str(tmp_path / "positions.pt"), end],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        if end == "interrupt":
            os.killpg(parent.pid, signal.SIGINT)
        elif end == "terminate":
            parent.terminate()
        elif end == "kill":
            parent.kill()
        assert parent.wait(60) == (0 if end == "exit" else parent.returncode)
        assert all_gone_soon(pids)
