from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from authzconsole.common.tokens import create_token
from entities.vocabulary import Privilege
from grants.models import permission_ids
from grants.models.reviews import Campaign, ReviewItem, ReviewShare
from tests.support.cast import SETUP, create_sample_tenant
from tests.support.changes import create_plan_from_changes
from tests.support.pages import page_html
from tests.support.runs import create_waiting_run


@pytest.fixture
def cast(db):
    return create_sample_tenant()


class Browser(Client):
    """A browser."""

    def html(self, *args, **options) -> str:
        """Return the HTML of a page; see `page_html`."""
        return page_html(self.get(*args, **options))


@pytest.fixture
def browse(cast):
    """Return a function: browse("ada") returns a client signed in as this user of the cast; browse(), an
    anonymous client.
    """

    def client_of(name: str = "") -> Browser:
        client = Browser()
        if name:
            client.force_login(cast[name])
        return client

    return client_of


@pytest.fixture
def htmx():
    """Return a function that returns the headers with which htmx requests the section with this id."""
    return lambda target: {"HX-Request": "true", "HX-Target": target}


def create_numbers(cast):
    """Create what the URLs of the access tests name, and return its numbers.

    The run can be cancelled, and the review has an item of ned.
    """
    run = create_waiting_run(
        state="running",
        stage="spark",
    )
    plan = create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "READ")])
    token = create_token(author=SETUP, owner="dee", name="a script", scopes=["read"], days=1).token
    review = Campaign.objects.create(
        title="Review",
        deadline=timezone.now() + timedelta(days=9),
        created_by="ada",
        state="open",
        item_count=1,
    )
    ReviewShare.objects.create(campaign=review, reviewer=cast["ned"], item_count=1)
    ReviewItem.objects.create(
        campaign=review,
        source="user",
        grant_id=1,
        principal_id=cast["dee"].pk,
        principal_name="dee",
        kind="dataset",
        key="sales.orders",
        permission_id=permission_ids()[Privilege.READ],
        reviewer=cast["ned"],
    )
    return {"run": run.pk, "plan": plan.pk, "token": token.pk, "review": review.pk}
