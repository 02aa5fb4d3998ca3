"""Each endpoint takes a fixed number of queries for any amount of data."""

import pytest

from authzconsole.models import ApiToken
from entities.address import Address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.evaluation import authzen_search, engine, principal_filters
from tests.api.conftest import PASSWORD, request
from tests.support.changes import change_grants

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("people")]

(
    TOKEN,
    ACTIVE_GENERATION,
    QUESTION,
    SUBJECT,
    CANDIDATES,
    ALL_ENTITIES,
    CONTAINER,
    CROWD,
    STATES,
    INACTIVE,
    REMARKS,
) = [1] * 11
FIRST_ENTITIES = 2
FEW = 1


@pytest.fixture(autouse=True)
def many_datasets(people, api):
    addresses = [Address("dataset", f"lab.d{number}") for number in range(50)]
    ensure_entities(states=dict.fromkeys(addresses, "live"))
    change_grants(grant=[("user:alice", address, Privilege.READ) for address in addresses])
    # the first use of a token writes its time of last use, and the ids of the permissions are cached
    api.evaluate(request())
    assert ApiToken.objects.get().last_used_at is not None


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("evaluation", request(), TOKEN + QUESTION),
        ("evaluation", request(context={"explain": True}), TOKEN + QUESTION + STATES + REMARKS),
        (
            "evaluations",
            request(context={"explain": True})
            | {
                "evaluations": [
                    {"resource": {"type": "dataset", "id": f"lab.d{number}"}} for number in range(1_000)
                ]
            },
            TOKEN + QUESTION + STATES + INACTIVE + REMARKS,
        ),
        ("evaluation", request("zoe"), TOKEN + QUESTION),
        ("evaluations", request() | {"evaluations": [{}] * 1_000}, TOKEN + QUESTION),
        ("search/action", request(), TOKEN + QUESTION),
        ("search/resource", request(), TOKEN + SUBJECT + FEW + CANDIDATES),
        ("search/resource", request("readers", subject_type="group"), TOKEN + SUBJECT + FEW + CANDIDATES),
        ("search/subject", request(), TOKEN + QUESTION),
        (
            "search/subject",
            request(kind="namespace", resource="lab", operation="list"),
            TOKEN + CONTAINER + CROWD + QUESTION,
        ),
        (
            "search/subject",
            request(kind="namespace", resource="lab", operation="delete"),
            TOKEN + CONTAINER + QUESTION,
        ),
    ],
)
def test_a_request_by_token_takes_a_fixed_number_of_queries(
    api, django_assert_num_queries, path, body, expected
):
    with django_assert_num_queries(expected):
        assert api.post(f"/access/v1/{path}", body).status_code == 200


def test_a_subject_with_very_many_grants_takes_up_to_six_more_queries(
    api, django_assert_num_queries, monkeypatch
):
    monkeypatch.setattr(authzen_search, "FEW_GRANTS", 0)
    usual = TOKEN + SUBJECT + FEW
    for collected, walked, expected in (
        ((10, 10), (400, 5_000), FIRST_ENTITIES),
        ((400, 10), (4, 5_000), FIRST_ENTITIES + CANDIDATES),
        ((10, 10), (4, 5_000), 2 * FIRST_ENTITIES + CANDIDATES),
        ((10, 10), (4, 4), 2 * (FIRST_ENTITIES + CANDIDATES) + ALL_ENTITIES),
    ):
        monkeypatch.setattr(authzen_search, "MAX_COLLECTED", collected)
        monkeypatch.setattr(authzen_search, "MAX_CHECKED", walked)
        with django_assert_num_queries(usual + expected):
            assert api.search("resource", request() | {"page": {"limit": 5}}).json()["page"]["count"] == 5


def test_a_crowded_namespace_takes_no_more_queries(api, django_assert_num_queries, monkeypatch):
    monkeypatch.setattr(principal_filters, "MAX_GRANTS_INSIDE", 10)
    with django_assert_num_queries(TOKEN + CONTAINER + CROWD + QUESTION):
        answer = api.search("subject", request(kind="namespace", resource="lab", operation="list"))
        assert len(answer.json()["results"]) == 2


def test_a_request_by_session_takes_one_more_query(client, account, django_assert_num_queries):
    account("alice")
    assert client.login(username="alice", password=PASSWORD)
    with django_assert_num_queries(2 + ACTIVE_GENERATION + QUESTION):
        assert client.post("/access/v1/evaluation", request(), content_type="application/json").json() == {
            "decision": True
        }
    with django_assert_num_queries(2 + ACTIVE_GENERATION + QUESTION + STATES + REMARKS):
        client.post(
            "/access/v1/evaluation", request(context={"explain": True}), content_type="application/json"
        )


def test_anonymous_and_malformed_requests_take_no_queries_beyond_authentication(
    api, client, django_assert_num_queries
):
    with django_assert_num_queries(0):
        assert (
            client.post("/access/v1/evaluation", request(), content_type="application/json").status_code
            == 401
        )
        assert client.get("/.well-known/authzen-configuration").status_code == 200
        assert api.post("/access/v1/evaluation", "{", content_type="text/plain").status_code == 400
    with django_assert_num_queries(TOKEN):
        assert api.post("/access/v1/evaluation", "{").status_code == 400


def test_the_attack_many_explanations_of_a_large_container(api, monkeypatch):
    """1,000 explanations of a namespace with 60,000 datasets took minutes and gigabytes."""
    delete = request(kind="namespace", resource="lab", operation="delete")
    explained = [{"context": {"explain": True}}]
    at_times = [{"context": {"explain": True, "at": f"2030-01-0{day}T00:00:00Z"}} for day in (1, 2, 3)]
    monkeypatch.setattr(engine, "MAX_LISTED_ENTITIES", 120)
    for items in (explained * 3, at_times):
        refused = api.post("/access/v1/evaluations", delete | {"evaluations": items})
        assert refused.status_code == 400 and "more than 120 missing grants" in refused.content.decode()
    for items in (explained * 2, at_times[:2], [{}] * 1_000):
        assert api.post("/access/v1/evaluations", delete | {"evaluations": items}).status_code == 200
    # one explanation can list any number
    monkeypatch.setattr(engine, "MAX_LISTED_ENTITIES", 10)
    answer = api.post("/access/v1/evaluations", delete | {"evaluations": [*explained, {}]}).json()[
        "evaluations"
    ][0]
    assert len(answer["context"]["missing"]) > 50
