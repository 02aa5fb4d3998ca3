"""The history of the demo tenant leads to the demo tenant. The module loads it once."""

import subprocess
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from django.utils import timezone

from authzconsole.demo.history import load_history
from grants.active_generation import active_generation
from grants.errors import GrantError
from grants.journal import first_break
from grants.models import JournalLine
from grants.verification.replay import first_fault
from tests.support.tenant_documents import export_bytes

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "authzconsole" / "demo" / "tenant.jsonl"
pytestmark = pytest.mark.django_db
CUSTOMERS = "dataset:sales.customers"
TODAY = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)


@pytest.fixture(scope="module")
def history(django_db_setup, django_db_blocker):
    """Return all journal lines of the history, and keep it until the module ends."""
    from django.db import transaction

    with django_db_blocker.unblock(), transaction.atomic():
        load_history()
        yield list(JournalLine.objects.order_by("revision"))
        transaction.set_rollback(True)


def readers_of_customers(lines, days_ago):
    """Return the principals that held READ on the customers, and the members of their groups then."""
    holders, members = set(), {}
    for line in lines:
        if line.at > TODAY - timedelta(days=days_ago):
            break
        if (line.entity, line.privilege) == (CUSTOMERS, "READ"):
            (holders.add if line.action == "grant" else holders.discard)(line.principal)
        if line.action in ("member-add", "member-remove"):
            group = members.setdefault(line.detail, set())
            (group.add if line.action == "member-add" else group.discard)(line.principal)
    return {user for holder in holders for user in members.get(holder, {holder})}


def test_the_history_ends_in_exactly_the_demo_tenant(history):
    assert export_bytes() == DOCUMENT.read_bytes()
    assert active_generation().name == "final"


def test_the_history_is_verified_like_every_journal(history):
    assert first_break() is None
    assert first_fault() is None


def test_it_takes_two_years_and_no_line_is_earlier_than_the_previous(history):
    assert 1_000 < len(history) < 2_000
    assert all(earlier.at <= later.at for earlier, later in pairwise(history))
    assert TODAY - timedelta(days=730) < history[0].at < TODAY - timedelta(days=729)
    assert TODAY - timedelta(days=30) < history[-1].at < TODAY


def test_other_users_could_read_the_customers_a_year_ago(history):
    assert readers_of_customers(history, 0) == {"user:claire.dubois"}
    assert readers_of_customers(history, 365) == {
        f"user:{name}"
        for name in ("claire.dubois", "jonas.weber", "lucia.romano", "maria.lopez", "oluwaseun.adeyemi")
    }


def test_a_journal_with_lines_gets_no_history(history):
    with pytest.raises(GrantError, match="empty journal"):
        load_history()


def test_only_the_command_bootstrap_loads_the_history():
    files = subprocess.run(
        ["git", "grep", "-l", "load_history"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    assert {name for name in files if not name.startswith("tests/")} == {
        "authzconsole/demo/history.py",
        "authzconsole/management/commands/bootstrap.py",
    }
