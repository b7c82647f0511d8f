"""The resolved configuration of a run, as a TOML file."""

import dataclasses
import tomllib
import typing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w

from boltzport.errors import InputError
from boltzport.flow import FlowConfig
from boltzport.methods import MethodConfig, method_entry
from boltzport.run.presets import LayoutKind
from boltzport.rundir import write_atomically

T = TypeVar("T")


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
        flow: Size of the flow.
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
        record: dict[str, Any] = {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name not in ("molecule", "flow", "settings")
        }
        if self.kind == "molecule":
            record["molecule"] = _plain(dataclasses.asdict(self.molecule))
        record["flow"] = _plain(dataclasses.asdict(self.flow))
        record["settings"] = _plain(dataclasses.asdict(self.settings))
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
            return cls(
                **record | {"layout": LayoutKind(record["layout"])},
                molecule=_record(MoleculeConfig, molecule),
                flow=_record(FlowConfig, flow),
                settings=_record(method_entry(record["method"]).config, settings),
            )
        except FileNotFoundError:
            raise InputError(f"no such file: {path}; expected the configuration of a run") from None
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a configuration of this version: {error}") from error


def _record(kind: type[T], values: dict[str, Any]) -> T:
    """A dataclass from TOML's own types: enumerations and tuples are made of them again."""
    hints = typing.get_type_hints(kind)
    made: dict[str, Any] = {}
    for name, value in values.items():
        hint = hints.get(name)
        if isinstance(hint, type) and issubclass(hint, Enum):
            made[name] = hint(value)
        else:
            made[name] = tuple(value) if isinstance(value, list) else value
    return kind(**made)


def _plain(value: Any) -> Any:
    """TOML's own types; None is left out."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value
