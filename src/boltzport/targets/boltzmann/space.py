"""The coordinates of a molecule that a flow is trained on, by kind."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import LayoutKind
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann.harmonic import Space, harmonic_space
from boltzport.targets.boltzmann.layout import informed_layout, paper_layout
from boltzport.targets.boltzmann.skeleton import with_skeleton


def build_space(kind: LayoutKind, molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> Space:
    """Build the coordinates of a molecule with their base density.

    Args:
        kind: Kind of the coordinates.
        molecule: Molecule with its reference structure.
        energy: Energy in kJ/mol of positions in nm; differentiable unless the kind is `paper`.

    Raises:
        InputError: A molecule has no coordinates of this kind, or the kind needs forces and the energy has none.
    """
    if kind is not LayoutKind.PAPER and not getattr(energy, "differentiable", True):
        raise InputError(f"layout: {kind} needs forces, but the energy has none; use the layout paper")
    if kind is LayoutKind.PAPER:
        space = Space(layout=paper_layout(molecule), map=None)
    elif kind is LayoutKind.INFORMED:
        space = Space(layout=informed_layout(molecule, energy), map=None)
    elif kind is LayoutKind.HARMONIC:
        space = harmonic_space(molecule, energy)
    else:
        raise InputError(f"layout: expected harmonic, informed or paper for a molecule, got {kind}")
    return replace(space, layout=with_skeleton(space.layout, molecule))
