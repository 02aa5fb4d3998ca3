"""Test that an import refuses bad lines and names every fault."""

import tomllib
from pathlib import Path

import pytest

from entities.vocabulary import Privilege
from grants.strict_json import MAX_DIGITS, MAX_NESTING
from grants.tenant import import_document
from grants.tenant.reading import MAX_LINE_BYTES, BadTenantDocument
from tests.support.tenant_documents import (
    AUTHOR,
    entity,
    grant,
    group,
    import_lines,
    refused_import,
    user,
)

pytestmark = pytest.mark.django_db

CASES = tomllib.loads((Path(__file__).parents[2] / "cases" / "tenant_bad_lines.toml").read_text())["case"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_bad_line_is_reported_with_number_field_and_reason(case):
    refusal = refused_import(user("ada"), "", case["line"], entity("namespace:fine"))
    (fault,) = refusal.faults
    assert (fault.line, fault.field) == (3, case["field"])
    assert case["reason"].replace("{privileges}", ", ".join(Privilege)) in fault.reason
    assert str(refusal).endswith("1 bad line; nothing was written")


@pytest.mark.parametrize(
    "content, reason",
    [
        (b'{"type":"user","name":"b\xe9atrice"}', "it is not UTF-8: byte 25 cannot be read"),
        ('{"type":"user","name":"ada"}'.encode("utf-16"), "it is not UTF-8: byte 1 cannot be read"),
        (b"[" * 100_000, "it is nested too deeply: 64 levels are allowed"),
        (b'{"type":' * 100_000, "it is nested too deeply: 64 levels are allowed"),
        (
            b'{"type":"user","name":' + b"7" * 5_000 + b"}",
            "it is not acceptable JSON: it contains a number with 5,000 digits; 1,000 are allowed",
        ),
        (
            b'{"type":"user","name":' + b"7" * (MAX_DIGITS + 1) + b"}",
            "it is not acceptable JSON: it contains a number with 1,001 digits; 1,000 are allowed",
        ),
        (
            b'{"type":' + b"[" * MAX_NESTING + b"]" * MAX_NESTING + b"}",
            "it is nested too deeply: 64 levels are allowed",
        ),
        (b'{"type":"user","name":"' + b"n" * 10_000_000 + b'"}', "it is longer than 8 MB"),
        (b"n" * (MAX_LINE_BYTES + 1), "it is longer than 8 MB"),
    ],
    ids=[
        "latin-1",
        "utf-16",
        "brackets",
        "braces",
        "digits",
        "one-digit-too-many",
        "one-level-too-deep",
        "ten-megabytes",
        "one-byte-too-long",
    ],
)
def test_malformed_lines_are_refused(content, reason):
    refusal = refused_import(b'{"type":"user","name":"bob"}\n' + content + b'\n{"type":"user"}\n')
    assert (refusal.faults[0].line, refusal.faults[0].reason) == (2, reason)
    assert "line 3" in str(refusal)


def test_json_at_the_limits_is_parsed():
    deepest = b'{"type":' + b"[" * (MAX_NESTING - 1) + b"]" * (MAX_NESTING - 1) + b"}\n"
    longest = b'{"type":"user","name":' + b"7" * MAX_DIGITS + b"}\n"
    reasons = [fault.reason for fault in refused_import(deepest + longest).faults]
    assert reasons == ["it must be text, not a list", "it must be text, not a number"]


def test_a_line_of_the_maximum_length_is_read():
    line = b'{"type":"user","name":"bob"}'
    assert import_lines(line.ljust(MAX_LINE_BYTES) + b"\n").lines == 1


def test_a_very_long_line_is_not_kept_in_memory():
    class Endless:
        pieces = 100

        def readline(self, size):
            assert 0 < size <= MAX_LINE_BYTES + 1
            self.pieces -= 1
            return b"n" * size if self.pieces > 0 else b"n\n" if self.pieces == 0 else b""

    with pytest.raises(BadTenantDocument, match="line 1: it is longer than 8 MB"):
        import_document.import_tenant(stream=Endless(), author=AUTHOR)


def test_every_fault_of_a_line_is_reported():
    refusal = refused_import(
        {"type": "grant", "principal": "ada", "entity": "x", "privileges": [], "reason": 1, "why": 2}
    )
    assert [fault.field for fault in refusal.faults] == ["entity", "principal", "privileges", "reason", "why"]
    assert refusal.bad_lines == 1


def test_all_bad_lines_are_counted_and_the_first_hundred_shown():
    strangers = [grant(f"user:stranger{n}", "namespace:a", "READ") for n in range(70)]
    broken = [user("") for _ in range(70)]
    lines = [line for pair in zip(strangers, broken, strict=True) for line in pair]
    refusal = refused_import(user("ada"), *lines)
    assert [fault.line for fault in refusal.faults] == list(range(2, 102))
    assert refusal.bad_lines == 140
    assert str(refusal).splitlines()[-2:] == ["and 40 more bad lines", "140 bad lines; nothing was written"]


def test_a_principal_on_a_bad_line_is_not_reported_as_unknown_elsewhere():
    refusal = refused_import(
        user("ada", active="yes"),
        {"type": "group", "name": "g", "members": 1},
        grant("user:ada", "namespace:a", "READ"),
        grant("group:g", "namespace:a", "READ"),
        group("h", "ada"),
    )
    assert [fault.line for fault in refusal.faults] == [1, 2]


@pytest.mark.parametrize(
    "first, second",
    [
        (entity("namespace:a"), entity("namespace:a")),
        (entity("namespace:a"), entity("namespace:a", "deleted")),
        (user("ada"), user("ada", active=False)),
        (group("g"), group("g")),
    ],
)
def test_a_repeated_entity_user_or_group_is_refused(first, second):
    (fault,) = refused_import(first, user("other"), second).faults
    assert (fault.line, fault.reason) == (3, "it is listed twice: first on line 1")


def test_quoted_values_in_messages_are_short_and_printable():
    (fault,) = refused_import(entity("data\x1b[31m\ud800set:" + "x" * 10_000)).faults
    assert "surrogate" in fault.reason
    (fault,) = refused_import({"type": "user", "name": "ada", "\x1b[31m" + "x" * 10_000: 1}).faults
    assert len(str(fault)) < 300 and str(fault).isprintable()


def test_a_line_with_two_kinds_of_faults_counts_as_one_bad_line():
    with pytest.raises(BadTenantDocument) as refused:
        import_lines(group("analysts", "nobody", "nobody"), user("ada", active="yes"))
    assert refused.value.bad_lines == len({fault.line for fault in refused.value.faults})
