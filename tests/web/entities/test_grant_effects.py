"""The forms that grant and revoke show the effect on permissions, and apply it only if it is the one that was shown."""

import re

import pytest

from entities.address import parse_address
from grants.changes.services import change_grants
from tests.support.authors import all_grants
from tests.support.cast import SETUP
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db

GRANT, REVOKE = "/grant/dataset:sales.orders", "/revoke/dataset:sales.orders"
FORM = {"principal": "user:out", "privilege": "READ", "reason": "close"}
READ_ORDERS = ("user:out", "dataset:sales.orders", "READ")


def digest_in(response):
    return re.search(r'name="effect" value="([^"]+)"', page_html(response)).group(1)


def test_a_grant_shows_its_effect_before_it_is_made(browse):
    preview = browse("ada").post(GRANT, FORM | {"preview": "yes"})
    assert preview.status_code == 200 and "4 given beyond its purpose" in page_html(preview) and READ_ORDERS not in all_grants()
    assert browse("ada").post(GRANT, FORM | {"effect": digest_in(preview)}).status_code == 303 and READ_ORDERS in all_grants()


def test_a_revocation_shows_its_effect(browse):
    page = browse("ada").get(REVOKE, {"principal": "user:dee", "privilege": "READ"})
    assert "Takes " in page_html(page)
    form = {"principal": "user:dee", "privilege": "READ", "effect": digest_in(page)}
    assert browse("ada").post(REVOKE, form).status_code == 303
    assert ("user:dee", "dataset:sales.orders", "READ") not in all_grants()


def test_a_change_with_another_effect_than_the_shown_one_is_refused_and_shown_again(browse):
    digest = digest_in(browse("ada").post(GRANT, FORM | {"preview": "yes"}))
    change_grants(author=SETUP, grant=[("user:out", parse_address("dataset:sales.customers"), "READ")])
    response = browse("ada").post(GRANT, FORM | {"effect": digest})
    assert response.status_code == 409 and READ_ORDERS not in all_grants()
    assert "the effect of this change has changed" in page_html(response) and digest_in(response) != digest


def test_an_effect_above_the_limit_is_named(browse, settings):
    settings.EFFECT_MAX_GRANTS = 0
    form = FORM | {"principal": "user:ned"}
    preview = browse("ada").post(GRANT, form | {"preview": "yes"})
    assert "too large to be computed" in page_html(preview)
    assert browse("ada").post(GRANT, form | {"effect": digest_in(preview)}).status_code == 303
