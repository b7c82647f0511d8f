"""Systems to train on: `boltzport systems` and `boltzport inspect`."""

from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from boltzport.cli.app import app
from boltzport.cli.options import Json, MoleculeOptions, Threads
from boltzport.cli.printing import print_json, short
from boltzport.core.devices import use_threads
from boltzport.core.preset import Preset


@app.command
def systems(*, json: Json = False) -> None:
    """List the named systems with their size, force field, and the quality of the trained flow that ships.

    Args:
        json: Print one JSON object instead of a table.
    """
    from boltzport.experiments import named_systems
    from boltzport.targets import TOYS

    with Console(stderr=True).status("building molecules"):
        found = named_systems()
    if json:
        print_json({"systems": [asdict(entry) for entry in found]})
        return
    headings = ("system", "alias", "atoms", "3N-6", "flow", "force field, constraints", "trained flow")
    table = Table(*(Column(name, no_wrap="force" not in name) for name in headings), box=None)
    for entry in found:
        sizes = (str(number) for number in (entry.atoms, entry.dimension, entry.flow_dimension))
        ess, unclipped = (None if entry.trained is None else entry.trained[name] for name in ("ess", "ess_unclipped"))
        quality = "-" if ess is None else f"ESS {ess:.1%}\n({unclipped:.1%})"
        field = f"{short(entry.forcefield)}, {entry.constraints}"
        table.add_row(entry.system, entry.alias, *sizes, field, quality)
    Console().print(table)
    Console(soft_wrap=True).print("In brackets: the ESS without clipping the largest weights.", highlight=False)
    words = "Any sequence (ELIL, ACE-ALA-NME), SMILES (CC(=O)N), PDB, SDF or MOL2 file is a system too."
    Console(soft_wrap=True).print(words, highlight=False)
    Console(soft_wrap=True).print(f"Toys to train on: {', '.join(TOYS)}.", highlight=False)


@app.command
def inspect(
    system: str,
    /,
    *,
    preset: Preset = Preset.LAPTOP,
    options: MoleculeOptions | None = None,
    pdb: Path | None = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Show what would be trained: coordinates, constraints, chirality and flow.

    Args:
        system: Name of a system, a sequence such as ELIL or ACE-ALA-NME, a PDB file with hydrogens, an SDF or MOL2
            file, or a SMILES (smiles:CCCC if it could be a sequence).
        preset: Preset of the flow.
        options: Options of the molecule.
        pdb: Also write the reference structure to this PDB file.
        threads: Number of threads; torch's choice by default.
        json: Print one JSON object instead of a table.
    """
    from boltzport.experiments import inspect_molecule

    use_threads(threads)
    options = options or MoleculeOptions()
    molecule = options.load(system)
    with Console(stderr=True).status(f"inspecting {escape(system)}"):
        found = inspect_molecule(molecule, preset, energy=options.energy)
    if pdb is not None:
        molecule.write_pdb(pdb)
    if json:
        print_json(found.to_dict())
        return
    table = Table(show_header=False, box=None)
    table.add_row("system", found.system)
    table.add_row("sequence", found.sequence)
    table.add_row("atoms", str(found.atoms))
    table.add_row("force field", f"{short(found.forcefield)}, constraints {found.constraints}")
    table.add_row("energy", found.energy)
    table.add_row("temperature", f"{found.temperature:g} K")
    kinds = f"{found.bonds} bonds + {found.angles} angles + {found.torsions} torsions"
    table.add_row("dimension", f"{found.dimension} = {kinds}")
    table.add_row("flow dimension", f"{found.flow_dimension} ({found.constrained_bonds} bonds are constrained)")
    size = f"{found.flow_parameters:,} parameters, {found.circles} circles"
    table.add_row("flow", f"{found.flow_kind}, {size} (preset {found.preset})")
    table.add_row("free torsions", str(found.free_torsions))
    table.add_row("chiral centres", ", ".join(found.chiral_centres) or "none")
    hands = [f"{label} {hand}" for label, hand in found.handedness.items()]
    table.add_row("handedness", ", ".join(hands) or "none")
    amides = [f"{residues} {kind}" for residues, kind in found.amides.items()]
    table.add_row("peptide bonds", ", ".join(amides) or "none")
    groups = [f"{group.centre} {group.kind}" for group in found.permutation_groups]
    table.add_row("order kept in", ", ".join(groups) or "none")
    named = [f"{name} {value:.0f}°" for name, value in found.named_torsions.items()]
    table.add_row("torsions by name", ", ".join(named) or "none")
    table.add_row("reference energy", f"{found.reference_energy:.3f} kJ/mol")
    table.add_row("parity", found.parity)
    for note in found.notes:
        table.add_row("note", note)
    # File names may contain what looks like markup.
    Console(markup=False).print(table, highlight=False)
