"""From a name, a sequence, a PDB file or an OpenMM System to atoms, forces and a reference structure."""

import difflib
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import openmm
import openmm.app
import openmm.unit
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.molecules.chemistry import has_rdkit
from boltzport.molecules.mmff import NAME as MMFF94
from boltzport.molecules.parametrise import Constraints, create_system, load_forcefield, minimise
from boltzport.molecules.pdb import check_connected, explain_mismatch, read_pdb
from boltzport.molecules.remarks import on_pdb, on_sequence
from boltzport.molecules.sanity import check_bonds, check_minimised
from boltzport.molecules.sequence import Peptide, build_peptide, iupac_hydrogens, parse_sequence
from boltzport.molecules.smiles import Small, Source, build_small, count_small_atoms, read_small, source_of
from boltzport.molecules.stereo import Stereo
from boltzport.molecules.systems import DEFAULT, SYSTEMS, NamedSystem
from boltzport.molecules.topology import Topology, from_openmm
from boltzport.molecules.torsions import D_RESIDUES
from boltzport.molecules.zmatrix import build_zmatrix

NEUTRAL = 7.0
"""pH by default."""
_SMALL = (Source.SMILES, Source.SMALL_FILE)


class Built(NamedTuple):
    """The parts of a molecule; `Molecule` says what each is."""

    name: str
    topology: Topology
    openmm_topology: openmm.app.Topology
    system: openmm.System
    positions: Float[np.ndarray, "atoms 3"]
    forcefield: tuple[str, ...]
    constraints: Constraints
    stereo: Stereo = Stereo()
    sdf: str | None = None
    charge: int | None = None
    remarks: tuple[str, ...] = ()


def build_by_name(
    system: str,
    *,
    forcefield: tuple[str, ...] = (),
    constraints: Constraints | None = None,
    ph: float = 7.0,
    keep: tuple[str, ...] = (),
    add_hydrogens: bool = False,
) -> Built:
    """Build a molecule by the name of a system, by its sequence or SMILES, or from a PDB, SDF or MOL2 file.

    Args:
        system: `alanine-dipeptide` or another name or alias of `SYSTEMS`; `ELIL` or `ACE-ALA-NME`; a path; a SMILES.
        forcefield: XML names or files; by default those of the system, or of the paper's larger peptides.
        constraints: Which bonds have a constant length; by default those of the system.
        ph: pH that sets the protonation of residues whose name does not; a PDB file keeps its hydrogens.
        keep: Chains of a PDB file to keep; all atoms by default.
        add_hydrogens: Whether to add missing hydrogens to a PDB file.

    Raises:
        InputError: The system cannot be built; the message says why.
    """
    source = source_of(system)
    if source is not Source.PDB and (keep or add_hydrogens):
        option = "keep" if keep else "add_hydrogens"
        raise InputError(f"{option}: expected a PDB file, got {system}; leave it out")
    if source in _SMALL:
        if forcefield or constraints is Constraints.HBONDS:
            raise InputError(
                f"{system} is a small molecule, whose force field is MMFF94 without constraints; leave out forcefield "
                "and constraints"
            )
        if ph != NEUTRAL:
            raise InputError(
                f"{system} is a small molecule with the protonation of its SMILES or file, and a pH of {ph:g} has no "
                "effect; leave it out"
            )
        return _from_small(build_small(system), system)
    named, from_file = _named(system), source is Source.PDB
    defaults = named or DEFAULT
    names = forcefield or defaults.forcefield
    chosen = constraints or defaults.constraints
    field = load_forcefield(names)
    modeller = _modeller(system, ph=ph, keep=keep, add_hydrogens=add_hydrogens)
    try:
        openmm_system = create_system(modeller.topology, field, constraints=chosen, names="+".join(names))
    except InputError as error:
        if from_file:
            explain_mismatch(Path(system), modeller, field, "+".join(names))
        elif modeller.topology.getNumResidues() == 1:
            raise InputError(
                f"the force field {'+'.join(names)} has no residue with two charged ends; expected two residues or "
                f"caps such as ACE-{system}-NME"
            ) from error
        raise
    if from_file:
        check_connected(Path(system), modeller)
    _check_mirrored(modeller.topology, openmm_system, "+".join(names))
    topology = from_openmm(modeller.topology)
    initial = np.array(modeller.positions.value_in_unit(openmm.unit.nanometer))
    if from_file:
        check_bonds(system, topology, initial)
    positions = minimise(openmm_system, initial)
    if from_file:
        check_minimised(system, topology, initial, positions)
    else:
        positions = iupac_hydrogens(topology, build_zmatrix(topology), positions)
    return Built(
        name=named.name if named else system,
        topology=topology,
        openmm_topology=modeller.topology,
        system=openmm_system,
        positions=positions,
        forcefield=names,
        constraints=chosen,
        remarks=on_pdb(Path(system), keep) if from_file else () if named else on_sequence(system),
    )


def _check_mirrored(topology: openmm.app.Topology, system: openmm.System, names: str) -> None:
    """Refuse maps of phi and psi for D-residues: they are those of L-residues.

    Raises:
        InputError: There is a D-residue, and the force field has such maps.
    """
    mirrored = [f"{residue.name}{residue.id}" for residue in topology.residues() if residue.name in D_RESIDUES]
    if mirrored and any(isinstance(force, openmm.CMAPTorsionForce) for force in system.getForces()):
        raise InputError(
            f"the force field {names} has maps of phi and psi (CMAP), which are wrong for the D-residue {mirrored[0]}; "
            "expected a force field without them, such as amber14-all.xml"
        )


def count_atoms(system: str, *, ph: float = 7.0, keep: tuple[str, ...] = (), add_hydrogens: bool = False) -> int:
    """Number of atoms of a molecule, by name, by sequence or SMILES, or from a file; needs no force field.

    Raises:
        InputError: The molecule cannot be built; the message says why.

    Example:
        >>> count_atoms("alanine-hexapeptide"), count_atoms("ACE-ALA-NME")
        (62, 22)
    """
    if source_of(system) in _SMALL:
        return count_small_atoms(system)
    return int(_modeller(system, ph=ph, keep=keep, add_hydrogens=add_hydrogens).topology.getNumAtoms())


def _modeller(system: str, *, ph: float, keep: tuple[str, ...], add_hydrogens: bool) -> openmm.app.Modeller:
    """Atoms, bonds and an initial structure."""
    if not 0.0 <= ph <= 14.0:
        raise InputError(f"expected a pH from 0 to 14, got {ph:g}")
    if source_of(system) is Source.PDB:
        if ph != NEUTRAL and not add_hydrogens:
            raise InputError(
                f"{system} has its hydrogens, so that a pH of {ph:g} has no effect; leave it out, or add hydrogens"
            )
        return read_pdb(Path(system), keep=keep, hydrogens=add_hydrogens, ph=ph)
    named = _named(system)
    return build_peptide(_peptide(named.sequence if named else system), ph=ph)


def _named(system: str) -> NamedSystem | None:
    return next((entry for entry in SYSTEMS if system in (entry.name, entry.alias)), None)


def build_from_system(
    system: openmm.System, topology: openmm.app.Topology, positions: Float[np.ndarray, "atoms 3"], *, name: str
) -> Built:
    """Build a molecule from a user's OpenMM System.

    Args:
        system: The forces and constraints.
        topology: Atoms and bonds.
        positions: Structure in nm; the nearest energy minimum becomes the reference structure.
        name: Name of the molecule.

    Raises:
        InputError: The parts do not match.
    """
    atoms = topology.getNumAtoms()
    if system.getNumParticles() != atoms or positions.shape != (atoms, 3):
        raise InputError(
            f"expected a system and positions of the topology's {atoms} atoms, got {system.getNumParticles()} "
            f"particles and positions of shape {positions.shape}"
        )
    return Built(
        name=name,
        topology=from_openmm(topology),
        openmm_topology=topology,
        system=system,
        positions=minimise(system, np.asarray(positions, dtype=np.float64)),
        forcefield=(),
        constraints=Constraints.HBONDS if system.getNumConstraints() else Constraints.NONE,
    )


def build_from_file(path: Path, *, name: str) -> Built:
    """Build a small molecule from the SDF file of a run, with the structure that it has there.

    Args:
        path: SDF file that holds `Molecule.sdf`.
        name: Name of the molecule.
    """
    return _from_small(read_small(path, name=name), name)


def _from_small(small: Small, name: str) -> Built:
    return Built(
        name=name,
        topology=from_openmm(small.openmm_topology),
        openmm_topology=small.openmm_topology,
        system=small.system,
        positions=small.positions,
        forcefield=(MMFF94,),
        constraints=Constraints.NONE,
        stereo=small.stereo,
        sdf=small.sdf,
        charge=small.charge,
    )


def _peptide(text: str) -> Peptide:
    """Parse a sequence; text that is not in capitals and near the name of a system is that name, misspelt."""
    names = [name for entry in SYSTEMS for name in (entry.name, entry.alias)]
    near = difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.7)
    if near and not text.isupper():
        # Before it is parsed: lower-case letters between dashes are D-residues.
        raise InputError(f"unknown system {text!r}; did you mean {near[0]!r}?")
    try:
        return parse_sequence(text)
    except InputError as error:
        if not has_rdkit():
            # Which of the two it is, only RDKit could say.
            raise InputError(f'{error}; a SMILES needs RDKit: pip install "boltzport[smiles]"') from error
        if not re.fullmatch(r"[A-Z-]*", text):
            raise InputError(f"{text!r} is not a system, a file or a SMILES, and not a sequence: {error}") from error
        raise
