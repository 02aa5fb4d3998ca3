"""Test a deployment's own kinds of entity, which the general rules of each document decide."""

import pytest

from entities.address import AddressError, parse_address
from entities.kinds_file import register_kinds
from entities.models import State
from entities.vocabulary import KINDS, OperationClass, Privilege, VocabularyError
from grants.evaluation.engine import check
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import question_from_json
from tests.support.random_tenants import Tenant, store_tenant


def ask(subject, operation, address, **context):
    kind, _, key = address.partition(":")
    return check(
        question_from_json(
            {
                "subject": {"type": "user", "id": subject},
                "action": {"name": operation},
                "resource": {"type": kind, "id": key},
                "context": context,
            },
            active_generation="final",
        )
    )


def test_an_address_of_an_own_kind_has_a_parent_and_a_namespace(own_kinds):
    record, widget, probe = map(
        parse_address, ("record:record-1", "widget:sales.w.1", "probe:sales.orders.p1")
    )
    assert str(record.parent) == "instance:cdap" and record.namespace is None
    assert str(widget.parent) == "namespace:sales" and widget.name == "w.1"
    assert str(probe.parent) == "application:sales.orders" and str(probe.namespace) == "namespace:sales"
    with pytest.raises(AddressError, match="the probe is empty|lacks a part"):
        parse_address("probe:sales.orders")


@pytest.mark.django_db
def test_the_certification_fixture_gets_the_required_decisions(own_kinds):
    one, two = parse_address("record:record-1"), parse_address("record:record-2")
    store_tenant(
        Tenant(
            {parse_address("instance:cdap"): State.LIVE, one: State.LIVE, two: State.LIVE},
            {"alice": (True, True), "bob": (True, True)},
            {},
            {
                ("user:alice", one, Privilege.READ),
                ("user:alice", one, Privilege.WRITE),
                ("user:bob", one, Privilege.READ),
            },
        )
    )
    requests = [("alice", "read"), ("alice", "write"), ("bob", "read"), ("bob", "write"), ("alice", "delete")]
    answers = [ask(subject, operation, "record:record-1").is_permitted for subject, operation in requests]
    assert answers == [True, True, True, False, False]
    assert (
        ask("alice", "list", "record:record-1").is_permitted
        and not ask("alice", "list", "record:record-2").is_permitted
    )
    assert str(ask("bob", "write", "record:record-1").source) == "002, Summary, write operation"


@pytest.mark.django_db
@pytest.mark.parametrize("generation", ["existing", "proposed"])
def test_a_generation_without_general_rules_denies_the_operations_of_own_kinds(own_kinds, generation):
    store_tenant(
        Tenant(
            {parse_address("record:record-1"): State.LIVE},
            {"alice": (True, True)},
            {},
            {("user:alice", parse_address("record:record-1"), privilege) for privilege in Privilege},
        )
    )
    answer = ask("alice", "read", "record:record-1", generation=generation)
    assert answer.sentence == f"Denied: the `{generation}` generation has no rule for `read` on a record."


@pytest.mark.django_db
def test_the_core_generation_applies_its_core_policies(own_kinds):
    widget, namespace = parse_address("widget:sales.w"), parse_address("namespace:sales")
    store_tenant(
        Tenant(
            {parse_address("instance:cdap"): State.LIVE, namespace: State.LIVE, widget: State.LIVE},
            {"ada": (True, True)},
            {},
            {("user:ada", namespace, Privilege.WRITE), ("user:ada", widget, Privilege.READ)},
        )
    )
    assert ask("ada", "make", "widget:sales.w", generation="core").is_permitted
    assert ask("ada", "list", "widget:sales.w", generation="core").is_permitted
    assert ask("ada", "inspect", "widget:sales.w", generation="core").sentence == (
        "Denied: user:ada lacks READ on namespace:sales."
    )


def test_every_class_of_operations_has_a_general_rule_or_a_note_why_it_has_none():
    for generation in GENERATIONS.values():
        assert set(generation.general) == set(OperationClass)
        assert all(rule.requirement or rule.source.note for rule in generation.general.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it must contain only .*kind.* tables"),
        ("[[kind]]\nparent='instance'", "must have `name`"),
        ("[[kind]]\nname='Record'\nparent='instance'", "`Record` is not a valid name for a kind"),
        ("[[kind]]\nname='dataset'\nparent='instance'", "the kind `dataset` already exists"),
        (
            "[[kind]]\nname='record'\nparent='dataset'",
            "must be inside one of instance, namespace, application, not in `dataset`",
        ),
        ("[[kind]]\nname='record'\nparent='instance'\ncolour='red'", "`colour` is not a member of a kind"),
        (
            "[[kind]]\nname='record'\nparent='instance'\n[kind.operations]\nfly=['fly']",
            "`fly` is not a class of operations",
        ),
        (
            "[[kind]]\nname='record'\nparent='instance'\n[kind.operations]\nread=['READ']",
            "`READ` is not a valid name for",
        ),
        (
            "[[kind]]\nname='record'\nparent='instance'\n[kind.operations]\nread=['x']\nget=['x']",
            "lists the operation `x` twice",
        ),
        ("[[kind]]\nname='record'\nparent='instance'\ncharacters='z-a'", "is not a set of characters"),
        ("[[kind]]\nname='record'\nparent='instance'\ncharacters='a-z '", "must not include whitespace"),
        ("nonsense", "cannot be read"),
        # attacks: names that end the separators of keys and lines, or that look like other names
        *(
            (f"[[kind]]\nname='record'\nparent='instance'\ncharacters='{characters}'", "must not include")
            for characters in (
                r"\x00-\x7f",
                r"a-z\x1f",
                r"\S",
                r"\s",
                r"^a",
                r"a-z\u202e",
                r"a]|.*[a",
                r"a]+[a]+[a",
            )
        ),
        # kinds that hide others, or contain themselves
        *(
            (f"[[kind]]\nname='{name}'\nparent='instance'", f"the kind `{name}` already exists")
            for name in ("instance", "namespace", "kerberosprincipal")
        ),
        ("[[kind]]\nname='a'\nparent='a'", "must be inside one of"),
        ("[[kind]]\nname='a'\nparent='b'\n[[kind]]\nname='b'\nparent='a'", "must be inside one of"),
        ("[[kind]]\nname='a'\nparent='instance'\n" * 2, "the kind `a` already exists"),
        ("a=" + "[" * 100_000, "nested too deeply|cannot be read"),
        ("#" * 2_000_000, "longer than 1,000,000 bytes"),
    ],
)
def test_a_bad_file_of_kinds_is_refused_with_its_fault(tmp_path, text, message):
    path = tmp_path / "kinds.toml"
    path.write_text(text)
    before = dict(KINDS)
    try:
        with pytest.raises(VocabularyError, match=message):
            register_kinds(path)
    finally:
        for name in KINDS.keys() - before.keys():
            # a file whose second kind is refused ends the process
            del KINDS[name]


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing.toml"):
        with pytest.raises(VocabularyError, match="cannot be read"):
            register_kinds(path)
    (tmp_path / "latin-1.toml").write_bytes(b"[[kind]]\nname='\xe9'")
    with pytest.raises(VocabularyError, match="cannot be read"):
        register_kinds(tmp_path / "latin-1.toml")
