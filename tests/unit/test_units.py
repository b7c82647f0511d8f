import openmm.unit
import pytest

from boltzport.core.units import thermal_energy


def test_thermal_energy_is_openmms() -> None:
    kt = openmm.unit.MOLAR_GAS_CONSTANT_R * 300 * openmm.unit.kelvin
    assert thermal_energy(300.0) == pytest.approx(kt.value_in_unit(openmm.unit.kilojoule_per_mole), rel=1e-12)
