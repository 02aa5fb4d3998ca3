"""Test the active generation, the default of every question."""

import pytest

from grants.active_generation import active_generation
from grants.errors import NotAdministrator
from grants.models import ActiveGeneration, Role
from grants.policies.catalogue import GENERATIONS, UnknownGeneration
from tests.support.authors import author_with, lines_after
from tests.support.changes import activate_generation

pytestmark = pytest.mark.django_db


def test_the_setting_applies_until_a_generation_is_activated(settings):
    assert active_generation().name == "final"
    settings.DEFAULT_GENERATION = "existing"
    assert active_generation() is GENERATIONS["existing"]
    activate_generation("core")
    assert active_generation() is GENERATIONS["core"]


def test_activation_is_journaled_once():
    outcome = activate_generation("core")
    assert (outcome.has_changed, outcome.sentence) == (
        True,
        "`core` is the active generation now; it was `final`",
    )
    again = activate_generation("core")
    assert (again.has_changed, again.sentence) == (
        False,
        "`core` is the active generation already: nothing changed",
    )
    activate_generation("final")
    assert [line[-1] for line in lines_after(0)] == ["from final to core", "from core to final"]
    assert ActiveGeneration.objects.count() == 1


def test_an_unknown_generation_is_refused():
    with pytest.raises(
        UnknownGeneration, match="`newest` is not a generation of rules; the generations are core, existing"
    ):
        activate_generation("newest")
    assert not ActiveGeneration.objects.exists()


def test_an_auditor_cannot_activate_a_generation():
    with pytest.raises(NotAdministrator):
        activate_generation("core", author=author_with(Role.AUDITOR))
    assert active_generation().name == "final"
