"""The resolved configuration of a run, as a TOML file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from boltzport.core.errors import InputError
from boltzport.core.files import write_atomically
from boltzport.core.layout import LayoutKind
from boltzport.core.records import from_plain, to_plain
from boltzport.flows import OLDEST, FlowConfig, flow_entry, flow_kind
from boltzport.training.methods import MethodConfig, method_entry

Kind = Literal["molecule", "toy", "density"]
"""Kind of the target."""


@dataclass(frozen=True, kw_only=True)
class MoleculeConfig:
    """How a molecule is built; see `boltzport.molecules.Molecule`.

    Attributes:
        forcefield: XML names or files; empty for those of the system.
        constraints: `none` or `hbonds`; None for those of the system.
        ph: pH that decides the protonation.
        temperature: Temperature in K.
        keep: Chains of a PDB file to keep; all atoms by default.
        add_hydrogens: Whether to add missing hydrogens to a PDB file.
        source: `system` if the molecule is an `openmm.System` of the user, which the run directory holds.
        energy: Name of the energy; None for the force field, `given` if it is the user's own, which no file can hold.
        energy_settings: Name and settings of the user's energy, as far as they are known.
    """

    forcefield: tuple[str, ...] = ()
    constraints: str | None = None
    ph: float = 7.0
    temperature: float = 300.0
    keep: tuple[str, ...] = ()
    add_hydrogens: bool = False
    source: str | None = None
    energy: str | None = None
    energy_settings: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run.

    Attributes:
        system: Name of the target.
        kind: Kind of the target: a molecule, a toy, or a density of the user.
        method: Name of the method.
        preset: Preset that the settings started from.
        seed: Seed of the random generator.
        version: Version of boltzport.
        command: Command line of the run; empty if it was started from Python.
        layout: Kind of coordinates and base density.
        molecule: How the molecule is built.
        flow: Size of the flow; its class decides the kind.
        settings: Settings of the method.
    """

    system: str
    kind: Kind
    method: str
    preset: str
    seed: int
    version: str
    command: str
    layout: LayoutKind
    molecule: MoleculeConfig
    flow: FlowConfig
    settings: MethodConfig

    def to_toml(self) -> str:
        """The configuration as TOML, with every default written out."""
        return tomli_w.dumps(self.to_record())

    def to_record(self) -> dict[str, Any]:
        """The configuration as plain values."""
        record = to_plain(self)
        if self.kind != "molecule":
            del record["molecule"]
        record["flow"] = {"kind": flow_kind(self.flow)} | record["flow"]
        return record

    def save(self, path: Path) -> None:
        """Write a TOML file."""
        write_atomically(path, lambda file: file.write(self.to_toml().encode()))

    @classmethod
    def load(cls, path: Path) -> "RunConfig":
        """Read what `save` wrote.

        Raises:
            InputError: The file is missing or not a configuration.
        """
        try:
            record = tomllib.loads(path.read_text())
            kind = flow_entry(record["flow"].pop("kind", OLDEST))
            parts = {
                "molecule": from_plain(MoleculeConfig, record.get("molecule", {})),
                "flow": from_plain(kind.config, record["flow"]),
                "settings": from_plain(method_entry(record["method"]).config, record["settings"]),
            }
            return from_plain(cls, record | parts)
        except FileNotFoundError:
            raise InputError(f"no such file: {path}; expected the configuration of a run") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} is not a configuration of this version: {error}") from error
