"""One slapd for all tests of this folder, and a console that uses it."""

import pytest

from authzconsole.settings.user_directory import LDAP_BACKEND, LDAP_PROVIDER, ldap_options
from tests.support.slapd import group_dn, group_entry, run_slapd, user_dn, user_entry

PEOPLE = ("ned", "dee", "ada", "nina", "olaf", "piet", "svc")


@pytest.fixture(scope="package")
def directory(tmp_path_factory):
    entries = "".join(map(user_entry, PEOPLE))
    entries += group_entry("admins", [user_dn("ned")]) + group_entry(
        "auditors", [user_dn("dee"), user_dn("ned")]
    )
    entries += group_entry("readers", map(user_dn, ("ned", "dee", "nina")))
    entries += group_entry("nested", [group_dn("readers"), user_dn("olaf")])
    entries += group_entry("cycle", [group_dn("cycle"), group_dn("nested")])
    with run_slapd(tmp_path_factory.mktemp("slapd"), entries) as running:
        yield running


@pytest.fixture
def use_directory(directory, settings):
    """Return a function that configures the console with the directory and further variables."""

    def configure(**variables):
        settings.LDAP = ldap_options(directory.environment | variables)
        settings.SIGN_IN_PROVIDERS = {LDAP_PROVIDER: settings.LDAP.provider}
        settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", LDAP_BACKEND]
        return settings.LDAP

    return configure
