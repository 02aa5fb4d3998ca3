"""Test addresses: the form `<kind>:<key>`, the parts of the key, the characters of each part, and the
containers.
"""

import string

import pytest

from entities.address import (
    MAX_KEY_LENGTH,
    AddressError,
    address_format,
    address_of,
    parse_address,
    parse_grantable,
)
from entities.vocabulary import KINDS

WORD = set(string.ascii_letters + string.digits + "_")
DASHED = WORD | {"-"}
DOTTED = DASHED | {"."}
DOLLARED = DOTTED | {"$"}

# kind: (an address, its name, its containers from the parent up)
EXAMPLES = {
    "instance": ("instance:cdap", "cdap", []),
    "namespace": ("namespace:sales", "sales", ["instance:cdap"]),
    "artifact": ("artifact:sales.etl-pipeline", "etl-pipeline", ["namespace:sales", "instance:cdap"]),
    "application": ("application:sales.orders", "orders", ["namespace:sales", "instance:cdap"]),
    "program": (
        "program:sales.orders.workflow.daily",
        "workflow.daily",
        ["application:sales.orders", "namespace:sales", "instance:cdap"],
    ),
    "stream": ("stream:sales.clicks", "clicks", ["namespace:sales", "instance:cdap"]),
    "dataset": ("dataset:sales.orders.by.day", "orders.by.day", ["namespace:sales", "instance:cdap"]),
    "dataset_module": (
        "dataset_module:sales.co.cask.Table$Module",
        "co.cask.Table$Module",
        ["namespace:sales", "instance:cdap"],
    ),
    "dataset_type": (
        "dataset_type:sales.co.cask.Table",
        "co.cask.Table",
        ["namespace:sales", "instance:cdap"],
    ),
    "securekey": ("securekey:sales.db-password", "db-password", ["namespace:sales", "instance:cdap"]),
    "kerberosprincipal": ("kerberosprincipal:etl/host.com@REALM", "etl/host.com@REALM", ["instance:cdap"]),
    "profile": ("profile:sales.small-cluster", "small-cluster", ["namespace:sales", "instance:cdap"]),
    "system_service": ("system_service:log.saver", "log.saver", ["instance:cdap"]),
    "system_app_entity": (
        "system_app_entity:sales.pipeline.connection.orders.db",
        "pipeline.connection.orders.db",
        ["namespace:sales", "instance:cdap"],
    ),
}

# by the start of an address: the characters that are allowed in its last part
LAST_PART_CHARACTERS = {
    "namespace:": WORD,
    "artifact:sales.": DOTTED,
    "application:sales.": DASHED,
    "program:sales.orders.spark.": DASHED,
    "stream:sales.": DASHED,
    "dataset:sales.": DOLLARED,
    "dataset_module:sales.": DOLLARED,
    "dataset_type:sales.": DOLLARED,
    "securekey:sales.": DASHED,
    "profile:sales.": DASHED,
    "system_service:": DOTTED,
    "system_app_entity:sales.pipeline.connection.": DOTTED,
}


def refusal(text):
    """Return the error message for an invalid address."""
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    return str(caught.value)


def is_address(text):
    try:
        return str(parse_address(text)) == text
    except AddressError:
        return False


def texts(*addresses):
    return [None if address is None else str(address) for address in addresses]


# Containers
# -----------------------------------------------------------------------------------------------------------


def test_every_kind_has_an_example():
    assert set(EXAMPLES) == set(KINDS)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_parsing_and_writing_an_address_gives_the_same_text(kind):
    text = EXAMPLES[kind][0]
    address = parse_address(text)
    assert (str(address), address.kind, address.key) == (text, kind, text.partition(":")[2])
    assert address_of(kind, address.key) == address


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_address_has_a_name_and_its_containers(kind):
    text, name, containers = EXAMPLES[kind]
    address, own = parse_address(text), (text, *containers)
    assert address.name == name
    # from the instance down to the parent
    assert texts(*address.ancestors) == containers[::-1]
    assert texts(address.parent) == (containers[:1] or [None])
    # a namespace is its own namespace, and an application its own application
    assert texts(address.namespace, address.application) == [
        container if container in own else None
        for container in ("namespace:sales", "application:sales.orders")
    ]


# Case
# -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("change_case", [str.upper, str.title, str.swapcase])
def test_the_kind_is_accepted_in_any_case_and_written_in_lower_case(kind, change_case):
    text = EXAMPLES[kind][0]
    key = text.partition(":")[2]
    address = parse_address(f"{change_case(kind)}:{key}")
    assert str(address) == text
    assert address == parse_address(text) and hash(address) == hash(parse_address(text))
    assert address_of(change_case(kind), key) == address


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("namespace:sales", "namespace:Sales"),
        ("dataset:sales.orders", "dataset:sales.Orders"),
        ("dataset:sales.orders", "dataset:SALES.orders"),
        ("program:sales.orders.spark.daily", "program:sales.Orders.spark.daily"),
        ("kerberosprincipal:etl@REALM", "kerberosprincipal:etl@realm"),
    ],
)
def test_names_that_differ_in_case_are_different_entities(first, second):
    assert parse_address(first) != parse_address(second)
    assert texts(parse_address(first), parse_address(second)) == [first, second]


# Parts of the key
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "namespace", "name"),
    [
        ("dataset:sales.orders", "namespace:sales", "orders"),
        ("dataset:sales.orders.by.day", "namespace:sales", "orders.by.day"),
        ("dataset:sales..hidden", "namespace:sales", ".hidden"),
        ("dataset:sales.orders.", "namespace:sales", "orders."),
        ("dataset:sales.sales", "namespace:sales", "sales"),
        ("dataset:sales.sales.orders", "namespace:sales", "sales.orders"),
        ("artifact:sales.etl-pipeline-1.0.2", "namespace:sales", "etl-pipeline-1.0.2"),
        ("dataset_module:sales.co.cask.Outer$Inner", "namespace:sales", "co.cask.Outer$Inner"),
        ("dataset_type:sales.co.cask.Outer$Inner", "namespace:sales", "co.cask.Outer$Inner"),
        ("dataset:_.-", "namespace:_", "-"),
        ("dataset:0.0", "namespace:0", "0"),
        ("dataset:sales.$", "namespace:sales", "$"),
    ],
)
def test_only_the_first_dot_separates_the_namespace_from_the_name(text, namespace, name):
    address = parse_address(text)
    assert texts(address, address.namespace, address.parent) == [text, namespace, namespace]
    assert address.name == name


@pytest.mark.parametrize("program_type", ["flow", "mapreduce", "workflow", "service", "spark", "worker"])
def test_a_program_has_four_parts_and_one_of_six_types(program_type):
    address = parse_address(f"program:sales.orders.{program_type}.nightly-run")
    assert texts(address.namespace, address.application, address.parent) == [
        "namespace:sales",
        "application:sales.orders",
        "application:sales.orders",
    ]
    assert address.name == f"{program_type}.nightly-run"


@pytest.mark.parametrize(
    "principal",
    [
        "etl",
        "etl/host.com@REALM",
        "etl/host.com@SUB.REALM.COM",
        "alice@REALM",
        "a.b.c.d",
        "a:b",
        "dataset:sales.orders",
        "etl/host:8020@REALM",
        ":",
        "...",
        "a./b",
        "@",
        "/",
        "a\\@b@R",
        "$x",
        "élodie@RÉALM",
    ],
)
def test_a_kerberos_principal_is_never_split(principal):
    address = parse_address(f"kerberosprincipal:{principal}")
    assert (address.key, address.name) == (principal, principal)
    assert texts(address, address.parent, address.namespace, address.application) == [
        f"kerberosprincipal:{principal}",
        "instance:cdap",
        None,
        None,
    ]


# Allowed characters
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", LAST_PART_CHARACTERS)
def test_the_last_part_accepts_exactly_the_characters_of_its_kind(prefix):
    for form in ("a{}b", "{}a", "a{}", "{}"):
        characters = map(chr, range(0x500))
        assert {
            character for character in characters if is_address(prefix + form.format(character))
        } == LAST_PART_CHARACTERS[prefix]


@pytest.mark.parametrize(
    "template",
    [
        "artifact:{}.x",
        "application:{}.x",
        "program:{}.x.flow.x",
        "stream:{}.x",
        "dataset:{}.x",
        "dataset_module:{}.x",
        "dataset_type:{}.x",
        "securekey:{}.x",
        "profile:{}.x",
        "system_app_entity:{}.x.y.z",
    ],
)
def test_the_namespace_part_accepts_the_characters_of_a_namespace(template):
    characters = set(map(chr, range(0x500))) - {"."}
    assert {character for character in characters if is_address(template.format(f"a{character}b"))} == WORD


def test_the_application_part_of_a_program_accepts_the_characters_of_an_application():
    characters = map(chr, range(0x500))
    assert {c for c in characters if is_address(f"program:sales.a{c}b.flow.x")} == DASHED


def test_a_kerberos_principal_accepts_every_visible_ascii_character_but_wildcards():
    characters = map(chr, range(0x80))
    visible = set(string.printable) - set(string.whitespace) - set("*?")
    assert {
        character for character in characters if is_address(f"kerberosprincipal:a{character}b")
    } == visible


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize(
    "ending",
    [
        "\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "\0",
        "\x1b",
        "\x7f",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
    ],
    ids=ascii,
)
def test_white_space_and_control_characters_are_refused_at_both_ends_of_every_address(kind, ending):
    text = EXAMPLES[kind][0]
    key = text.partition(":")[2]
    assert refusal(text + ending)
    assert refusal(f"{kind}:{ending}{key}")
    assert refusal(ending + text)
    assert refusal(f"{kind}{ending}:{key}")


@pytest.mark.parametrize(
    "letter",
    [
        "é",
        "ß",
        "Ж",
        "٣",
        "字",
        "\uff41",
        "e\u0301",
        "\u200b",
        "\u202e",
        "😀",
        "\ud800",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind != "kerberosprincipal"])
def test_letters_outside_ascii_are_refused(kind, letter):
    assert refusal(EXAMPLES[kind][0] + letter)


# Refusals
# -------------------------------------------------------------------------------------------------------------

REFUSED = [
    # texts without a kind
    ("", "is not an address"),
    ("sales", "`sales` is not an address"),
    # unknown kinds
    (":", "`` is not a kind of entity"),
    ("schedule:sales.orders.daily", "`schedule` is not a kind of entity"),
    ("dataset-module:sales.x", "`dataset-module` is not a kind of entity"),
    # names of entities outside of namespaces
    ("instance:", "the name is empty"),
    ("instance:a.b", "the name `a.b`"),
    ("namespace:", "the name is empty"),
    ("namespace:sales-eu", "the name `sales-eu`"),
    ("namespace:sales.orders", "the name `sales.orders`"),
    ("kerberosprincipal:", "the name is empty"),
    ("kerberosprincipal:etl @REALM", "the name `etl @REALM`"),
    # missing or empty parts
    ("dataset:", "lacks a part"),
    ("dataset:sales", "`dataset:sales` lacks a part"),
    ("dataset:.orders", "the namespace is empty"),
    ("dataset:sales.", "the dataset is empty"),
    # parts with invalid characters
    ("dataset:sales-eu.orders", "the namespace `sales-eu`"),
    ("dataset:sales.orders/day", "the dataset `orders/day`"),
    ("artifact:sales.Outer$Inner", "the artifact `Outer$Inner`"),
    ("application:sales.orders.v1", "the application `orders.v1`"),
    ("stream:sales.clicks.daily", "the stream `clicks.daily`"),
    ("dataset_module:sales.a b", "the dataset module `a b`"),
    ("dataset_type:sales.a@b", "the dataset type `a@b`"),
    ("securekey:sales.db.password", "the secure key `db.password`"),
    ("profile:sales.small.cluster", "the profile `small.cluster`"),
    ("system_service:", "the name is empty"),
    ("system_service:log saver", "the name `log saver`"),
    (
        "system_app_entity:sales.pipeline.connection",
        "is written system_app_entity:NAMESPACE.APPLICATION.TYPE.NAME",
    ),
    ("system_app_entity:sales.pipeline.connection.", "lacks a part"),
    ("system_app_entity:sales..connection.db", "lacks a part"),
    (
        "system_app_entity:sales.pipeline.connection.d$b",
        "the system application entity `pipeline.connection.d$b`",
    ),
    # programs
    ("program:", "1 parts, but a program has 4"),
    ("program:sales.orders.workflow.daily.v1", "5 parts, but a program has 4"),
    ("program:sales.orders.schedule.daily", "`schedule` is not a type of program"),
    ("program:sales.orders.Workflow.daily", "`Workflow` is not a type of program"),
    ("program:sales.orders..daily", "`` is not a type of program"),
    ("program:.orders.workflow.daily", "the namespace is empty"),
    ("program:sales..workflow.daily", "the application is empty"),
    ("program:sales.orders.workflow.", "the program is empty"),
    ("program:sales-eu.orders.workflow.daily", "the namespace `sales-eu`"),
    ("program:sales.ord ers.workflow.daily", "the application `ord ers`"),
    ("program:sales.orders.workflow.dai$ly", "the program `dai$ly`"),
]


@pytest.mark.parametrize(("text", "fault"), REFUSED, ids=[text or "nothing" for text, _ in REFUSED])
def test_the_error_names_the_invalid_part(text, fault):
    assert fault in refusal(text)


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind not in ("instance", "program")])
def test_the_error_for_an_empty_name_has_the_format_of_the_address(kind):
    text, name, _ = EXAMPLES[kind]
    assert address_format(kind) in refusal(text.removesuffix(name))


def test_the_error_for_an_unknown_kind_lists_the_kinds():
    assert all(kind in refusal("schedule:sales.x") for kind in EXAMPLES)


def test_the_error_for_an_unknown_program_type_lists_the_types():
    message = refusal("program:sales.orders.job.daily")
    assert all(kind in message for kind in ("flow", "mapreduce", "workflow", "service", "spark", "worker"))


@pytest.mark.parametrize(
    ("kind", "key", "fault"),
    [
        ("dataset", "sales", "lacks a part"),
        ("schedule", "sales.x", "`schedule` is not a kind"),
        ("dataset", "dataset:sales.orders", "the namespace `dataset:sales`"),
        ("program", "sales.orders.job.daily", "`job` is not a type of program"),
    ],
)
def test_an_invalid_pair_of_kind_and_key_is_refused_with_the_same_error(kind, key, fault):
    with pytest.raises(AddressError, match=fault):
        address_of(kind, key)


# Length
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [*LAST_PART_CHARACTERS, "kerberosprincipal:"])
def test_a_key_can_have_at_most_the_length_of_its_column(prefix):
    longest = prefix + "x" * (MAX_KEY_LENGTH - len(prefix.partition(":")[2]))
    assert str(parse_address(longest)) == longest
    assert f"{MAX_KEY_LENGTH + 1} characters; {MAX_KEY_LENGTH} are allowed" in refusal(longest + "x")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "x" * 100_000 + ":a",
        "dataset:" + "x" * 100_000,
        "dataset:" + "x" * 500,
        "dataset:sales." + "é" * 400,
        "program:" + "." * 500,
        "program:a.b." + "c" * 400 + ".d",
        "\x1b[31m" * 30 + ":a",
        "dataset:sales.\x1b[31m\n\u202e\0x",
        "dataset:\ud800.x",
        "\u2028:x",
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_the_error_is_one_short_printable_line_for_any_text(text):
    message = refusal(text)
    assert message.isprintable()
    assert len(message) <= 300
    message.encode("utf-8")


@pytest.mark.parametrize(
    "address",
    [
        "secure\u212aey:a.b",
        "kerberosprincipal:etl\u200b@R",
        "kerberosprincipal:etl\u202e@R",
        "kerberosprincipal:\ud800",
        "kerberosprincipal:a/../b",
        "kerberosprincipal:..",
    ],
)
def test_texts_that_only_look_like_addresses_are_refused(address):
    with pytest.raises(AddressError):
        parse_address(address)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("instance:cdap", {}),
        ("namespace:sales", {"namespace": "sales"}),
        ("dataset:sales.raw.orders", {"namespace": "sales", "dataset": "raw.orders"}),
        (
            "program:sales.shop.workflow.daily",
            {"namespace": "sales", "application": "shop", "program": "workflow.daily"},
        ),
        ("kerberosprincipal:etl/host@REALM", {"kerberosprincipal": "etl/host@REALM"}),
        ("dataset:sales.*", {"namespace": "sales", "dataset": "*"}),
        ("dataset:s*", {"namespace": "s*", "dataset": "*"}),
        ("dataset:s?orders", {}),
    ],
)
def test_the_names_of_an_address_are_listed_by_kind(text, names):
    assert parse_grantable(text).names == names
