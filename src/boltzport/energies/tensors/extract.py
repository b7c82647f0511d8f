"""Convert an OpenMM ``System`` to parameters; anything unsupported raises an error that names it."""

import math
from collections.abc import Callable

import numpy as np
import openmm
import torch
from openmm import unit

from boltzport.core.errors import InputError
from boltzport.energies.tensors import expressions
from boltzport.energies.tensors.cmap import bicubic_coefficients
from boltzport.energies.tensors.collect import Collected
from boltzport.energies.tensors.extract_born import custom_born
from boltzport.energies.tensors.parameters import Born, Parameters, Term

# OpenMM's own Coulomb constant, kJ/mol nm per squared elementary charge.
COULOMB = 138.93545764438198
# Constants of OpenMM's GBSAOBCForce: radius offset and probe radius in nm, and the OBC II rescaling.
OBC_OFFSET, OBC_PROBE, OBC_RESCALING = 0.009, 0.14, (1.0, 0.8, 4.85)

Reader = Callable[[openmm.Force, Collected], None]


def extract(system: openmm.System) -> Parameters:
    """Extract the parameters of a system from its forces.

    Args:
        system: any ``openmm.System`` without cutoffs, periodicity and virtual sites. Constraints and masses
            do not affect the energy; ``CMMotionRemover`` is ignored.

    Returns:
        Float64 records of every term.

    Raises:
        InputError: a force, an expression or a setting is not supported; the message names it.
    """
    atoms = system.getNumParticles()
    if any(system.isVirtualSite(index) for index in range(atoms)):
        raise _untranslated("virtual sites")
    collected = Collected(atoms)
    for force in system.getForces():
        if not isinstance(force, openmm.CMMotionRemover):
            _reader(force)[1](force, collected)
    return collected.parameters()


def term_of(force: openmm.Force) -> Term | None:
    """The term to which an OpenMM force contributes; ``None`` if it has no energy."""
    return None if isinstance(force, openmm.CMMotionRemover) else _reader(force)[0]


def _reader(force: openmm.Force) -> tuple[Term, Reader]:
    try:
        return _READERS[type(force)]
    except KeyError:
        raise _untranslated(_name(force)) from None


def _name(force: openmm.Force) -> str:
    kind = type(force).__name__
    return kind if force.getName() in ("", kind) else f"{kind} {force.getName()!r}"


def _untranslated(what: str) -> InputError:
    return InputError(
        f"{what} cannot be translated into tensors; evaluate this system with the OpenMM backend, OpenMMEnergy"
    )


def _plain(quantity: object) -> float:
    """A number in nm, kJ/mol, radian and elementary charges."""
    if unit.is_quantity(quantity):
        return float(quantity.value_in_unit_system(unit.md_unit_system))  # type: ignore[attr-defined]
    return float(quantity)  # type: ignore[arg-type]


def _require_open(force: openmm.Force) -> None:
    """Raise an error that names the force if it has periodic boundaries or a cutoff."""
    if hasattr(force, "getNonbondedMethod") and force.getNonbondedMethod() != type(force).NoCutoff:
        raise _untranslated(f"{_name(force)} with a cutoff or periodic boundaries")
    if force.usesPeriodicBoundaryConditions():
        raise _untranslated(f"{_name(force)} with periodic boundaries")


def _require_no_globals(force: openmm.Force) -> None:
    if force.getNumGlobalParameters() or getattr(force, "getNumEnergyParameterDerivatives", int)():
        raise _untranslated(f"{_name(force)} with global parameters")


def _bonds(force: openmm.HarmonicBondForce, collected: Collected) -> None:
    _require_open(force)
    for index in range(force.getNumBonds()):
        i, j, length, stiffness = force.getBondParameters(index)
        collected.bonds.append((i, j, _plain(length), _plain(stiffness)))


def _angles(force: openmm.HarmonicAngleForce, collected: Collected) -> None:
    _require_open(force)
    for index in range(force.getNumAngles()):
        i, j, k, angle, stiffness = force.getAngleParameters(index)
        collected.angles.append((i, j, k, _plain(angle), _plain(stiffness)))


def _torsions(force: openmm.PeriodicTorsionForce, collected: Collected) -> None:
    _require_open(force)
    for index in range(force.getNumTorsions()):
        *atoms, order, phase, stiffness = force.getTorsionParameters(index)
        collected.torsions.add_cosine(tuple(atoms), order, _plain(phase), _plain(stiffness))


def _rb_torsions(force: openmm.RBTorsionForce, collected: Collected) -> None:
    _require_open(force)
    for index in range(force.getNumTorsions()):
        *values, c0, c1, c2, c3, c4, c5 = force.getTorsionParameters(index)
        collected.rb_torsions.add_powers(tuple(values), [_plain(c) for c in (c0, c1, c2, c3, c4, c5)])


def _impropers(force: openmm.CustomTorsionForce, collected: Collected) -> None:
    _require_open(force)
    _require_no_globals(force)
    names = [force.getPerTorsionParameterName(k) for k in range(force.getNumPerTorsionParameters())]
    text = force.getEnergyFunction()
    plain = expressions.match(text, expressions.HARMONIC_IMPROPER) == {}
    around = expressions.match(text, expressions.PERIODIC_IMPROPER)
    circular = around is not None and around.keys() == {"pi"} and math.isclose(around["pi"], math.pi, rel_tol=1e-8)
    if sorted(names) != ["k", "theta0"] or not (plain or circular):
        raise _untranslated(f"{_name(force)} with the energy {text!r}")
    for index in range(force.getNumTorsions()):
        *atoms, values = force.getTorsionParameters(index)
        given = dict(zip(names, values, strict=True))
        collected.add_improper(tuple(atoms), given["theta0"], given["k"], periodic=circular)


def _cmap(force: openmm.CMAPTorsionForce, collected: Collected) -> None:
    _require_open(force)
    maps = []
    for index in range(force.getNumMaps()):
        size, energies = force.getMapParameters(index)
        # In OpenMM's order the first angle varies fastest.
        grid = np.array([_plain(energy) for energy in energies]).reshape(size, size).T
        maps.append(collected.add_map(bicubic_coefficients(grid)))
    for index in range(force.getNumTorsions()):
        number, *atoms = force.getTorsionParameters(index)
        collected.cmaps.append((maps[number], tuple(atoms)))


def _nonbonded(force: openmm.NonbondedForce, collected: Collected) -> None:
    _require_open(force)
    if force.getNumParticleParameterOffsets() or force.getNumExceptionParameterOffsets():
        raise _untranslated(f"{_name(force)} with parameter offsets")
    rows = [[_plain(v) for v in force.getParticleParameters(i)] for i in range(force.getNumParticles())]
    charge, sigma, epsilon = np.array(rows).T
    coulomb = COULOMB * np.outer(charge, charge)
    sigma = 0.5 * (sigma[:, None] + sigma)
    depth = 4.0 * np.sqrt(np.outer(epsilon, epsilon))
    for index in range(force.getNumExceptions()):
        i, j, product, length, energy = force.getExceptionParameters(index)
        # NonbondedForce treats both triangles alike; keep them symmetric.
        for a, b in ((i, j), (j, i)):
            coulomb[a, b], sigma[a, b], depth[a, b] = (
                COULOMB * _plain(product),
                _plain(length),
                4.0 * _plain(energy),
            )
    collected.add_pairs(coulomb, depth * sigma**6, depth * sigma**12)


def _lennard_jones_tables(force: openmm.CustomNonbondedForce, collected: Collected) -> None:
    _require_open(force)
    _require_no_globals(force)
    text = force.getEnergyFunction()
    names = [force.getPerParticleParameterName(k) for k in range(force.getNumPerParticleParameters())]
    tables = {
        force.getTabulatedFunctionName(k): force.getTabulatedFunction(k)
        for k in range(force.getNumTabulatedFunctions())
    }
    known = expressions.match(text, expressions.LENNARD_JONES_TABLES) == {} and names == ["type"]
    known = known and tables.keys() == {"acoef", "bcoef"} and force.getNumComputedValues() == 0
    known = known and all(isinstance(table, openmm.Discrete2DFunction) for table in tables.values())
    if not known:
        raise _untranslated(f"{_name(force)} with the energy {text!r}")
    if force.getNumInteractionGroups():
        raise _untranslated(f"{_name(force)} with interaction groups")
    kinds = np.array([int(force.getParticleParameters(i)[0]) for i in range(force.getNumParticles())])
    matrices = {}
    for name, table in tables.items():
        columns, rows, values = table.getFunctionParameters()
        matrices[name] = np.array(values).reshape(rows, columns).T[np.ix_(kinds, kinds)]
    for index in range(force.getNumExclusions()):
        i, j = force.getExclusionParticles(index)
        for matrix in matrices.values():
            matrix[i, j] = matrix[j, i] = 0.0
    collected.add_pairs(np.zeros_like(matrices["acoef"]), matrices["bcoef"], matrices["acoef"])


def _lennard_jones_bonds(force: openmm.CustomBondForce, collected: Collected) -> None:
    _require_open(force)
    _require_no_globals(force)
    names = [force.getPerBondParameterName(k) for k in range(force.getNumPerBondParameters())]
    text = force.getEnergyFunction()
    numbers = expressions.match(text, expressions.LENNARD_JONES_BOND)
    if sorted(names) != ["epsilon", "sigma"] or numbers is None or numbers.keys() != {"scale"}:
        raise _untranslated(f"{_name(force)} with the energy {text!r}")
    for index in range(force.getNumBonds()):
        i, j, values = force.getBondParameters(index)
        given = dict(zip(names, values, strict=True))
        depth = numbers["scale"] * given["epsilon"]
        collected.add_pair(i, j, c6=depth * given["sigma"] ** 6, c12=depth * given["sigma"] ** 12)


def _born(force: openmm.GBSAOBCForce, collected: Collected) -> None:
    _require_open(force)
    rows = [[_plain(v) for v in force.getParticleParameters(i)] for i in range(force.getNumParticles())]
    charge, radius, scale = torch.tensor(rows, dtype=torch.float64).T
    offset_radius = radius - OBC_OFFSET
    tension = 4.0 * math.pi * _plain(force.getSurfaceAreaEnergy())
    collected.set_born(
        Born(
            charge=charge,
            offset_radius=offset_radius,
            scaled_radius=scale * offset_radius,
            radius=radius,
            rescaling=torch.tensor(OBC_RESCALING, dtype=torch.float64)[:, None].repeat(1, len(rows)),
            neck=None,
            engulfed=True,
            coulomb=COULOMB,
            solute_dielectric=force.getSoluteDielectric(),
            solvent_dielectric=force.getSolventDielectric(),
            kappa=0.0,
            surface=tension * (radius + OBC_PROBE) ** 2,
            surface_radius=radius,
        )
    )


def _custom_born(force: openmm.CustomGBForce, collected: Collected) -> None:
    _require_open(force)
    _require_no_globals(force)
    born = custom_born(force)
    if isinstance(born, str):
        raise _untranslated(f"{_name(force)} with {born}")
    collected.set_born(born)


_READERS: dict[type[openmm.Force], tuple[Term, Reader]] = {
    openmm.HarmonicBondForce: (Term.BONDS, _bonds),
    openmm.HarmonicAngleForce: (Term.ANGLES, _angles),
    openmm.PeriodicTorsionForce: (Term.TORSIONS, _torsions),
    openmm.RBTorsionForce: (Term.RB_TORSIONS, _rb_torsions),
    openmm.CustomTorsionForce: (Term.IMPROPERS, _impropers),
    openmm.CMAPTorsionForce: (Term.CMAP, _cmap),
    openmm.NonbondedForce: (Term.NONBONDED, _nonbonded),
    openmm.CustomNonbondedForce: (Term.NONBONDED, _lennard_jones_tables),
    openmm.CustomBondForce: (Term.NONBONDED, _lennard_jones_bonds),
    openmm.GBSAOBCForce: (Term.BORN, _born),
    openmm.CustomGBForce: (Term.BORN, _custom_born),
}
