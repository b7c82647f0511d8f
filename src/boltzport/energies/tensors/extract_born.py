"""Recognise the generalized Born models that OpenMM writes as a ``CustomGBForce``."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from boltzport.energies.tensors import expressions
from boltzport.energies.tensors.expressions import match
from boltzport.energies.tensors.parameters import Born, Neck

_PARAMETERS = ["charge", "or", "sr"]


def custom_born(force: Any) -> Born | str:
    """Recognise the model of a ``CustomGBForce``, or describe what is unknown about it.

    Args:
        force: an ``openmm.CustomGBForce`` without cutoff and global parameters.

    Returns:
        The model, or a description of the unrecognised part for a message.
    """
    values = [force.getComputedValueParameters(k) for k in range(force.getNumComputedValues())]
    names = [force.getPerParticleParameterName(k) for k in range(force.getNumPerParticleParameters())]
    kinds = [(name, kind) for name, _, kind in values]
    if kinds != [("I", force.ParticlePairNoExclusions), ("B", force.SingleParticle)] or names[:3] != _PARAMETERS:
        return f"the computed values {[name for name, _, _ in values]} of {names}"
    rows = [force.getParticleParameters(k) for k in range(force.getNumParticles())]
    given = dict(zip(names, torch.tensor(rows, dtype=torch.float64).T, strict=True))
    rescaling = _rescaling(values[1][1], given)
    if isinstance(rescaling, str):
        return rescaling
    neck = _neck(values[0][1], force, given)
    if isinstance(neck, str):
        return neck
    energy = _energy(force)
    if isinstance(energy, str):
        return energy
    offset_radius = given["or"]
    surface_radius = offset_radius + energy.get("offset", 0.0)
    surface = energy.get("tension", 0.0) * (surface_radius + energy.get("probe", 0.0)) ** 2
    return Born(
        charge=given["charge"],
        offset_radius=offset_radius,
        scaled_radius=given["sr"],
        radius=rescaling[0] + offset_radius,
        rescaling=rescaling[1],
        neck=neck,
        engulfed=False,
        coulomb=energy["coulomb"],
        solute_dielectric=energy["soluteDielectric"],
        solvent_dielectric=energy["solventDielectric"],
        kappa=energy["kappa"],
        surface=surface,
        surface_radius=surface_radius,
    )


def _rescaling(text: str, given: dict[str, Tensor]) -> tuple[float, Tensor | None] | str:
    """Offset of the radius in nm, and the three coefficients of every atom or ``None`` for HCT."""
    if match(text, expressions.RADIUS_HCT) == {}:
        return 0.0, None
    numbers = match(text, expressions.RADIUS_PER_ATOM)
    if numbers is not None and numbers.keys() == {"offset"} and {"alpha", "beta", "gamma"} <= given.keys():
        return numbers["offset"], torch.stack([given["alpha"], given["beta"], given["gamma"]])
    ones = torch.ones_like(given["or"])
    for template, missing in (
        (expressions.RADIUS_TWO_TERMS, {"b": 0.0}),
        (expressions.RADIUS_UNIT_FIRST, {"a": 1.0}),
        (expressions.RADIUS_THREE_TERMS, {}),
    ):
        numbers = match(text, template)
        if numbers is not None:
            numbers |= missing
            if numbers.keys() == {"a", "b", "c", "offset"}:
                return numbers["offset"], torch.stack([numbers[k] * ones for k in "abc"])
    return f"the Born radius {text!r}"


def _neck(text: str, force: Any, given: dict[str, Tensor]) -> Neck | str | None:
    """The neck correction, ``None`` if the model has none."""
    if match(text, expressions.DESCREENING) == {}:
        return None
    numbers = match(text, expressions.NECK_DESCREENING)
    count = force.getNumTabulatedFunctions()
    tables = {force.getTabulatedFunctionName(k): force.getTabulatedFunction(k) for k in range(count)}
    known = numbers is not None and numbers.keys() == {"neckScale", "neckCut", "offset"}
    known = known and tables.keys() == {"getd0", "getm0"} and "radindex" in given
    if not known or any(type(table).__name__ != "Discrete2DFunction" for table in tables.values()):
        return f"the descreening integral {text!r}"
    assert numbers is not None
    index = given["radindex"].long()

    def lookup(name: str) -> Tensor:
        columns, rows, values = tables[name].getFunctionParameters()
        # In a Discrete2DFunction the first argument varies fastest.
        return torch.from_numpy(np.array(values).reshape(rows, columns).T)[index[:, None], index[None, :]]

    radius = given["or"] + numbers["offset"]
    return Neck(
        distance=lookup("getd0"),
        height=numbers["neckScale"] * lookup("getm0"),
        cutoff=radius[:, None] + radius[None, :] + numbers["neckCut"],
    )


def _energy(force: Any) -> dict[str, float] | str:
    """Constants of the energy: coulomb, dielectric constants, kappa; tension, probe, offset of the surface."""
    single, pair = force.SingleParticle, force.ParticlePairNoExclusions
    known = (
        ("self", expressions.SELF, single, False),
        ("self", expressions.SELF_SALT, single, True),
        ("surface", expressions.SURFACE, single, False),
        ("pair", expressions.PAIR, pair, False),
        ("pair", expressions.PAIR_SALT, pair, True),
    )
    found: dict[str, dict[str, float]] = {}
    for k in range(force.getNumEnergyTerms()):
        text, kind = force.getEnergyTermParameters(k)
        for name, template, expected, salt in known:
            numbers = match(text, template)
            if numbers is not None and kind == expected and name not in found:
                if name != "surface" and not salt:
                    numbers["kappa"] = 0.0
                found[name] = numbers
                break
        else:
            return f"the energy term {text!r}"
    needed = {"coulomb", "soluteDielectric", "solventDielectric", "kappa"}
    both = [{key: found.get(name, {}).get(key) for key in needed} for name in ("self", "pair")]
    if both[0] != both[1] or None in both[0].values():
        return "energy terms of atoms and pairs that do not match"
    if "surface" in found and not {"tension", "probe", "offset"} <= found["surface"].keys():
        return "a surface term whose constants are not numbers"
    surface = {key: value for key, value in found.get("surface", {}).items() if key in ("tension", "probe", "offset")}
    return {key: found["self"][key] for key in needed} | surface
