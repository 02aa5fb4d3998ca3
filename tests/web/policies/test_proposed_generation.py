"""With four eyes, one administrator proposes a generation on its page or over REST, and another one activates
it.
"""

import pytest

from grants.active_generation import active_generation
from grants.models import JournalLine, User
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import rules_digest
from tests.support.pages import page_html, post_as_shown

URL, REST = "/policies/core/activate", "/api/v1/policies/active"


@pytest.fixture(autouse=True)
def two_administrators(settings, cast):
    settings.FOUR_EYES = True
    User.objects.filter(username="ned").update(role="administrator")


def test_a_proposal_on_the_page_is_activated_by_another_administrator(browse):
    ada, ned = browse("ada"), browse("ned")
    text = page_html(ada.get(URL))
    assert "Propose core" in text and "Activate core" not in text and "one person cannot activate" in text
    assert post_as_shown(ada, URL, {"from": "final", "reason": "trial"}).status_code == 400
    assert ada.post(URL, {"from": "final", "reason": "trial", "propose": "yes"}).status_code == 303
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.reason) == ("generation-propose", "trial")
    assert line.detail == f"from final to core; rules {rules_digest(GENERATIONS['core'])}"
    assert "Propose core" in page_html(ada.get(URL)) and "Generation proposed" in page_html(
        ada.get("/journal/")
    )
    text = page_html(ned.get(URL))
    assert "Proposed by ada" in text and "Activate core" in text and "Propose core" not in text
    assert post_as_shown(ned, URL, {"from": "final", "reason": "trial"}).status_code == 303
    assert active_generation().name == "core"


def test_a_proposal_over_rest_is_activated_by_another_administrator(browse):
    def put(name: str, **body):
        return browse(name).put(
            REST,
            {"name": "core", "reason": "trial"} | body,
            content_type="application/json",
            headers={"If-Match": "*"},
        )

    refused = put("ada")
    assert refused.status_code == 403 and refused.json()["type"].endswith("second-person-required")
    assert (
        put("ada", propose=True).json()
        == browse("out").get(REST).json()
        == {"name": "final", "proposed": "core"}
    )
    assert put("ada").status_code == 403
    assert put("ned").json() == {"name": "core"}
