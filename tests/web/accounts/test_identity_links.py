"""Administrators unlink identities of sign-in providers on the page of an account."""

import pytest
from allauth.socialaccount.models import SocialAccount

from authzconsole.settings.sign_in import ProviderOptions
from grants.journal import current_revision
from grants.models import User
from tests.support.authors import database_state, lines_after
from tests.support.pages import page_html

REASON = {"reason": "linked to the wrong account"}


@pytest.fixture
def link(cast, settings):
    settings.SIGN_IN_PROVIDERS = {"corp": ProviderOptions(protocol="oidc", name="Corp")}
    return SocialAccount.objects.create(user=cast["dee"], provider="corp", uid="s-dee")


def unlink_url(link):
    return f"/accounts/identities/{link.pk}/unlink"


def test_an_administrator_unlinks_an_identity(browse, link):
    client, dee = browse("ada"), browse("dee")
    page = client.html("/people/user:dee")
    assert "s-dee" in page and f'href="{unlink_url(link)}"' in page
    form = client.html(unlink_url(link))
    assert "s-dee" in form and "of Corp can no longer sign in" in form and SocialAccount.objects.exists()
    before = current_revision()
    response = client.post(unlink_url(link), REASON, follow=True)
    assert response.redirect_chain[0] == ("/accounts/user:dee", 303)
    page = page_html(response)
    assert (
        "user:dee is no longer linked to the identity s-dee of corp." in page
        and "No linked identities" in page
    )
    assert not SocialAccount.objects.exists()
    lines = lines_after(before)
    assert lines[0] == ("identity-unlink", "user:dee", "", "", "provider: corp, subject: s-dee")
    assert [line[0] for line in lines[1:]] == ["sessions-end"]
    # the sessions of the account have ended
    assert dee.get("/my-access").status_code == 302
    assert client.post(unlink_url(link), REASON).status_code == 404


def test_only_administrators_unlink_after_a_recent_authentication(browse, link, settings):
    assert "Unlink" not in browse("aud").html("/people/user:dee")
    before = database_state()
    for name, status in (("aud", 403), ("dee", 404)):
        assert browse(name).post(unlink_url(link), REASON).status_code == status
    client = browse("ada")
    settings.REAUTHENTICATION_SECONDS = -1
    assert "reauthentication_password" in client.post(unlink_url(link), REASON).content.decode()
    assert database_state() == before and SocialAccount.objects.exists()


def test_an_identity_of_a_provider_that_is_no_longer_configured_can_be_unlinked(browse, link, settings):
    settings.SIGN_IN_PROVIDERS = {}
    client = browse("ada")
    assert "corp" in client.html("/people/user:dee")
    assert client.post(unlink_url(link), {"reason": "x" * 10_000}, follow=True).status_code == 200
    assert SocialAccount.objects.exists()
    client.post(unlink_url(link), REASON)
    assert not SocialAccount.objects.exists()


def test_an_account_without_identities_and_providers_has_no_section(browse, cast, settings):
    settings.SIGN_IN_PROVIDERS = {}
    assert "Linked identities" not in browse("ada").html("/people/user:dee")
    assert User.objects.get(username="dee").is_active
