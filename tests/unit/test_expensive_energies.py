"""Expensive energies: parity with the libraries, order, failures, deaths, and the file of what was evaluated."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.serving import Evaluated
from boltzport.energies import ASE, XTB, ExpensiveEnergy, ProcessEnergy, check_energy_name, named_energy
from boltzport.energies import extras as extras_of
from boltzport.energies.calculators import KJ_PER_EV
from boltzport.energies.record import Record, digests

ase = pytest.importorskip("ase")
tblite = pytest.importorskip("tblite.interface")
from ase.calculators.lj import LennardJones  # noqa: E402

import calculators  # noqa: E402

ETHANOL = [6, 6, 8, 1, 1, 1, 1, 1, 1]
BOHR, HARTREE = 0.0529177210903, 2625.4996394799


def ethanol(count: int) -> Tensor:
    from ase.build import molecule

    built = molecule("CH3CH2OH")
    assert sorted(built.numbers) == sorted(ETHANOL)
    order = np.argsort([ETHANOL.index(number) for number in built.numbers], kind="stable")
    noise = torch.randn(count, 9, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.from_numpy(built.positions[order] * 0.1) + 0.004 * noise


def springs(*first: float) -> Tensor:
    """Two atoms each, the first at these places on the first axis, in nm."""
    positions = torch.zeros(len(first), 2, 3, dtype=torch.float64)
    positions[:, 0, 0] = torch.tensor(first, dtype=torch.float64)
    return positions


def spring_energy(positions: Tensor) -> Tensor:
    return 0.5 * (10.0 * positions[:, 0]).square().sum(1) * KJ_PER_EV


@pytest.fixture(scope="module")
def spring() -> Iterator[ProcessEnergy]:
    with ASE(calculators.Spring(), processes=2).of([18, 18]) as energy:
        yield energy


def test_xtb_is_what_tblite_says_in_order() -> None:
    given = ethanol(7)
    own = tblite.Calculator("GFN2-xTB", np.array(ETHANOL), given[0].numpy() / BOHR)
    own.set("verbosity", 0)
    energies, gradients = [], []
    for configuration in given.numpy():
        own.update(configuration / BOHR)
        found = own.singlepoint()
        energies.append(found.get("energy") * HARTREE)
        gradients.append(found.get("gradient") * HARTREE / BOHR)
    with XTB(ETHANOL, processes=2) as energy:
        pair = energy.energy_and_forces(given)
        alone = energy(given.flip(0))
    torch.testing.assert_close(pair.energies, torch.tensor(energies), rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(alone.flip(0), pair.energies, rtol=0.0, atol=0.0)
    torch.testing.assert_close(pair.forces, -torch.from_numpy(np.array(gradients)), rtol=1e-9, atol=1e-6)


def test_xtb_by_ase_is_xtb() -> None:
    given = ethanol(2)

    def make():
        from tblite.ase import TBLite

        return TBLite(method="GFN2-xTB", verbosity=0)

    # As in a script or a notebook: the function cannot be imported by the worker, and is sent by value.
    make.__module__ = "__main__"
    with ASE(make, processes=1).of(ETHANOL) as by_ase, XTB(ETHANOL, processes=1) as energy:
        torch.testing.assert_close(by_ase(given), energy(given), rtol=1e-8, atol=1e-3)


@pytest.mark.parametrize("kind", ["lennard-jones", "xtb"])
def test_forces_are_slopes(kind: str) -> None:
    made = {
        "lennard-jones": lambda: ASE(LennardJones(sigma=3.4, epsilon=0.01, rc=30.0), processes=1).of([18] * 9),
        "xtb": lambda: XTB(ETHANOL, processes=1, accuracy=0.01),
    }
    given = ethanol(1) * (3.0 if kind == "lennard-jones" else 1.0)
    direction = torch.randn(1, 9, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    places = torch.tensor([2.0, 1.0, -1.0, -2.0], dtype=torch.float64)[:, None, None]
    with made[kind]() as energy:
        there = given.clone().requires_grad_()
        (slope,) = torch.autograd.grad(energy(there).sum(), there)
        far, near, behind, far_behind = energy(given + 1e-4 * places * direction)
    by_differences = (8.0 * (near - behind) - (far - far_behind)) / 12e-4
    torch.testing.assert_close(by_differences, (slope * direction).sum(), rtol=2e-5, atol=1e-3)


def test_order_and_failures(spring: ProcessEnergy, caplog: pytest.LogCaptureFixture) -> None:
    given = springs(*(0.01 * k for k in range(100)))
    given[13, 0, 0], given[70, 1, 1] = -1.0, torch.nan
    before = spring.failures
    with caplog.at_level(logging.WARNING):
        energies, forces = spring.energy_and_forces(given)
    expected = spring_energy(given)
    expected[[13, 70]] = torch.nan
    torch.testing.assert_close(energies, expected, equal_nan=True)
    assert forces.isnan().all(dim=(1, 2)).nonzero().flatten().tolist() == [13, 70]
    assert spring.failures == before + 2
    assert "2 of 100 configurations have no energy" in caplog.text
    failing = spring(springs(-1.0, 0.1))
    assert failing.isnan().tolist() == [True, False]
    assert spring.complaint == "ValueError: left of the origin"


def test_workers_that_are_killed_are_replaced(spring: ProcessEnergy) -> None:
    given = springs(*(0.01 * k for k in range(20)))
    spring(given)
    restarts = spring.restarts
    for pid in spring.process_ids:
        os.kill(pid, signal.SIGKILL)
    torch.testing.assert_close(spring(given), spring_energy(given))
    assert spring.restarts > restarts


def test_a_configuration_that_kills_its_worker_is_nan_alone(spring: ProcessEnergy) -> None:
    given = springs(0.1, 0.2, 6.0, 0.3)
    lost = spring.lost
    energies = spring(given)
    expected = spring_energy(given)
    expected[2] = torch.nan
    torch.testing.assert_close(energies, expected, equal_nan=True)
    assert spring.lost == lost + 1


def test_a_calculator_without_forces_has_no_gradient() -> None:
    with ASE(calculators.Blind, processes=1).of([18, 18]) as energy:
        assert not energy.differentiable
        assert not energy(springs(0.1).requires_grad_()).requires_grad


def test_a_calculator_that_cannot_be_made_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="expected an ASE calculator or a function that makes one, got int"):
        ASE(3)
    with (
        pytest.raises(InputError, match="ASE cannot evaluate this system: RuntimeError: no licence"),
        ASE(calculators.broken, processes=1).of([18, 18]) as energy,
    ):
        energy(springs(0.1))
    with (
        pytest.raises(InputError, match="expected an ASE calculator, got int"),
        ASE(calculators.no_calculator, processes=1).of([18, 18]) as energy,
    ):
        energy(springs(0.1))
    unpicklable = calculators.Spring()
    unpicklable.lock = __import__("threading").Lock()
    with pytest.raises(InputError, match=r"cannot be sent to other processes .* pass a function that makes it"):
        ASE(unpicklable)


def test_the_name_says_what_differs_from_the_defaults() -> None:
    assert ASE(LennardJones(sigma=3.4)).name == "LennardJones(rc=10.2, ro=6.732, sigma=3.4)"
    assert ASE(calculators.broken).name == "broken"
    assert ASE(calculators.broken, name="mine").name == "mine"


def test_molecules_that_xtb_cannot_have_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected an even number of electrons, got 27 with a total charge of -1"):
        XTB(ETHANOL, charge=-1)
    with pytest.raises(InputError, match="no parameters for atomic number 0"):
        XTB([8, 1, 1, 0])
    with pytest.raises(InputError, match="did you mean gfn2-xtb"):
        check_energy_name("GFN2")
    with pytest.raises(InputError, match="unknown energy 'gfn2xtb'; did you mean gfn2-xtb"):
        named_energy("gfn2xtb", ETHANOL, charge=0)


def test_a_missing_library_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras_of, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"gfn2-xtb needs tblite, .* pip install 'boltzport\[xtb\]'"):
        check_energy_name("gfn2-xtb")
    with pytest.raises(InputError, match=r"pip install 'boltzport\[ase\]'"):
        ASE(LennardJones())


SCRIPT = """
import torch
from ase.calculators.lj import LennardJones
from boltzport.energies import ASE
def make():
    return LennardJones(sigma=3.4, epsilon=0.01, rc=30.0)
with ASE(make, processes=1).of([18, 18]) as energy:
    print(float(energy(torch.tensor([[[0.0, 0.0, 0.0], [0.38, 0.0, 0.0]]]).double())))
"""


@pytest.mark.slow
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Functions of a script reach the workers, which do not run the script again."""
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(tmp_path / "mine.py")], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert float(done.stdout) == pytest.approx(4 * 0.01 * ((3.4 / 3.8) ** 12 - (3.4 / 3.8) ** 6) * KJ_PER_EV, rel=1e-3)


# The file of evaluations.


def some(count: int, *, forces: bool) -> tuple[list[bytes], Evaluated]:
    generator = np.random.default_rng(count + 100 * forces)
    positions = generator.standard_normal((count, 2, 3))
    energies = generator.standard_normal(count)
    energies[0] = np.nan
    return digests(positions), Evaluated(energies, positions + 1.0 if forces else None, "")


def check_found(record: Record, keys: list[bytes], found: Evaluated) -> None:
    for k, key in enumerate(keys):
        known = record.find(key, forces=found.forces is not None)
        assert known is not None
        np.testing.assert_array_equal(known[0], found.energies[k])
        if found.forces is not None:
            np.testing.assert_array_equal(known[1], found.forces[k])


def test_what_was_written_is_found_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "energies.bin"
    first, second = some(5, forces=False), some(4, forces=True)
    with Record(path, identity="a", atoms=2) as record:
        record.append(*first)
        record.append(*second)
        check_found(record, *first)
        check_found(record, *second)
    with Record(path, identity="a", atoms=2) as record:
        assert len(record) == 9
        check_found(record, *first)
        check_found(record, *second)
        assert record.find(first[0][1], forces=True) is None
        assert record.find(second[0][1], forces=False) == (second[1].energies[1], None)
        assert record.find(b"0" * 16, forces=False) is None


def test_a_file_cut_anywhere_keeps_what_is_complete(tmp_path: Path) -> None:
    whole = tmp_path / "whole.bin"
    pieces = [some(1, forces=False), some(2, forces=True), some(3, forces=False)]
    ends = [0]
    with Record(whole, identity="a", atoms=2) as record:
        ends.append(whole.stat().st_size)
        for piece in pieces:
            record.append(*piece)
    data = whole.read_bytes()
    lengths = []
    for cut in range(len(data) + 1):
        path = tmp_path / "cut.bin"
        path.write_bytes(data[:cut])
        with Record(path, identity="a", atoms=2) as record:
            lengths.append(len(record))
            record.append(*pieces[2])
            check_found(record, *pieces[2])
        with Record(path, identity="a", atoms=2) as record:
            check_found(record, *pieces[2])
        path.unlink()
    assert lengths == sorted(lengths)
    assert set(lengths) == set(range(7))
    assert lengths[-1] == 6
    assert lengths[-2] == 5


def test_a_damaged_record_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "energies.bin"
    keys, found = some(3, forces=False)
    with Record(path, identity="a", atoms=2) as record:
        record.append(keys, found)
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    with Record(path, identity="a", atoms=2) as record:
        assert len(record) == 2
        assert record.find(keys[2], forces=False) is None


def test_a_file_of_another_energy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "energies.bin"
    Record(path, identity="a", atoms=2).close()
    for identity, atoms in (("b", 2), ("a", 3)):
        with pytest.raises(InputError, match="another energy or molecule"):
            Record(path, identity=identity, atoms=atoms)


def test_only_one_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "energies.bin"
    keys, found = some(3, forces=False)
    with Record(path, identity="a", atoms=2) as first:
        first.append(keys, found)
        size = path.stat().st_size
        with Record(path, identity="a", atoms=2) as second:
            assert not second.writable
            check_found(second, keys, found)
            second.append(*some(2, forces=True))
        assert path.stat().st_size == size
        first.append(*some(2, forces=True))
        assert path.stat().st_size > size


def counting(folder: Path, *, record: bool = True) -> ExpensiveEnergy:
    made = ASE(calculators.Counting(str(folder / "count")), processes=1).of([18, 18])
    return ExpensiveEnergy(made, identity="spring", atoms=2, path=folder / "energies.bin" if record else None)


def counted(folder: Path) -> int:
    path = folder / "count"
    return path.stat().st_size if path.exists() else 0


def test_nothing_is_evaluated_twice(tmp_path: Path) -> None:
    given = springs(0.1, 0.2, 0.1, -1.0, 0.3, 0.2)
    seen = []
    with counting(tmp_path) as energy:
        energy.shown = lambda *progress: seen.append(progress[:2])
        first = energy(given)
        assert counted(tmp_path) == energy.evaluations == 4
        assert energy.reused == 2
        assert seen == [(4, 4)]
        assert energy.failures == 1
        with_forces = energy.energy_and_forces(given[:2])
        assert counted(tmp_path) == 6
    expected = spring_energy(given)
    expected[3] = torch.nan
    torch.testing.assert_close(first, expected, equal_nan=True)
    with counting(tmp_path) as again:
        assert again.rate is None
        torch.testing.assert_close(again(given), first, rtol=0.0, atol=0.0, equal_nan=True)
        pair = again.energy_and_forces(given[:2])
        torch.testing.assert_close(pair.forces, with_forces.forces, rtol=0.0, atol=0.0)
        there = given[:2].float().requires_grad_()
        assert counted(tmp_path) == 6
        # Other bytes, other configurations: 0.1 is rounded in single precision.
        again(there.detach())
        assert counted(tmp_path) == 8


def test_a_file_can_be_given_later(tmp_path: Path) -> None:
    given = springs(0.1, 0.2, 0.3)
    with counting(tmp_path, record=False) as energy:
        energy(given[:1])
        energy.keep(tmp_path / "energies.bin")
        energy.keep(tmp_path / "another.bin")
        energy(given[1:])
    assert not (tmp_path / "another.bin").exists()
    with counting(tmp_path) as again:
        again(given)
        assert (again.reused, again.evaluations) == (2, 1)


def test_a_death_is_not_kept(tmp_path: Path) -> None:
    given = springs(0.1, 6.0)
    with counting(tmp_path) as energy:
        assert energy(given).isnan().tolist() == [False, True]
    with counting(tmp_path) as energy:
        assert energy(given).isnan().tolist() == [False, True]
        assert energy.evaluations == 1


def test_gradients_pass_through(tmp_path: Path) -> None:
    given = springs(0.1, 0.2).requires_grad_()
    with counting(tmp_path, record=False) as energy:
        (slope,) = torch.autograd.grad(energy(given).sum(), given)
        assert energy(springs()).shape == (0,)
        with pytest.raises(InputError, match="for 2 atoms, got positions of 3"):
            energy(torch.zeros(1, 3, 3))
    expected = torch.zeros_like(slope)
    expected[:, 0, 0] = 100.0 * KJ_PER_EV * torch.tensor([0.1, 0.2])
    torch.testing.assert_close(slope, expected)
