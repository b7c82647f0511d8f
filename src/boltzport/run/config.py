"""The resolved configuration of a run, as a TOML file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tomli_w

from boltzport.errors import InputError
from boltzport.flow import OLDEST, FlowConfig, flow_entry, flow_kind
from boltzport.methods import MethodConfig, method_entry
from boltzport.records import from_plain, to_plain
from boltzport.run.presets import LayoutKind
from boltzport.rundir import write_atomically


@dataclass(frozen=True, kw_only=True)
class MoleculeConfig:
    """How a molecule is made; see `boltzport.molecule.load`."""

    forcefield: tuple[str, ...] = ()
    constraints: str | None = None
    ph: float = 7.0
    temperature: float = 300.0


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All that decides a run.

    Attributes:
        system: What is sampled.
        kind: Whether that is a molecule or a toy.
        method: Name of the method.
        preset: Preset that the settings began with.
        seed: Of the one generator of the run.
        version: Of boltzport.
        command: What the user typed.
        layout: Base density.
        molecule: How the molecule is made.
        flow: Size of the flow, of the class of its kind.
        settings: Of the method.
    """

    system: str
    kind: Literal["molecule", "toy"]
    method: str
    preset: str
    seed: int
    version: str
    command: str
    layout: LayoutKind
    molecule: MoleculeConfig
    flow: FlowConfig
    settings: MethodConfig

    def save(self, path: Path) -> None:
        """Write a TOML file."""
        record = to_plain(self)
        if self.kind != "molecule":
            del record["molecule"]
        record["flow"] = {"kind": flow_kind(self.flow)} | record["flow"]
        write_atomically(path, lambda file: tomli_w.dump(record, file))

    @classmethod
    def load(cls, path: Path) -> "RunConfig":
        """Read what `save` wrote.

        Raises:
            InputError: The file is missing or is no such configuration.
        """
        try:
            record = tomllib.loads(path.read_text())
            flow, settings = record.pop("flow"), record.pop("settings")
            molecule = record.pop("molecule", {})
            kind = flow_entry(flow.pop("kind", OLDEST))
            return cls(
                **record | {"layout": LayoutKind(record["layout"])},
                molecule=from_plain(MoleculeConfig, molecule),
                flow=from_plain(kind.config, flow),
                settings=from_plain(method_entry(record["method"]).config, settings),
            )
        except FileNotFoundError:
            raise InputError(f"no such file: {path}; expected the configuration of a run") from None
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a configuration of this version: {error}") from error
