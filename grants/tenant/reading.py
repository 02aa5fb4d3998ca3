"""Reads a tenant document: JSON Lines, UTF-8, one object a line, in any order.

A line is read in bounded memory, whatever its length. Validated lines are kept until the import: a document says in any
order what belongs together.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from grants.tenant.faults import Faults
from grants.tenant.lines import EntityLine, GrantLine, GroupLine, Line, UserLine, parse_line

# the members of one group stand on one line: 400,000 names of 20 characters fit
LONGEST_LINE_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Document:
    """The lines of a document by what they are about. grants: by address, in the order of the document."""

    entities: dict[str, EntityLine] = field(default_factory=dict)
    users: dict[str, UserLine] = field(default_factory=dict)
    groups: dict[str, GroupLine] = field(default_factory=dict)
    grants: dict[str, list[GrantLine]] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    lines: int = 0

    def add(self, line: Line, fault) -> None:
        match line:
            case GrantLine():
                self.grants.setdefault(line.address, []).append(line)
            case EntityLine():
                _keep(self.entities, line.address, line, "id", fault)
            case UserLine():
                _keep(self.users, line.name, line, "name", fault)
            case GroupLine():
                _keep(self.groups, line.name, line, "name", fault)


def _keep(kept: dict, name: str, line: Line, member: str, fault) -> None:
    first = kept.setdefault(name, line)
    if first is not line:
        fault(member, f"it is listed twice: first on line {first.line}")


def read_document(stream) -> Document:
    """Read and check every line of a binary stream. What is wrong stands in the document's `faults`."""
    document = Document()
    for number, raw in _lines(stream):
        if raw is not None and not raw.strip():
            continue
        document.lines += 1
        fault = partial(document.faults.add, number)
        line = parse_line(number, body, fault) if (body := parse_line_json(raw, fault)) is not UNREADABLE else None
        if line is not None:
            document.add(line, fault)
    return document


def _lines(stream) -> Iterator[tuple[int, bytes | None]]:
    """Every line with its number; None in place of one that is too long."""
    number = 0
    while raw := stream.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(_BOM)
        if len(raw) > LONGEST_LINE_BYTES and not raw.endswith(b"\n"):
            _skip_line(stream)
            raw = None
        yield number, raw


def _skip_line(stream) -> None:
    while (rest := stream.readline(LONGEST_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


class _Refused(ValueError):
    """JSON that the format does not allow."""


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict:
    body = dict(pairs)
    if len(body) != len(pairs):
        seen = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise _Refused(f"the member {json.dumps(twice[:80])} stands twice in one object")
    return body


def _no_constant(name: str) -> None:
    raise _Refused(f"{name} is not JSON")


UNREADABLE = object()
_decode = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_no_constant).decode


def parse_line_json(raw: bytes | None, fault) -> object:
    """What the line says; UNREADABLE where that is not JSON, of which `fault` is told."""
    if raw is None:
        fault("", f"it is longer than {LONGEST_LINE_BYTES // 1024 // 1024} MB")
        return UNREADABLE
    try:
        return _decode(raw.decode())
    except UnicodeDecodeError as error:
        fault("", f"byte {error.start + 1} is not UTF-8")
    except json.JSONDecodeError as error:
        fault("", f"it is not JSON: {error.msg} at character {error.colno}")
    except RecursionError:
        fault("", "it is nested too deeply")
    except _Refused as error:
        fault("", str(error))
    except ValueError:
        fault("", "it holds a number with too many digits")
    return UNREADABLE
