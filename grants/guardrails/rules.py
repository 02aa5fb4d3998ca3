"""Parse guardrails: the members of a tenant document, a request or a form, and what they mean.

A rule names only what the console has: groups, users and places. Its text form is canonical, so that two rules
with the same meaning have the same text.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import QuerySet

from entities.address import Address, AddressError, ancestor_kinds, parse_address
from entities.frozen import frozen
from entities.services import instance_fault
from entities.text import storage_fault
from entities.vocabulary import KINDS, Privilege, VocabularyError, clip, privilege_by_name
from grants.errors import GuardrailError, PrincipalError
from grants.models import GROUP, USER, Enforcement, Form, Guardrail, GuardrailException, privilege_of
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import EntitiesWithoutPrivilege, Facts, is_permitted
from grants.policies.principals import is_group_text, principal_text, type_and_name, written_subject
from grants.policies.question import Question, QuestionError, question_from_json
from grants.policies.times import format_time
from grants.principal_names import MAX_REASON_CHARACTERS, parse_principal

MAX_HOLDERS = 1_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
_KIND_PREFIX = "kind:"
# the parser of questions needs a generation; the rule does not use it
_ANY_GENERATION = "core"


@frozen
class Clause:
    """Privileges in one place. kind, key: of its address; the key is empty for all entities of the kind."""

    privileges: tuple[Privilege, ...]
    kind: str
    key: str = ""

    @property
    def place(self) -> str:
        return f"{self.kind}:{self.key}" if self.key else f"{_KIND_PREFIX}{self.kind}"


@frozen
class Rule:
    """What a guardrail says. principal: the group or the subject that it is about; empty for everybody."""

    form: Form
    clauses: tuple[Clause, ...]
    principal: str = ""
    at_least: int = 0
    action: str = ""
    decision: bool = True
    level: Enforcement = Enforcement.BLOCK
    reason: str = ""

    @property
    def members(self) -> dict[str, Any]:
        """The members of a line of a tenant document, without its type and name."""
        members: dict[str, Any] = {str(self.form): FORMS[self.form].write(self)}
        if self.form == Form.EXPECT:
            members["decision"] = self.decision
        members["level"] = str(self.level)
        return {**members, "reason": self.reason} if self.reason else members

    @property
    def text(self) -> str:
        """The members as canonical JSON."""
        return _as_text(self.members)

    @property
    def text_without_principal(self) -> str:
        """The text for journal lines. They store the principal in another column, because it can be renamed."""
        members = self.members
        if self.form == Form.FORBID:
            members["forbid"].pop("members_of", None)
        elif self.form == Form.EXPECT:
            del members["expect"]["subject"]
        return _as_text(members)

    @property
    def sentence(self) -> str:
        """The rule in words, as the end of a sentence that begins with its name."""
        first = self.clauses[0]
        match self.form:
            case Form.FORBID:
                who = f"members of {self.principal}" if self.principal else "everybody"
                return f"forbids {who} {_words(first.privileges)} within {first.place}"
            case Form.FORBID_BOTH:
                return "forbids one person " + " together with ".join(
                    f"{_words(clause.privileges)} within {clause.place}" for clause in self.clauses
                )
            case Form.REQUIRE:
                return f"requires at least {self.at_least:,} holders of {first.privileges[0]} on each {first.kind}"
        answer = "permitted" if self.decision else "denied"
        return f"expects that {self.principal} is {answer} `{self.action}` on {first.place}"

    def question(self, generation: str) -> Question:
        """Return the question of an expected decision."""
        subject_type, subject = parse_principal(self.principal)
        clause = self.clauses[0]
        return Question(subject_type, subject, self.action, Address(clause.kind, clause.key), generation)


def check_guardrail_name(name: object) -> str:
    """Return the name. Raise GuardrailError if a guardrail cannot have it."""
    if not isinstance(name, str):
        raise GuardrailError("it must be text", field="name")
    if not _NAME.fullmatch(name):
        raise GuardrailError(
            f"`{clip(name)}` is not a name of a guardrail: use 1 to 100 letters, digits, dots, `-` and `_`",
            field="name",
        )
    return name


def rule_from_text(text: str, principal: str = "") -> Rule:
    """Return the rule with this text, or with this `text_without_principal` and this principal. Raise GuardrailError if there
    is none.
    """
    try:
        members = json.loads(text)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        raise GuardrailError("this is not a guardrail")
    if principal and isinstance(body := members.get("forbid"), dict):
        body["members_of"] = principal
    elif principal and isinstance(body := members.get("expect"), dict):
        body["subject"] = _subject(principal)
    return rule_from_members(members)


def rule_from_members(members: dict[str, Any]) -> Rule:
    """Return the rule in the members of an object, without its type and name.

    Raise GuardrailError with the member at fault. Runs no query.
    """
    forms = [form for form in Form if form in members]
    if len(forms) != 1:
        found = " and ".join(f"`{form}`" for form in forms) or "none of them"
        raise GuardrailError(
            f"it needs exactly one of {', '.join(f'`{form}`' for form in Form)}, and has {found}",
            field=str(forms[1]) if forms else "",
        )
    form = forms[0]
    _allow_only(members, "", str(form), "level", "reason", *(["decision"] if form == Form.EXPECT else []))
    level = members.get("level", str(Enforcement.BLOCK))
    if level not in Enforcement.values:
        raise GuardrailError(f"`{clip(level)}` is not one of {', '.join(Enforcement.values)}", field="level")
    reason = members.get("reason", "")
    if not isinstance(reason, str):
        raise GuardrailError("it must be text", field="reason")
    if fault := storage_fault(reason, MAX_REASON_CHARACTERS):
        raise GuardrailError(fault, field="reason")
    decision = members.get("decision", True)
    if not isinstance(decision, bool):
        raise GuardrailError("it must be true or false", field="decision")
    return FORMS[form].read(
        members[form], {"level": Enforcement(level), "reason": reason, "decision": decision}
    )


def rule_of(guardrail: Guardrail) -> Rule:
    """Return the rule of a stored guardrail. Its clauses, user and group are read, unless they are prefetched."""
    by_side: dict[int, list] = {}
    for clause in sorted(guardrail.clauses.all(), key=lambda clause: clause.side):
        by_side.setdefault(clause.side, []).append(clause)
    clauses = tuple(
        Clause(
            _in_order(privilege_of(row.permission_id) for row in rows if row.permission_id is not None),
            rows[0].kind,
            rows[0].key,
        )
        for rows in by_side.values()
    )
    return Rule(
        Form(guardrail.form),
        clauses,
        guardrail.principal,
        guardrail.at_least,
        guardrail.action,
        guardrail.decision,
        Enforcement(guardrail.level),
        guardrail.reason,
    )


def with_rules(guardrails: QuerySet[Guardrail]) -> QuerySet[Guardrail]:
    """Return the guardrails with what `rule_of` reads. Runs one more query."""
    return guardrails.select_related("user", "group").prefetch_related("clauses")


def exception_text(exception: GuardrailException) -> str:
    """Return the end and the owner of an exception, for its journal lines."""
    return f"until {format_time(exception.valid_until)}, owner {exception.owner}"


def contradiction(name: str, rule: Rule, others: Iterable[tuple[str, Rule]]) -> str:
    """Return why the rule cannot hold together with one of the other rules; empty if it can. others: by name."""
    for other_name, other in others:
        if other_name == name:
            continue
        if _same_question(rule, other) and rule.decision != other.decision:
            return f"it contradicts guardrail {other_name}, which expects the opposite decision"
        for demands, forbids in ((rule, other), (other, rule)):
            if _is_impossible_pair(demands, forbids) or (
                not forbids.principal and is_unreachable(demands, forbids, GENERATIONS)
            ):
                return (
                    f"it contradicts guardrail {other_name}, which {other.sentence}: no grant can meet both"
                )
    return ""


def _same_question(rule: Rule, other: Rule) -> bool:
    return rule.form == other.form == Form.EXPECT and (rule.principal, rule.action, rule.clauses) == (
        other.principal,
        other.action,
        other.clauses,
    )


def _is_impossible_pair(requires: Rule, forbids: Rule) -> bool:
    """Return whether one rule requires holders that the other one forbids to everybody."""
    if requires.form != Form.REQUIRE or forbids.form != Form.FORBID or forbids.principal:
        return False
    required, forbidden = requires.clauses[0], forbids.clauses[0]
    return required.privileges[0] in forbidden.privileges and (
        forbidden.kind == required.kind or forbidden.kind in ancestor_kinds(required.kind)
    )


def is_unreachable(expects: Rule, forbids: Rule, generations: Iterable[str]) -> bool:
    """Return whether one rule expects that a user is permitted something, and the other one forbids all that would permit
    it, in each of these generations. Whether the other one is about this user does not matter.
    """
    if expects.form != Form.EXPECT or not expects.decision or forbids.form != Form.FORBID:
        return False
    target, place = (Address(rule.clauses[0].kind, rule.clauses[0].key) for rule in (expects, forbids))
    if not expects.principal.startswith(f"{USER.name}:") or place not in (target, *target.ancestors):
        return False
    questions = list(map(expects.question, generations))

    def is_permitted_with(facts: Facts) -> bool:
        return any(is_permitted(question, facts) for question in questions)

    return is_permitted_with(_AllHeld()) and not is_permitted_with(_AllHeld(forbids.clauses[0]))


class _AllHeld:
    """The facts about a subject who holds every privilege except those of a clause; see `grants.policies.decide.Facts`.

    No live entity is inside a container, because none may exist.
    """

    is_subject_known = True

    def __init__(self, forbidden: Clause | None = None):
        self._forbidden = forbidden.privileges if forbidden else ()
        self._place = Address(forbidden.kind, forbidden.key) if forbidden else None

    def privileges_on(self, address: Address) -> dict[Privilege, str]:
        is_inside = self._place in (address, *address.ancestors)
        return {privilege: "" for privilege in Privilege if not (is_inside and privilege in self._forbidden)}

    def has_grant_at_or_below(self, address: Address) -> bool:
        return bool(self.privileges_on(address))

    def grant_at_or_below(self, address: Address) -> None:
        return None

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        return EntitiesWithoutPrivilege(is_empty=True)


@frozen
class _FormOfRule:
    """How the member of one form is read and written. read: gets its value, and the other attributes of the rule."""

    read: Callable[[object, dict[str, Any]], Rule]
    write: Callable[[Rule], Any]


def _read_forbid(value: object, others: dict[str, Any]) -> Rule:
    body = _object(value, "forbid")
    _allow_only(body, "forbid", "members_of", "privileges", "within")
    principal = ""
    if "members_of" in body:
        principal = _principal(body["members_of"], "forbid.members_of")
        if not is_group_text(principal):
            raise GuardrailError(f"{clip(principal)} has no members: name a group", field="forbid.members_of")
    listed = body.get("privileges")
    if not isinstance(listed, list) or not listed:
        raise GuardrailError(f"list at least one of {', '.join(Privilege)}", field="forbid.privileges")
    privileges = _in_order(_privilege(entry, "forbid.privileges") for entry in listed)
    place = _address(body, "forbid")
    return Rule(Form.FORBID, (Clause(privileges, place.kind, place.key),), principal, **others)


def _write_forbid(rule: Rule) -> dict[str, Any]:
    clause = rule.clauses[0]
    members = {"members_of": rule.principal} if rule.principal else {}
    return {**members, "privileges": list(map(str, clause.privileges)), "within": clause.place}


def _read_forbid_both(value: object, others: dict[str, Any]) -> Rule:
    if not isinstance(value, list) or len(value) != 2:
        raise GuardrailError("it must be a list of two objects", field="forbid_both")
    clauses = []
    for position, entry in enumerate(value):
        field = f"forbid_both[{position}]"
        body = _object(entry, field)
        _allow_only(body, field, "privilege", "within")
        place = _address(body, field)
        clauses.append(
            Clause((_privilege(body.get("privilege"), f"{field}.privilege"),), place.kind, place.key)
        )
    if clauses[0] == clauses[1]:
        raise GuardrailError(
            "both entries are the same: forbid one privilege with `forbid`", field="forbid_both[1]"
        )
    return Rule(Form.FORBID_BOTH, tuple(clauses), **others)


def _write_forbid_both(rule: Rule) -> list[dict[str, Any]]:
    return [{"privilege": str(clause.privileges[0]), "within": clause.place} for clause in rule.clauses]


def _read_require(value: object, others: dict[str, Any]) -> Rule:
    body = _object(value, "require")
    _allow_only(body, "require", "privilege", "on", "at_least")
    privilege, on = _privilege(body.get("privilege"), "require.privilege"), body.get("on")
    kind = on.removeprefix(_KIND_PREFIX).lower() if isinstance(on, str) else ""
    if not isinstance(on, str) or not on.startswith(_KIND_PREFIX) or kind not in KINDS:
        raise GuardrailError(
            f"`{clip(on)}` is not a kind such as `kind:namespace`; the kinds are {', '.join(KINDS)}",
            field="require.on",
        )
    at_least = body.get("at_least")
    if not isinstance(at_least, int) or isinstance(at_least, bool) or not 1 <= at_least <= MAX_HOLDERS:
        raise GuardrailError(f"it must be a number from 1 to {MAX_HOLDERS:,}", field="require.at_least")
    return Rule(Form.REQUIRE, (Clause((privilege,), kind),), at_least=at_least, **others)


def _write_require(rule: Rule) -> dict[str, Any]:
    clause = rule.clauses[0]
    return {"privilege": str(clause.privileges[0]), "on": clause.place, "at_least": rule.at_least}


def _read_expect(value: object, others: dict[str, Any]) -> Rule:
    body = _object(value, "expect")
    _allow_only(body, "expect", "subject", "action", "resource")
    try:
        question = question_from_json(body, active_generation=_ANY_GENERATION)
    except QuestionError as error:
        raise GuardrailError(str(error), field="expect") from None
    if question.target is None:
        raise GuardrailError(question.unknown_reason, field="expect")
    principal = _principal(question.principal, "expect.subject")
    clause = Clause((), question.target.kind, question.target.key)
    return Rule(Form.EXPECT, (clause,), principal, action=question.operation, **others)


def _subject(principal: str) -> dict[str, str]:
    return dict(zip(("type", "id"), written_subject(*type_and_name(principal)), strict=True))


def _write_expect(rule: Rule) -> dict[str, Any]:
    clause = rule.clauses[0]
    return {
        "subject": _subject(rule.principal),
        "action": {"name": rule.action},
        "resource": {"type": clause.kind, "id": clause.key},
    }


FORMS = {
    Form.FORBID: _FormOfRule(_read_forbid, _write_forbid),
    Form.FORBID_BOTH: _FormOfRule(_read_forbid_both, _write_forbid_both),
    Form.REQUIRE: _FormOfRule(_read_require, _write_require),
    Form.EXPECT: _FormOfRule(_read_expect, _write_expect),
}


def _as_text(members: dict[str, Any]) -> str:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def _words(privileges: Iterable[Privilege]) -> str:
    return " or ".join(privileges)


def _in_order(privileges: Iterable[Privilege]) -> tuple[Privilege, ...]:
    found = set(privileges)
    return tuple(privilege for privilege in Privilege if privilege in found)


def _object(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise GuardrailError("it must be an object", field=field)
    return value


def _allow_only(body: dict[str, Any], path: str, *known: str) -> None:
    if unknown := next((member for member in body if member not in known), None):
        raise GuardrailError(
            f"`{clip(unknown, 40)}` is not a member of this object; its members are {', '.join(known)}",
            field=".".join(filter(None, (path, clip(unknown, 40)))),
        )


def _privilege(value: object, field: str) -> Privilege:
    try:
        return privilege_by_name(value)
    except VocabularyError as error:
        raise GuardrailError(str(error), field=field) from None


def _principal(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise GuardrailError("it must be text", field=field)
    try:
        principal_type, name = parse_principal(value)
    except PrincipalError as error:
        raise GuardrailError(str(error), field=field) from None
    if principal_type not in (USER.name, GROUP.name):
        raise GuardrailError(f"`{clip(value)}` is neither a user nor a group", field=field)
    return principal_text(principal_type, name)


def _address(body: dict[str, Any], path: str) -> Address:
    value, field = body.get("within"), f"{path}.within"
    if not isinstance(value, str):
        raise GuardrailError("it must be an address", field=field)
    try:
        address = parse_address(value)
    except AddressError as error:
        raise GuardrailError(str(error), field=field) from None
    if fault := instance_fault(address):
        raise GuardrailError(fault, field=field)
    return address
