"""Test plans from files of changes: CSV and JSON Lines, and the faults of files."""

import json

import pytest

from grants.errors import PlanError
from grants.models import Plan, User
from grants.plans.sources import change_file
from grants.plans.sources.change_file import COLUMNS, SAMPLES, BadChangeFile, file_plan
from tests.support.authors import COMMAND, all_grants, database_state, entity_states
from tests.support.changes import apply_plan, items_of, renew_plan

pytestmark = pytest.mark.usefixtures("cast")

ORDERS = "dataset:sales.orders"
HEADER = "verb,principal,entity,privilege\n"
GOOD = f"grant,user:out,{ORDERS},READ\nrevoke,user:ned,{ORDERS},ADMIN\ngrant,group:operators,dataset:sales.new,WRITE\n"
ITEMS = [
    ("grant", "user:out", ORDERS, "READ"),
    ("revoke", "user:ned", ORDERS, "ADMIN"),
    ("grant", "group:operators", "dataset:sales.new", "WRITE"),
]


def create(text, **options):
    raw = text if isinstance(text, bytes) else text.encode()
    return file_plan.create(author=COMMAND, raw=raw, **options)


def lines(rows=ITEMS):
    return "".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows)


def faults(text):
    with pytest.raises(BadChangeFile) as bad:
        create(text)
    assert not Plan.objects.exists()
    return [str(fault) for fault in bad.value.faults]


@pytest.mark.parametrize(
    "text",
    [
        HEADER + GOOD,
        (HEADER + GOOD).replace("\n", "\r\n"),
        (HEADER + GOOD).replace("\n", "\r"),
        "\ufeff" + HEADER + GOOD,
        HEADER.upper() + GOOD.strip(),
        "\n" + HEADER + "\n,,,\n" + GOOD + "\n\n",
        lines(),
        "\ufeff" + lines().replace("\n", "\r\n"),
        "\n" + lines().replace("\n", "\n\n"),
        "Principal , entity,privilege,verb\n" + "".join(f'"{p}", {e} , {r} , {v} \n' for v, p, e, r in ITEMS),
    ],
    ids=[
        "csv",
        "CRLF",
        "CR",
        "BOM",
        "capitals",
        "blank lines",
        "json",
        "json, BOM and CRLF",
        "json with blanks",
        "other order",
    ],
)
def test_csv_and_json_lines_create_the_same_plan(text):
    plan = create(text, name="changes.csv")
    assert items_of(plan) == ITEMS
    assert (plan.title, plan.recipe) == (
        "Grant 2 and revoke 1 from changes.csv",
        {"file": "changes.csv", "note": ""},
    )
    assert (plan.effect["grants"], plan.effect["revokes"], plan.effect["planned"]) == (2, 1, 1)


def test_a_plan_from_a_file_can_be_applied_and_renewed():
    plan = create(HEADER + GOOD)
    assert plan.title == "Grant 2 and revoke 1 from pasted text"
    assert items_of(renew_plan(plan)) == ITEMS
    again = Plan.objects.latest("pk")
    apply_plan(again)
    assert ("user:out", ORDERS, "READ") in all_grants() and entity_states()["dataset:sales.new"] == "planned"


def test_names_may_contain_commas_quotes_and_spaces():
    name = ' a, "b" '
    User.objects.create(username=name)
    quoted = 'grant,"user: a, ""b"" ",dataset:sales.orders,READ\n'
    assert items_of(create(HEADER + quoted)) == items_of(
        create(lines([("grant", f"user:{name}", ORDERS, "READ")]))
    )


def test_all_bad_lines_are_reported_and_no_plan_is_created():
    before = database_state()
    bad = (
        "give,user:out,dataset:sales.orders,READ",
        "grant,out,dataset:sales.orders,READ",
        "grant,user:out,dataset:x,READ",
        "grant,user:out,dataset:sales.orders,read",
        "grant,user:nobody,dataset:sales.orders,READ",
        "grant,user:out,instance:other,READ",
        "grant,user:out,dataset:sales.orders",
        ",,dataset:sales.orders,READ",
    )
    reported = faults(HEADER + GOOD + "\n".join(bad))
    lines_and_fields = [
        (fault.split(": ")[0], fault.split("`")[1] if fault.split(": ")[1].startswith("`") else "")
        for fault in reported
    ]
    assert lines_and_fields == [
        ("line 5", "verb"),
        ("line 6", "principal"),
        ("line 7", "entity"),
        ("line 8", "privilege"),
        ("line 9", "principal"),
        ("line 10", "entity"),
        ("line 11", ""),
        ("line 12", "verb"),
        ("line 12", "principal"),
    ]
    for words in (
        "`give` is not one of grant, revoke",
        "write user:NAME",
        "`dataset:x` lacks a part",
        "not one of READ, WRITE",
        "user:nobody does not exist: add it first",
        "3 values, but the header has 4",
    ):
        assert sum(words in fault for fault in reported) >= 1, words
    assert database_state() == before


def test_bad_lines_of_json_are_reported():
    further = lines().split("\n")[0][:-1] + ',"x":1}'
    bad = ["{", '{"verb":"grant"}', "[]", '{"verb":"grant","verb":"revoke"}', '{"verb":1}', further]
    reported = faults(lines() + "\n".join(bad))
    assert {fault.split(":")[0] for fault in reported} == {f"line {number}" for number in range(4, 10)}
    for words in (
        "is not JSON",
        "`principal`: it is missing",
        "must be a JSON object",
        "appears more than once",
        "not a number",
        "`x` is not a member of this line",
    ):
        assert any(words in fault for fault in reported), words


def test_json_beyond_the_limits_of_depth_and_digits_is_refused():
    deep, long = '{"verb":' + "[" * 64 + "]" * 64 + "}", '{"verb":' + "7" * 1_001 + "}"
    reported = faults(lines() + "\n".join([deep, long]))
    assert reported == [
        "line 4: it is nested too deeply: 64 levels are allowed",
        "line 5: it is not acceptable JSON: it contains a number with 1,001 digits; 1,000 are allowed",
    ]


def test_the_first_hundred_bad_lines_are_shown_and_all_are_counted():
    text = (
        HEADER
        + f"take,user:out,{ORDERS},READ\n" * 150
        + "".join(f"grant,user:x{n},{ORDERS},READ\n" for n in range(50))
    )
    with pytest.raises(
        BadChangeFile, match="200 bad lines, so no plan was created; the first is line 2: `verb`"
    ) as bad:
        create(text)
    assert (len(bad.value.faults), bad.value.bad_lines) == (100, 200)


def test_a_repeated_line_is_skipped_and_reported():
    plan = create(HEADER + GOOD + GOOD)
    assert items_of(plan) == ITEMS
    assert plan.recipe["note"] == "3 lines repeat earlier lines of the file and are skipped: lines 5, 6, 7."
    assert create(HEADER + GOOD + GOOD.split("\n")[0]).recipe["note"].endswith("and is skipped: line 5.")


def test_granting_and_revoking_the_same_privilege_is_a_fault():
    assert faults(HEADER + GOOD + f"revoke,user:out,{ORDERS},READ") == [
        "line 5: `verb`: it says revoke, and line 2 says grant, of the same principal, entity and privilege: keep one of the two"
    ]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("", "it lacks `verb`"),
        ("verb,principal,entity\n", "it lacks `privilege`"),
        (HEADER.replace(",", ";"), "not by semicolons"),
        (HEADER.replace(",", "\t"), "not by semicolons or tabs"),
        ("reason," + HEADER, "`reason` is none of these"),
        ("verb," + HEADER, "a column is repeated"),
    ],
)
def test_a_csv_file_needs_a_correct_header(header, words):
    (fault,) = faults(header + GOOD)
    assert (
        fault.startswith("line 1: the first line must be the header verb,principal,entity,privilege")
        and words in fault
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf \n", "the file is empty"),
        (HEADER.encode(), "a header but no changes"),
        ((HEADER + GOOD).encode("utf-16"), "the file is UTF-16: save it as UTF-8"),
        (b'[{"verb":"grant"}]', "the file is a JSON list: write one JSON object per line"),
        (b"x" * (change_file.MAX_FILE_BYTES + 1), "8.0 MB, and 8 MB are allowed"),
    ],
)
def test_an_unreadable_file_is_refused_with_a_reason(raw, words):
    with pytest.raises(PlanError, match=words):
        create(raw)
    assert not Plan.objects.exists()


def test_every_line_that_is_not_utf_8_is_reported():
    raw = (HEADER + f"grant,user:é,{ORDERS},READ\n" + GOOD + f"grant,user:ö,{ORDERS},READ\n").encode(
        "latin-1"
    )
    assert [fault.split(":")[0] for fault in faults(raw)] == ["line 2", "line 6"]


@pytest.mark.parametrize(
    "row", ['grant,"user:out" x,dataset:sales.orders,READ', f'grant,"{"x" * 200_000}",{ORDERS},READ']
)
def test_a_malformed_csv_row_is_reported_and_reading_continues(row):
    reported = faults(f"{HEADER}{row}\n{GOOD}give,user:out,{ORDERS},READ\n")
    assert reported[0].startswith("line 2: it is not CSV") and reported[-1].startswith("line 6: `verb`")


def test_an_unclosed_quote_is_reported_at_its_first_line():
    assert faults(f'{HEADER}{GOOD}grant,"user:out,{ORDERS},READ\n{GOOD}')[0].startswith(
        "line 5: it is not CSV"
    )


def test_more_changes_than_the_limit_of_a_plan_are_refused(monkeypatch):
    monkeypatch.setattr("grants.plans.sources.change_file.MAX_PLAN_ITEMS", 2)
    with pytest.raises(PlanError, match="the file contains 3 changes, and 2 are allowed in a plan: split it"):
        create(HEADER + GOOD)


@pytest.mark.parametrize("form", SAMPLES)
def test_the_samples_can_be_read(form):
    User.objects.create(username="sofia.lindqvist")
    reported = faults(SAMPLES[form])
    assert len(reported) == 1 and "group:contractors does not exist" in reported[0]
