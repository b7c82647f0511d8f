"""The compiled kernels give what the plain ones do; in processes of their own, without type checks."""

import os
import subprocess
import sys
from pathlib import Path

import openmm
import pytest
import torch

from forcefields import AMBER96_OBC1, CHARMM36, case

COMPILED = """
import logging, sys, openmm, torch
torch.set_num_threads(1)
logging.basicConfig(level=logging.WARNING, format="LOG %(message)s", stream=sys.stdout)
from boltzport.energies import ForceField, RegularisedEnergy, extract
system = openmm.XmlSerializer.deserialize(open(sys.argv[1]).read())
thermal = torch.load(sys.argv[2])
plain, field = ForceField(extract(system), compiled=False), ForceField(extract(system))
dtype = getattr(torch, sys.argv[3])
tolerance = {torch.float32: 2e-5, torch.float64: 1e-9}[dtype]
for count in (40, 1, 16, 17, 300, 0):
    shift = 1e-5 * torch.arange(count)[:, None, None]
    positions = thermal[torch.arange(count) % len(thermal)].to(dtype) + shift
    expected, result = plain.energy_and_forces(positions), field.energy_and_forces(positions)
    assert result.energies.dtype == dtype
    torch.testing.assert_close(result.energies, expected.energies, rtol=tolerance, atol=tolerance * 300)
    torch.testing.assert_close(field(positions), expected.energies, rtol=tolerance, atol=tolerance * 300)
    assert (result.forces - expected.forces).norm() <= 10 * tolerance * expected.forces.norm()
bad = thermal.to(dtype)
bad[0, 10] = bad[0, 0]
bad[1, 2, 0] = float("nan")
bad[2] = 0.0
bad[3] *= 1e36
bad.requires_grad_()
energies = RegularisedEnergy(field, temperature=300.0)(bad)
assert energies.isnan().tolist() == [False, True, False, False], energies
energies[[0, 2, 3]].sum().backward()
assert bad.grad[[0, 2, 3]].isfinite().all()
print("done")
"""

SEVERAL = """
import logging, sys, openmm, torch
torch._dynamo.config.recompile_limit = 1
logging.basicConfig(level=logging.WARNING, format="LOG %(message)s", stream=sys.stdout)
from boltzport.energies import ForceField, extract
for atoms in (2, 3, 4):
    system = openmm.System()
    force = openmm.HarmonicBondForce()
    for index in range(atoms):
        system.addParticle(1.0)
        if index:
            force.addBond(0, index, 0.1, 100.0 * index)
    system.addForce(force)
    positions = torch.rand(50, atoms, 3)
    lengths = (positions[:, 1:] - positions[:, :1]).norm(dim=-1)
    expected = (50.0 * torch.arange(1, atoms) * (lengths - 0.1) ** 2).sum(1)
    torch.testing.assert_close(ForceField(extract(system))(positions), expected)
print("done")
"""

WITHOUT_COMPILER = """
import logging, sys, openmm, torch
logging.basicConfig(level=logging.WARNING, format="LOG %(message)s", stream=sys.stdout)
from boltzport.energies import ForceField, extract
system = openmm.XmlSerializer.deserialize(open(sys.argv[1]).read())
thermal = torch.load(sys.argv[2])
field, plain = ForceField(extract(system)), ForceField(extract(system), compiled=False)
torch.testing.assert_close(field(thermal), plain(thermal))
torch.testing.assert_close(field.energy_and_forces(thermal).forces, plain.energy_and_forces(thermal).forces)
print("done")
"""


def output(script: str, folder: Path, files: tuple[str, ...], *extra: str, **environment: str) -> list[str]:
    one = case("ACE-ALA-NME", files)
    (folder / "system.xml").write_text(openmm.XmlSerializer.serialize(one.system))
    torch.save(one.thermal, folder / "thermal.pt")
    result = subprocess.run(
        [sys.executable, "-c", script, str(folder / "system.xml"), str(folder / "thermal.pt"), *extra],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "dtype"), [(AMBER96_OBC1, "float32"), (CHARMM36, "float64")], ids=["amber96+obc1", "charmm36"]
)
def test_compiled_is_plain(files: tuple[str, ...], dtype: str, tmp_path: Path) -> None:
    assert output(COMPILED, tmp_path, files, dtype) == ["done"]


@pytest.mark.slow
def test_every_force_field_is_compiled(tmp_path: Path) -> None:
    assert output(SEVERAL, tmp_path, AMBER96_OBC1) == ["done"]


@pytest.mark.slow
def test_without_a_compiler_one_line_says_so(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    lines = output(WITHOUT_COMPILER, tmp_path, AMBER96_OBC1, CXX="/nonexistent/c++", TORCHINDUCTOR_CACHE_DIR=cache)
    assert len(lines) == 2
    assert lines[0].startswith("LOG the force field runs uncompiled")
    assert lines[1] == "done"
