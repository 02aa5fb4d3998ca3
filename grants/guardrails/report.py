"""Write violations as text, JSON or SARIF 2.1.0, one after the other, in bounded memory."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from entities.vocabulary import quantity
from grants.guardrails.evaluation import Violation
from grants.guardrails.rules import Rule
from grants.models import Enforcement, GuardrailException
from grants.policies.times import format_time

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF_LEVELS = {Enforcement.BLOCK: "error", Enforcement.WARN: "warning"}


@dataclass(slots=True)
class Report:
    """The violations of guardrails, and the exceptions that accept them.

    rules: the evaluated ones, by name. no_match: why some of them match nothing now. file: the name of the document
    that was checked, and `lines` the numbers of the lines of its guardrails; for SARIF. open_count: the number of violations that no exception accepts; it is
    complete after the last piece of the output.
    """

    rules: Mapping[str, Rule]
    rows: Iterable[tuple[Violation, GuardrailException | None]]
    no_match: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    lines: Mapping[str, int] | None = None
    open_count: int = 0
    accepted_count: int = 0

    def text(self) -> Iterator[str]:
        """Yield one line for each violation and each rule that matches nothing, and a last line with their numbers."""
        for row, exception in self._count_rows():
            level = self.rules[row.guardrail].level
            end = f" (exception until {format_time(exception.valid_until)})" if exception else ""
            yield f"{level}: {row.guardrail}: {row.sentence()}{end}\n"
        for name, reason in self.no_match.items():
            yield f"note: {name}: {reason}\n"
        checked = quantity(len(self.rules), "guardrail", "guardrails")
        if not self.open_count:
            yield f"{checked} checked: all hold{self._accepted_note}\n"
            return
        yield f"{checked} checked: {quantity(self.open_count, 'violation', 'violations')}{self._accepted_note}\n"

    def json(self) -> Iterator[str]:
        """Yield a JSON object with the rows of the analysis `guardrails`."""
        yield '{"violations":['
        for number, (row, exception) in enumerate(self._count_rows()):
            members: dict[str, object] = {**row._asdict(), "level": str(self.rules[row.guardrail].level)}
            if exception is not None:
                members["accepted_until"] = format_time(exception.valid_until)
            yield f"{',' if number else ''}\n{_json(members)}"
        yield (
            f'\n],"guardrails":{len(self.rules)},"count":{self.open_count},"accepted":{self.accepted_count}'
            f',"holds":{"false" if self.open_count else "true"},"no_match":{_json(self.no_match)}}}\n'
        )

    def sarif(self) -> Iterator[str]:
        """Yield a SARIF log: a rule for each guardrail, a result for each violation. An exception suppresses it. A rule that
        matches nothing has a notification.
        """
        rules = [
            {
                "id": name,
                "shortDescription": {"text": f"{name} {rule.sentence}"},
                "defaultConfiguration": {"level": _SARIF_LEVELS[rule.level]},
                **({"help": {"text": rule.reason}} if rule.reason else {}),
            }
            for name, rule in self.rules.items()
        ]
        positions = {name: position for position, name in enumerate(self.rules)}
        notifications = [
            {"level": "note", "message": {"text": reason}, "associatedRule": {"id": name}}
            for name, reason in self.no_match.items()
        ]
        invocation = {"executionSuccessful": True, "toolExecutionNotifications": notifications}
        driver = {"name": "check_guardrails", "rules": rules}
        yield (
            f'{{"$schema":{_json(SARIF_SCHEMA)},"version":"2.1.0","runs":[{{"tool":{{"driver":{_json(driver)}}},'
            f'"invocations":[{_json(invocation)}],"results":['
        )
        for number, (row, exception) in enumerate(self._count_rows()):
            yield f"{',' if number else ''}\n{_json(self._result(row, exception, positions))}"
        yield "\n]}]}\n"

    def _result(
        self, row: Violation, exception: GuardrailException | None, positions: Mapping[str, int]
    ) -> dict[str, object]:
        location: dict[str, object] = {
            "logicalLocations": [{"fullyQualifiedName": row.entity, "kind": "resource"}]
        }
        if self.file:
            line = (self.lines or {}).get(row.guardrail, 1)
            location["physicalLocation"] = {
                "artifactLocation": {"uri": self.file},
                "region": {"startLine": line},
            }
        result: dict[str, object] = {
            "ruleId": row.guardrail,
            "ruleIndex": positions[row.guardrail],
            "level": _SARIF_LEVELS[self.rules[row.guardrail].level],
            "message": {"text": row.sentence()},
            "locations": [location],
            "partialFingerprints": {"violation/v1": " ".join(filter(None, row.key))},
            "properties": row._asdict(),
        }
        if exception is not None:
            result["suppressions"] = [{"kind": "external", "justification": exception.reason}]
        return result

    def _count_rows(self) -> Iterator[tuple[Violation, GuardrailException | None]]:
        for row, exception in self.rows:
            if exception is None:
                self.open_count += 1
            else:
                self.accepted_count += 1
            yield row, exception

    @property
    def _accepted_note(self) -> str:
        return f"; exceptions accept {self.accepted_count:,}" if self.accepted_count else ""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
