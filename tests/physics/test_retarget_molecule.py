"""What another description of a molecule may change, and what it may not."""

import numpy as np
import pytest

from boltzport.core.errors import InputError
from boltzport.experiments import Changes, load
from boltzport.experiments.redescribe import check_same, redescribed
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann import BoltzmannTarget
from molecules import molecule


def test_other_constraints_are_refused_by_name() -> None:
    free = Molecule("alanine-dipeptide")
    bound = Molecule("alanine-dipeptide", constraints="hbonds")
    message = "the constraints change: the run has 0 constrained bonds, the new description 12; 12 differ"
    with pytest.raises(InputError, match=message):
        check_same(free, bound)
    check_same(free, free.at_temperature(350.0))


def test_another_molecule_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"ACE-GLY-NME \(19 atoms\) is another molecule than alanine-dipeptide"):
        check_same(molecule("alanine-dipeptide"), Molecule("ACE-GLY-NME"))


def test_another_temperature_is_the_same_molecule_with_wider_local_coordinates() -> None:
    model = load("alanine-dipeptide")
    config, opened = redescribed(model, Changes(temperature=432.0))
    before, after = model.target.counted.target, opened.counted.target
    assert isinstance(before, BoltzmannTarget)
    assert isinstance(after, BoltzmannTarget)
    assert (config.molecule.temperature, after.molecule.temperature, before.molecule.temperature) == (
        432.0,
        432.0,
        300.0,
    )
    assert before.map is not None
    assert after.map is not None
    np.testing.assert_allclose(after.map.mixing / before.map.mixing, 1.2, rtol=1e-12)
    assert after.map.log_det - before.map.log_det == pytest.approx(len(after.map.local) * np.log(1.2))
    with pytest.raises(InputError, match="expected a temperature above 0 K"):
        redescribed(model, Changes(temperature=-1.0))
    with pytest.raises(InputError, match="expected another temperature"):
        redescribed(model, Changes())
