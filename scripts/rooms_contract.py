"""The import rule of the house, as an import-linter contract.

import-linter's own contract types speak of orders and of forbidden pairs; our rule is a table: each room names the
rooms that it may import, and may then also import what those may import. A room that the table does not name breaks
the contract, so a new room starts with its line in ``pyproject.toml``. A named room may be yet unbuilt.
The package's own ``__init__`` imports no room, so that importing one room never loads another.
"""

from collections.abc import Iterable

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class RoomsContract(Contract):
    """``rooms`` holds lines of the form ``room: allowed allowed ...``, lower rooms first."""

    type_name = "rooms"

    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        root = self.session_options["root_packages"][0]
        allowed = allowed_imports(list(self.rooms))  # pyright: ignore[reportArgumentType, reportCallIssue]
        violations = sorted(find_violations(graph, root, allowed))
        return ContractCheck(kept=not violations, metadata={"violations": violations})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for violation in check.metadata["violations"]:
            output.print_error(violation)
        output.new_line()


def allowed_imports(lines: Iterable[str]) -> dict[str, frozenset[str]]:
    """What each room may import, the rooms below its direct ones included."""
    allowed: dict[str, frozenset[str]] = {}
    for line in lines:
        room, separator, names = line.partition(":")
        below = names.split()
        unknown = [name for name in below if name not in allowed]
        if not separator or unknown:
            raise ValueError(f"{line!r} is not 'room: allowed ...' with each allowed room on a line above")
        allowed[room.strip()] = frozenset(below).union(*(allowed[name] for name in below))
    return allowed


def find_violations(graph: ImportGraph, root: str, allowed: dict[str, frozenset[str]]) -> Iterable[str]:
    """One sentence for each import that the table does not allow, and for each room that it does not name."""
    for module in graph.modules:
        room = room_of(module, root)
        if room not in allowed and module == f"{root}.{room}":
            yield f"{module} has no line in the table of rooms"
        for imported in graph.find_modules_directly_imported_by(module):
            target = room_of(imported, root)
            if target not in {"", room} and target not in allowed.get(room, frozenset()):
                details = graph.get_import_details(importer=module, imported=imported)
                lines = ", ".join(str(detail["line_number"]) for detail in details)
                yield f"{module} (line {lines}) may not import {imported}"


def room_of(module: str, root: str) -> str:
    """The room that a module lies in; empty for the root package itself."""
    return module.removeprefix(root).removeprefix(".").partition(".")[0]
