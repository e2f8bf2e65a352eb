"""A scenario as a value that can travel: its text and the files that it names.

A worker on another machine has neither; a task carries both and lays them out in a directory of its own. What a
scenario may say is described in ``docs/scenarios.md`` and checked by the simulator, not here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import ScenarioError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Scenario"]


@dataclass(frozen=True)
class Scenario:
    """A scenario, independent of where it came from. Equal if text, name and attachments are equal."""

    text: str
    """The TOML."""
    name: str = "scenario.toml"
    """The file's name: in errors, and what the results are called if the scenario has no ``name``."""
    attachments: tuple[tuple[str, bytes], ...] = ()
    """Files that it names (edge lists, traces), by the relative path by which it names them."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads the scenario at ``path`` and the files that it names by a relative path.

        Raises :class:`ScenarioError` if it, or one of them, cannot be read. TOML that is wrong is kept as it is: the
        simulator says where.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"cannot read the scenario {path}: {error}") from error
        return cls(text, path.name).attach(path.parent, _files_named_in(text))

    def attach(self, folder: Path, names: list[str]) -> Scenario:
        """The same scenario with the files ``names``, relative to ``folder``, added to its attachments.

        A name that is absolute is left alone: that file must be wherever the scenario runs.
        """
        attachments = dict(self.attachments)
        for name in names:
            if PurePosixPath(name).is_absolute():
                continue
            try:
                attachments[name] = (folder / name).read_bytes()
            except OSError as error:
                raise ScenarioError(f"{self.name} names the file {name!r}: {error}") from error
        return Scenario(self.text, self.name, tuple(sorted(attachments.items())))

    def lay_out(self, folder: Path) -> Path:
        """Writes scenario and attachments below ``folder`` so that their relative paths hold; the scenario's path.

        The scenario lies as deep as its names climb: ``../edges.txt`` stays inside ``folder``.
        """
        climbs = [PurePosixPath(os.path.normpath(name)).parts.count("..") for name, _ in self.attachments]
        home = folder.joinpath(*["in"] * max(climbs, default=0))
        for name, content in self.attachments:
            target = Path(os.path.normpath(home / name))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        home.mkdir(parents=True, exist_ok=True)
        path = home / self.name
        path.write_text(self.text, encoding="utf-8")
        return path


def _files_named_in(text: str) -> list[str]:
    """The values of the keys ``file``, wherever they are."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return []
    names: list[str] = []
    _collect_files(document, names)
    return names


def _collect_files(value: Any, names: list[str]) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "file" and isinstance(item, str):
                names.append(item)
            else:
                _collect_files(item, names)
    elif isinstance(value, list):
        for item in value:
            _collect_files(item, names)
