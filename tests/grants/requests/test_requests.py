"""Test access requests: create, decide, ask back, withdraw and expire them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import parse_address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.changes import Shown
from grants.errors import (
    AlreadyPermitted,
    DuplicateRequest,
    EffectChanged,
    GrantError,
    NotApprover,
    RequestClosed,
    RequestError,
)
from grants.evaluation.engine import check
from grants.journal import current_revision, first_break
from grants.models import AccessRequest, AccessRequestPart, JournalLine, Plan, RequestState, User, UserGrant
from grants.policies.question import Question
from grants.requests.approvers import (
    approver_accounts,
    approver_scope,
    requests_to_decide,
    set_namespace_approvers,
    visible_requests,
)
from grants.requests.background import ColleagueAccess, part_background
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.requests.decide import Approval, approve_request, ask_back, deny_request
from grants.requests.expiry import expire_requests, mark_reminded, requests_to_remind
from grants.requests.own_steps import answer_question, withdraw_request
from grants.requests.proposals import effect_of_proposals, proposals_of
from grants.verification import plan_digest
from tests.support.authors import (
    COMMAND,
    account,
    all_grants,
    author_named,
    database_state,
    is_permitted,
    lines_after,
)
from tests.support.changes import activate_generation, add_grant, change_grants, remove_user, set_user_active

pytestmark = pytest.mark.usefixtures("cast")
ORDERS, SALARIES, UNKNOWN = map(
    parse_address, ("dataset:sales.orders", "dataset:hr.salaries", "dataset:nowhere.nothing")
)
CONFIRMED = Shown(accepts_beyond=True)


def request_access(name: str = "out", *wanted: tuple, **fields) -> AccessRequest:
    wanted = [
        WantedAccess(parse_address(address), operation)
        for operation, address in wanted or [("read", str(ORDERS))]
    ]
    return create_request(
        author=author_named(name),
        draft=RequestDraft(**{"reason": "quarterly close", "wanted": wanted} | fields),
    )


def approve(
    request: AccessRequest, name: str = "ada", *, choices: dict | None = None, **fields
) -> AccessRequest:
    choices = {part.position: "" for part in request.parts.all()} if choices is None else choices
    return approve_request(
        author=author_named(name),
        request_id=request.pk,
        approval=Approval(choices, **{"shown": CONFIRMED} | fields),
    )


def can_read(name: str, address=ORDERS) -> bool:
    return is_permitted(name, "read", address)


def test_an_approved_request_becomes_an_applied_plan_with_requester_and_approver_in_the_journal():
    before = current_revision()
    request = request_access()
    assert not can_read("out") and requests_to_decide(account("ada")).get() == request
    done = approve(request, comment="until the close")
    assert done.state == RequestState.APPROVED and can_read("out")
    plan = Plan.objects.get()
    assert (plan.state, plan.made_by, plan.decided_by, plan.origin) == ("applied", "out", "ada", "request")
    assert request.parts.get().plan == plan and plan.effect["permissions"]["for"]["gained"] == 1
    assert lines_after(before) == [
        ("request-create", "user:out", str(ORDERS), "", f"request {request.pk}: read {ORDERS}"),
        ("plan-create", "", "", "", f"plan {plan.pk}: {plan.title}; content {plan_digest(plan)}"),
        ("grant", "user:out", str(ORDERS), "READ", f"plan {plan.pk}"),
        ("plan-apply", "", "", "", f"plan {plan.pk}: {plan.title}"),
        (
            "request-approve",
            "user:out",
            str(ORDERS),
            "",
            f"request {request.pk}: read {ORDERS}; plan {plan.pk}",
        ),
    ]
    created = JournalLine.objects.get(action="plan-create")
    assert (created.actor, created.reason) == (
        "ada",
        f"on behalf of out; request {request.pk} of user:out: quarterly close; until the close",
    )
    assert (
        plan.reason == f"request {request.pk} of user:out: quarterly close; until the close"
        and first_break() is None
    )
    assert [(event.kind, event.actor, event.text) for event in request.events.all()] == [
        ("created", "out", "quarterly close"),
        ("approved", "ada", "until the close"),
    ]


def test_the_narrowest_grants_are_proposed_first():
    request = request_access("out", ("get", str(ORDERS)))
    proposals = proposals_of(request.parts.get(), request.subject)
    assert [proposal.beyond for proposal in proposals] == sorted(proposal.beyond for proposal in proposals)
    assert {grant[1] for proposal in proposals for grant in proposal.grants} == set(Privilege)
    approve(request, choices={1: proposals[-1].id})
    assert ("user:out", str(ORDERS), str(proposals[-1].grants[0][1])) in all_grants()


def test_colleagues_who_hold_only_a_part_of_a_proposal_are_not_counted(cast):
    activate_generation("core")
    request = request_access("out", ("get", str(ORDERS)))
    (proposal,) = proposals_of(request.parts.get(), request.subject)
    assert len(proposal.grants) == 2 and ("user:dee", str(ORDERS), "READ") in all_grants()
    Group.objects.get(name="operators").user_set.add(cast["out"], cast["dee"], cast["ned"])
    change_grants(grant=[("user:ned", *grant) for grant in proposal.grants])
    background = part_background(request, request.parts.get(), approver_scope(cast["ada"]))
    assert background.colleagues == ColleagueAccess(holders=1, total=3)


@pytest.mark.parametrize(
    ("wanted", "fields", "message"),
    [
        ([("read", str(ORDERS))], {"reason": " "}, "the reason is missing"),
        ([("fly", str(ORDERS))], {}, "not an operation of a dataset"),
        ([("create", "dataset_type:sales.table")], {}, "not an operation"),
        ([("READ", "instance:other")], {}, "cannot be requested"),
        (
            [("read", str(ORDERS))],
            {"requested_until": timezone.now().replace(microsecond=0) - timedelta(seconds=1)},
            "in the past",
        ),
        ([("read", str(ORDERS)), ("read", str(ORDERS))], {}, "repeated"),
        ([("READ", f"dataset:sales.d{number}") for number in range(11)], {}, "at most 10 parts"),
        ([("read", str(ORDERS))], {"colleague": "dee"}, "or the access of a colleague"),
        ([], {"wanted": (), "colleague": "d\0"}, "control character"),
    ],
)
def test_an_invalid_request_is_refused(wanted, fields, message):
    before = database_state()
    with pytest.raises(GrantError, match=message):
        request_access("out", *wanted, **fields)
    assert database_state() == before and not AccessRequest.objects.exists()


def test_what_is_permitted_already_is_refused_and_left_out_of_a_larger_request():
    with pytest.raises(AlreadyPermitted, match="can already read"):
        request_access("dee")
    request = request_access("dee", ("read", str(ORDERS)), ("write", str(ORDERS)))
    assert [part.operation for part in request.parts.all()] == ["write"]


def test_a_pending_request_is_not_repeated_but_a_closed_one_is():
    first = request_access()
    with pytest.raises(DuplicateRequest) as error:
        request_access("out", ("write", str(ORDERS)), ("read", str(ORDERS)))
    assert error.value.request_id == first.pk
    withdraw_request(author=author_named("out"), request_id=first.pk)
    assert request_access().pk != first.pk


def test_the_attack_a_request_does_not_tell_what_a_hidden_namespace_contains():
    # a rule over all live streams is met where there are none, also in a namespace that does not exist
    ensure_entities(states={parse_address("stream:hr.feed"): "live"})
    assert check(
        Question("user", "out", "delete-all-streams", parse_address("namespace:nowhere"), "final")
    ).is_permitted
    for namespace in ("hr", "nowhere"):
        for operation in ("delete-all-streams", "delete-all-dataset-modules"):
            request = request_access("out", (operation, f"namespace:{namespace}"))
            assert [part.state for part in request.parts.all()] == [RequestState.PENDING]


def test_an_address_or_a_colleague_that_does_not_exist_is_recorded_like_any_other():
    unknown, known = (
        request_access("out", ("read", str(UNKNOWN))),
        request_access("out", ("read", str(SALARIES))),
    )
    assert (unknown.state, unknown.reason) == (known.state, known.reason)
    missing = request_access("out", wanted=(), colleague="nobody")
    ned = request_access("out", wanted=(), colleague="ned")
    assert missing.state == ned.state == RequestState.PENDING
    assert not missing.parts.exists() and all(part.is_hidden for part in ned.parts.all())
    with pytest.raises(RequestError, match="choose parts"):
        approve(missing)
    done = deny_request(
        author=author_named("ada"), request_id=missing.pk, reason="there is no such colleague"
    )
    assert done.state == RequestState.DENIED


def test_a_repeated_idempotency_key_returns_the_first_request():
    first = request_access(idempotency_key="k")
    assert request_access(idempotency_key="k") == first
    assert request_access("grp", idempotency_key="k") != first


def test_the_number_of_pending_requests_is_limited(settings):
    settings.REQUEST_MAX_PENDING = 1
    request_access()
    with pytest.raises(RequestError, match="1 pending requests, which is the limit"):
        request_access("out", ("write", str(ORDERS)))


def test_the_number_of_requests_within_a_day_is_limited(settings):
    """Each request notifies its approvers and writes to the journal, also if it is withdrawn at once."""
    settings.REQUEST_MAX_PER_DAY = 2
    for _ in range(2):
        withdraw_request(author=author_named("out"), request_id=request_access().pk)
    before = current_revision()
    with pytest.raises(RequestError, match="2 requests for user:out within a day"):
        request_access()
    assert current_revision() == before
    request_access("grp")
    AccessRequest.objects.filter(subject__username="out").update(
        created_at=timezone.now() - timedelta(days=1)
    )
    assert request_access().is_pending


def test_the_access_of_a_colleague_gives_memberships_and_grants():
    Group.objects.get(name="operators").user_set.add(account("dee"))
    request = request_access("out", wanted=(), colleague="dee")
    parts = list(request.parts.order_by("position"))
    assert [part.title for part in parts] == [
        "membership in group:operators",
        "WRITE dataset:sales.legacy",
        "READ dataset:sales.orders",
    ]
    done = approve(request, choices={1: "", 3: ""})
    assert [part.state for part in done.parts.order_by("position")] == ["approved", "denied", "approved"]
    assert can_read("out") and account("out").groups.filter(name="operators").exists()


def test_nobody_decides_about_their_own_request():
    User.objects.filter(username="out").update(role="administrator")
    request = request_access()
    for decide in (
        approve,
        lambda request, name: deny_request(author=author_named(name), request_id=request.pk, reason="no"),
        lambda request, name: ask_back(author=author_named(name), request_id=request.pk, question="why?"),
    ):
        with pytest.raises(NotApprover, match="your own"):
            decide(request, "out")
    for_another = create_request(
        author=author_named("ada"),
        draft=RequestDraft("she needs it", [WantedAccess(SALARIES, "read")], subject=account("grp")),
    )
    with pytest.raises(NotApprover, match="your own"):
        approve(for_another, "ada")
    assert list(requests_to_decide(account("ada"))) == [request]
    assert approve(for_another, "out").state == RequestState.APPROVED and can_read("grp", SALARIES)


def test_the_group_of_a_namespace_decides_about_it_and_about_nothing_else():
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    both = request_access("out", ("read", str(ORDERS)), ("read", str(SALARIES)))
    other = request_access("dee", ("read", str(SALARIES)))
    grp = account("grp")
    assert list(requests_to_decide(grp)) == list(visible_requests(grp)) == [both]
    assert grp in approver_accounts(both) and grp not in approver_accounts(other)
    with pytest.raises(RequestError, match="that you may decide about"):
        approve(both, "grp")
    partly = approve(both, "grp", choices={1: ""})
    assert partly.state == RequestState.PENDING and can_read("out") and not can_read("out", SALARIES)
    assert (
        deny_request(author=author_named("ada"), request_id=both.pk, reason="not needed").state
        == RequestState.APPROVED
    )
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="")
    assert not visible_requests(grp).exists()


def test_a_decided_request_cannot_be_decided_again():
    request = request_access()
    approve(request)
    for step in (
        lambda: approve(request),
        lambda: withdraw_request(author=author_named("out"), request_id=request.pk),
        lambda: deny_request(author=author_named("ada"), request_id=request.pk, reason="too late"),
    ):
        with pytest.raises(RequestClosed, match="already approved"):
            step()


def test_an_approver_who_lost_the_right_is_refused():
    request = request_access()
    User.objects.filter(username="ada").update(role="ordinary")
    with pytest.raises(NotApprover):
        approve(request)
    User.objects.filter(username="ada").update(role="administrator", is_active=False)
    with pytest.raises(RequestError, match="active accounts"):
        approve(request)


def test_an_approval_of_a_changed_effect_is_refused():
    request = request_access("out", ("get", str(ORDERS)))
    part = request.parts.get()
    proposal = proposals_of(part, request.subject)[0]
    digest = effect_of_proposals(request.subject, [(part, proposal)]).digest
    add_grant("user:out", ORDERS, "ADMIN")
    with pytest.raises(EffectChanged):
        approve(request, choices={1: proposal.id}, shown=Shown(digest))
    assert approve(request).state == RequestState.APPROVED and not Plan.objects.exists()


def test_an_approval_shortens_the_period_and_never_extends_it():
    end = timezone.now().replace(microsecond=0) + timedelta(days=5)
    request = request_access(requested_until=end)
    with pytest.raises(RequestError, match="can only shorten"):
        approve(request, valid_until=end + timedelta(seconds=1))
    with pytest.raises(GrantError, match="in the past"):
        approve(request, valid_until=end - timedelta(days=6))
    assert approve(request, valid_until=end - timedelta(days=1)).parts.get().valid_until == end - timedelta(
        days=1
    )
    assert UserGrant.objects.get(user__username="out").valid_until == end - timedelta(days=1)


def test_a_request_for_an_inactive_user_can_only_be_denied():
    request = request_access()
    set_user_active("out", active=False)
    with pytest.raises(RequestError, match="not active"):
        approve(request)
    assert (
        deny_request(author=author_named("ada"), request_id=request.pk, reason="left").state
        == RequestState.DENIED
    )


def test_an_approver_asks_back_and_the_requester_answers():
    request, ada = request_access(), account("ada")
    with pytest.raises(RequestError, match="no open question"):
        answer_question(author=author_named("out"), request_id=request.pk, answer="because")
    ask_back(author=author_named("ada"), request_id=request.pk, question="For which report?")
    assert not requests_to_decide(ada).exists()
    with pytest.raises(NotApprover, match="belongs to user:out"):
        answer_question(author=author_named("ada"), request_id=request.pk, answer="the yearly one")
    answer_question(author=author_named("out"), request_id=request.pk, answer="the yearly one")
    assert requests_to_decide(ada).get() == request


def test_only_the_requester_withdraws():
    request = request_access()
    with pytest.raises(NotApprover):
        withdraw_request(author=author_named("ada"), request_id=request.pk)
    assert withdraw_request(author=author_named("out"), request_id=request.pk).state == RequestState.CANCELLED


def test_requests_expire_and_approvers_are_reminded(settings):
    request = request_access()
    assert not requests_to_remind().exists() and expire_requests() == 0
    AccessRequest.objects.update(created_at=timezone.now() - timedelta(days=4))
    assert mark_reminded(requests_to_remind().get()) and not mark_reminded(request)
    AccessRequest.objects.update(expires_at=timezone.now())
    with pytest.raises(RequestClosed, match="already expired"):
        approve(request)
    assert expire_requests() == 1 and expire_requests() == 0
    request.refresh_from_db()
    assert request.state == RequestState.EXPIRED and request.parts.get().state == RequestState.EXPIRED
    settings.REQUEST_REMINDER_DAYS = 0
    assert not requests_to_remind().exists()


def test_a_request_expires_when_the_requested_access_would_end():
    end = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    assert request_access(requested_until=end).expires_at == end


def test_removing_a_user_withdraws_the_requests_and_keeps_their_names():
    request = request_access()
    remove_user("out")
    request.refresh_from_db()
    assert (request.state, request.subject, request.principal) == (RequestState.CANCELLED, None, "user:out")
    assert visible_requests(account("ada")).get() == request


def test_an_account_that_is_no_principal_gets_its_first_grant_by_a_request():
    User.objects.create(username="new", is_principal=False)
    request = request_access("new", ("delete", "namespace:hr"))
    (proposal,) = proposals_of(request.parts.get(), request.subject)
    assert {str(address) for address, _ in proposal.grants} == {"namespace:hr", str(SALARIES)}
    approve(request)
    assert is_permitted("new", "delete", "namespace:hr")


def test_too_many_missing_grants_are_refused(monkeypatch):
    monkeypatch.setattr("grants.requests.proposals.MAX_GRANTS_PER_PART", 1)
    request = request_access("out", ("delete", "namespace:hr"))
    with pytest.raises(RequestError, match="too many for a request"):
        approve(request)
    assert AccessRequestPart.objects.get().is_pending
