"""Summary of a molecule, its coordinates and its flow, without training."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from boltzport.core.layout import Shape
from boltzport.core.preset import Preset
from boltzport.experiments.build import feasibility
from boltzport.experiments.opening import shipped_quality
from boltzport.flows import build_flow
from boltzport.training.presets import recipe

if TYPE_CHECKING:
    from boltzport.molecules import Molecule


@dataclass(frozen=True, kw_only=True)
class Group:
    """Equivalent atoms around a tetrahedral centre, by label."""

    centre: str
    kind: str
    atoms: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A molecule as `boltzport inspect` reports it.

    Attributes:
        system: Name of the system, sequence or file.
        sequence: Names of the residues.
        atoms: Number of atoms.
        dimension: 3N - 6.
        flow_dimension: Number of coordinates without the constrained bonds.
        bonds: Number of bonds of the z-matrix, N - 1, including constrained ones.
        angles: Number of angles, N - 2.
        torsions: Number of torsions, N - 3.
        constrained_bonds: Number of bonds of constant length.
        chiral_centres: Labels of the chiral centres.
        handedness: L or D for each residue with a chiral alpha carbon.
        amides: `cis` or `trans` for each peptide bond, by the residues that it joins.
        notes: What may not be meant, one sentence each.
        permutation_groups: Equivalent neighbours whose order is kept.
        free_torsions: Number of torsions that can make a full turn.
        named_torsions: phi, psi, omega and chi with their value in the reference structure, in degrees.
        depth: Number of levels of the z-matrix; atoms of one level are placed at once.
        preset: Preset of the flow.
        flow_kind: Kind of the flow.
        flow_parameters: Number of parameters of the flow.
        circles: Number of circular coordinates of the flow.
        forcefield: XML names of the force field.
        constraints: Which bonds are constant.
        temperature: Temperature in K.
        energy: What the energy is, in a few words.
        energy_backend: `tensors`, `openmm` if the force field has forces without a tensor version, or the name of the
            energy.
        parity: Difference between the tensors and OpenMM, or the reason why OpenMM is used.
        reference_energy: Energy of the reference structure in kJ/mol.
    """

    system: str
    sequence: str
    atoms: int
    dimension: int
    flow_dimension: int
    bonds: int
    angles: int
    torsions: int
    constrained_bonds: int
    chiral_centres: tuple[str, ...]
    handedness: dict[str, str]
    amides: dict[str, str]
    notes: tuple[str, ...]
    permutation_groups: tuple[Group, ...]
    free_torsions: int
    named_torsions: dict[str, float]
    depth: int
    preset: str
    flow_kind: str
    flow_parameters: int
    circles: int
    forcefield: tuple[str, ...]
    constraints: str
    temperature: float
    energy: str
    energy_backend: str
    parity: str
    reference_energy: float

    def to_dict(self) -> dict[str, object]:
        """Plain lists, numbers and strings, for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SystemSummary:
    """A named system as `boltzport systems` lists it.

    Attributes:
        system: Name.
        alias: Short name.
        sequence: Names of the residues.
        atoms: Number of atoms.
        dimension: 3N - 6.
        flow_dimension: Number of coordinates without the constrained bonds.
        forcefield: XML names of the force field.
        constraints: Which bonds are constant.
        trained: Metrics of the trained flow that ships; None if there is none.
    """

    system: str
    alias: str
    sequence: str
    atoms: int
    dimension: int
    flow_dimension: int
    forcefield: tuple[str, ...]
    constraints: str
    trained: dict[str, Any] | None


def named_systems() -> list[SystemSummary]:
    """The named systems with their size and the quality of the flow that ships."""
    from boltzport.molecules import SYSTEMS, Molecule

    found = []
    for entry in SYSTEMS:
        molecule = Molecule(entry.name)
        found.append(
            SystemSummary(
                system=entry.name,
                alias=entry.alias,
                sequence=entry.sequence,
                atoms=molecule.topology.n_atoms,
                dimension=3 * molecule.topology.n_atoms - 6,
                flow_dimension=molecule.coordinates.dimension,
                forcefield=entry.forcefield,
                constraints=entry.constraints.value,
                trained=shipped_quality(entry.name),
            )
        )
    return found


def inspect_molecule(molecule: "Molecule", preset: Preset = Preset.LAPTOP, *, energy: str | None = None) -> Inspection:
    """Describe a molecule, its internal coordinates and the flow of a preset.

    Args:
        molecule: The molecule.
        preset: Preset of the flow.
        energy: Name of an energy that replaces the force field.
    """
    from boltzport.molecules import Kind
    from boltzport.targets.boltzmann import build_space, open_energy

    # A few hundred evaluations are not worth a compilation.
    made = recipe(molecule.name, preset, atoms=molecule.topology.n_atoms)
    with open_energy(molecule, energy=energy, compiled=False) as opened:
        layout = build_space(made.layout, molecule, opened.evaluate).layout
        reference_energy = float(opened.evaluate(torch.from_numpy(molecule.positions)[None]))
    flow = build_flow(layout, made.flow, generator=torch.Generator().manual_seed(0))
    label, coordinates = molecule.topology.label, molecule.coordinates
    reference = coordinates.to_internal(torch.from_numpy(molecule.positions)[None]).coordinates[0]
    named = set(molecule.zmatrix.names.values())
    n_atoms = molecule.topology.n_atoms
    return Inspection(
        system=molecule.name,
        sequence="-".join(molecule.topology.residue_names),
        atoms=n_atoms,
        dimension=3 * n_atoms - 6,
        flow_dimension=coordinates.dimension,
        bonds=n_atoms - 1,
        angles=n_atoms - 2,
        torsions=n_atoms - 3,
        constrained_bonds=len(molecule.constrained),
        chiral_centres=tuple(label(centre.atom) for centre in molecule.centres if centre.chiral),
        handedness=dict(molecule.handedness),
        amides={amide.residues: amide.kind for amide in molecule.amides},
        notes=(*molecule.notes, *feasibility(n_atoms)),
        permutation_groups=tuple(
            Group(centre=label(group.centre), kind=group.kind, atoms=tuple(label(atom) for atom in group.atoms))
            for group in molecule.permutation_groups
        ),
        free_torsions=sum(column.circular for column in coordinates.columns),
        named_torsions={
            column.name: round(float(torch.rad2deg(value)), 1)
            for column, value in zip(coordinates.columns, reference, strict=True)
            if column.kind is Kind.TORSION and column.name in named
        },
        depth=molecule.zmatrix.rows[-1].depth,
        preset=preset.value,
        flow_kind=flow.kind,
        flow_parameters=sum(parameter.numel() for parameter in flow.parameters()),
        circles=sum(axis.shape is Shape.CIRCLE for axis in flow.layout),
        forcefield=molecule.forcefield,
        constraints=molecule.constraints.value,
        temperature=molecule.temperature,
        energy=opened.message if energy is not None else f"force field, by {opened.backend}",
        energy_backend=opened.backend,
        parity=opened.message if energy is None else f"{energy} is not compared with OpenMM",
        reference_energy=molecule.reference_energy() if energy is None else reference_energy,
    )
