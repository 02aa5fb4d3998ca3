"""The forms that grant and revoke show the effect on permissions, and apply it only if it is the one that was
shown.
"""

import pytest

from tests.support.authors import all_grants
from tests.support.changes import add_grant
from tests.support.pages import page_html, shown_effect

pytestmark = pytest.mark.django_db

GRANT, REVOKE = "/grant/dataset:sales.orders", "/revoke/dataset:sales.orders"
FORM = {"principal": "user:out", "privilege": "READ", "reason": "close"}
READ_ORDERS = ("user:out", "dataset:sales.orders", "READ")


def digest_in(response):
    return shown_effect(response)["effect"]


def test_a_grant_with_an_effect_beyond_its_purpose_is_made_only_after_the_effect_was_shown(browse):
    shown = browse("ada").post(GRANT, FORM)
    assert shown.status_code == 200 and READ_ORDERS not in all_grants()
    assert ">Grant: " in page_html(shown) and "permissions gained</button>" in page_html(shown)
    assert (
        browse("ada").post(GRANT, FORM | shown_effect(shown)).status_code == 303
        and READ_ORDERS in all_grants()
    )


def test_a_grant_within_its_purpose_is_made_at_once(browse):
    assert browse("ada").post(GRANT, FORM | {"principal": "user:ned"}).status_code == 303
    assert ("user:ned", "dataset:sales.orders", "READ") in all_grants()


def test_the_effect_of_other_fields_does_not_count_as_shown(browse):
    shown = shown_effect(browse("ada").post(GRANT, FORM | {"privilege": "WRITE"}))
    response = browse("ada").post(GRANT, FORM | shown)
    assert response.status_code == 200 and READ_ORDERS not in all_grants()
    assert browse("ada").post(GRANT, FORM | shown_effect(response)).status_code == 303


def test_a_changed_field_loads_the_effect_and_the_button(browse, htmx, django_assert_max_num_queries):
    client = browse("ada")
    fields = {"principal": "user:out", "privilege": "READ"}
    part = client.get(GRANT, fields, headers=htmx("grant-form-effect"))
    assert (
        'id="grant-form-effect"' in page_html(part) and "<form" not in page_html(part) and shown_effect(part)
    )
    assert not shown_effect(
        client.get(GRANT, fields | {"principal": "user:nobody"}, headers=htmx("grant-form-effect"))
    )
    with django_assert_max_num_queries(23):
        client.get(GRANT, fields, headers=htmx("grant-form-effect"))


def test_a_revocation_on_a_deleted_address_names_the_leftover_grant(browse):
    page = browse("ada").get(
        "/revoke/dataset:sales.legacy", {"principal": "user:dee", "privilege": "WRITE", "preview": "yes"}
    )
    assert "1 leftover grant will be gone." in page_html(page)


def test_a_revocation_shows_its_effect(browse):
    page = browse("ada").get(REVOKE, {"principal": "user:dee", "privilege": "READ", "preview": "yes"})
    assert "Removes " in page_html(page)
    form = {"principal": "user:dee", "privilege": "READ", "effect": digest_in(page)}
    assert browse("ada").post(REVOKE, form).status_code == 303
    assert ("user:dee", "dataset:sales.orders", "READ") not in all_grants()


def test_a_change_with_another_effect_than_the_shown_one_is_refused_and_shown_again(browse):
    digest = digest_in(browse("ada").post(GRANT, FORM | {"preview": "yes"}))
    add_grant("user:out", "dataset:sales.customers", "READ")
    response = browse("ada").post(GRANT, FORM | {"effect": digest})
    assert response.status_code == 409 and READ_ORDERS not in all_grants()
    assert "the effect of this change has changed" in page_html(response) and digest_in(response) != digest


def test_an_effect_above_the_limit_is_named(browse, settings):
    settings.EFFECT_MAX_GRANTS = 0
    form = FORM | {"principal": "user:ned"}
    preview = browse("ada").post(GRANT, form | {"preview": "yes"})
    assert "The effect is not known" in page_html(preview)
    accepted = form | {"effect": digest_in(preview), "beyond": "yes"}
    assert browse("ada").post(GRANT, accepted).status_code == 303
