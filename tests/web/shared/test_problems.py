"""Each error has one status and one problem type for pages, REST, AuthZEN and SCIM."""

import pytest
from django.db import OperationalError

from authzconsole.common.problems import Problem, problem_of
from authzconsole.rest.framework.problems import TYPES
from authzconsole.scim.service import error_of as scim_response
from entities.address import AddressError
from entities.errors import Refusal
from grants.errors import PrincipalError, StaleBase
from grants.history import HistoryNotReady
from grants.policies.question import QuestionError


def subclasses(error_class):
    for subclass in error_class.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def test_every_error_has_a_status_that_has_a_problem_type():
    statuses = {error.status for error in subclasses(Refusal) if isinstance(error.status, int)}
    assert statuses <= TYPES.keys() and len(statuses) > 4


def test_a_problem_has_the_attributes_of_its_error():
    problem = problem_of(StaleBase(3, 5))
    assert (problem.status, problem.problem_type) == (409, "stale-base")
    assert problem.members == {"base_revision": 3, "revision": 5}
    problem = problem_of(PrincipalError("user:x does not exist", field="user"))
    assert (problem.status, problem.errors) == (409, [{"field": "user", "message": "user:x does not exist"}])
    problem = problem_of(QuestionError("`subject.type` must be a string"))
    assert problem.errors == [{"field": "subject.type", "message": "must be a string"}]
    assert problem_of(HistoryNotReady("wait")).headers == {"Retry-After": "60"}
    assert problem_of(OperationalError("database is locked")).headers == {"Retry-After": "10"}
    assert problem_of(ValueError("a mistake in the code")) is None


@pytest.mark.parametrize("error", [PrincipalError("no"), AddressError("no"), Problem(429, "wait")])
def test_pages_and_scim_answer_with_the_status_of_the_error(browse, monkeypatch, error, rf):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("authzconsole.web.journal.webhooks.render_page", fail)
    page = browse("ada").get("/journal/webhooks")
    assert (page.status_code, "Not possible" in page.content.decode()) == (error.status, True)
    assert scim_response(error, rf.get("/")).status_code == error.status
