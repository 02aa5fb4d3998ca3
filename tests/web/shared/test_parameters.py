"""Malformed URL parameters cause no server errors on any database."""

import pytest

from tests.support.runs import create_waiting_run

PARAMETERS = {
    "/": ("find", "after", "before"),
    "/search": ("q",),
    "/entities/instance:cdap": ("kind", "state", "find", "after", "before"),
    "/entities/namespace:sales": (
        "kind",
        "state",
        "find",
        "after",
        "before",
        "holders",
        "subject",
        "operation",
        "generation",
        "artifact",
        "artifact_is_new",
        "dataset_type",
        "owner",
        "deleter",
    ),
    "/entities/namespace:sales?subject=user:dee&operation=create": (
        "owner",
        "artifact",
        "dataset_type",
        "generation",
    ),
    "/entities/application:sales.shop?subject=user:dee&operation=deploy": (
        "owner",
        "artifact",
        "artifact_is_new",
    ),
    "/entities/dataset:sales.orders?operation=read": ("subject",),
    "/suggest/principals": ("principal", "subject", "deleter", "creator"),
    "/grant/dataset:sales.orders": ("principal", "privilege", "reason"),
    "/revoke/dataset:sales.orders": ("principal", "privilege", "reason"),
    "/register": ("parent",),
    "/register?parent=namespace:sales": ("kind", "name"),
    "/lifecycle/register/dataset:sales.next": ("reason", "description", "creator"),
    "/describe/dataset:sales.orders": ("description",),
    "/analyses/": ("page", "generation", "namespace"),
    "/analyses/{run}/": ("page", "namespaces", "namespace", "user", "ready", "sort"),
    "/analyses/{run}/missing": ("namespace", "user", "page"),
    "/sign-in": ("next",),
    "/password": ("next",),
}
BROKEN = {
    "U+0000": "%00",
    "an address with U+0000": "dataset:sales.o%00rders",
    "a user with U+0000": "user:de%00e",
    "no UTF-8": "%FF%FE%ED%A0%80",
    "long": "x" * 5_000,
}


@pytest.fixture
def run(cast, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return create_waiting_run(
        state="done",
        summary={},
        result_path="results/none",
    )


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("page", PARAMETERS)
def test_malformed_parameters_cause_no_server_error(page, broken, browse, run):
    joined = "&" if "?" in page else "?"
    clients = [browse(account) for account in ("ada", "dee", "")]
    for name in PARAMETERS[page]:
        url = f"{page.format(run=run.pk)}{joined}{name}={BROKEN[broken]}"
        for client in clients:
            assert client.get(url, follow=True).status_code in (200, 403, 404), url


@pytest.mark.parametrize(
    "query",
    ["kind=%00", "kind=nonsense", "state=%00", "state=undead", "find=%00", "kind=a%00b&state=live%00"],
)
def test_invalid_filter_values_are_ignored(query, browse):
    children = browse("ada").get(f"/entities/namespace:sales?{query}").context["children"]
    assert len(children["rows"]) == 6 and not children["is_filtered"]
    assert [chip["title"] for chip in children["kinds"] if chip["is_current"]] == ["All"]
    assert (children["kind"], children["state"], children["find"]) == ("", "", "")
