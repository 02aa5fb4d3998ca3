"""Pages and REST name the policies of a platform that may change an answer, to those who may see everything."""

import pytest

from entities.vocabulary import Privilege
from grants.evaluation.remarks import replace_remarks
from grants.models import Remark, RemarkPart
from grants.policies.explain import REDACTED_REMARK
from tests.support.changes import add_grant
from tests.support.pages import page_html

ORDERS = "dataset:sales.orders"
TEXT = "Ranger policy `merger` denies READ on dataset:sales.* to everybody; <b>the platform</b> may answer differently."


@pytest.fixture(autouse=True)
def remark(cast):
    add_grant("user:dee", ORDERS, Privilege.READ)
    row = {"number": 1, "part": RemarkPart.ITEM, "kind": "dataset", "key": "sales.*", "namespace": "sales"}
    replace_remarks([Remark(**row, privileges="READ", text=TEXT)], "import")


@pytest.mark.parametrize("url", [f"/ask?entity={ORDERS}&", f"/entities/{ORDERS}?"])
def test_both_pages_with_an_answer_show_remarks_to_those_who_see_everything(browse, url):
    shown = page_html(browse("aud").get(f"{url}subject=user:dee&operation=READ"))
    assert "Ranger policy <code>merger</code> denies READ" in shown
    assert "&lt;b&gt;the platform" in shown
    assert "merger" not in page_html(browse("aud").get(f"{url}subject=user:dee&operation=WRITE"))
    own = page_html(browse("dee").get(f"{url}operation=READ"))
    assert REDACTED_REMARK in own and "merger" not in own and "sales.*" not in own


def test_an_answer_says_that_not_all_policies_were_compared(browse, monkeypatch):
    monkeypatch.setattr("grants.evaluation.remarks.MAX_ROWS", 1)
    url, said = (
        f"/ask?entity={ORDERS}&subject=user:dee&operation=READ",
        "not all of them were compared with the answer",
    )
    assert said not in page_html(browse("aud").get(url))
    row = {"number": 2, "part": RemarkPart.ITEM, "kind": "dataset", "key": "sales.*", "namespace": "sales"}
    replace_remarks([Remark(**row, privileges="READ", text=TEXT)], "other")
    assert said in page_html(browse("aud").get(url))
    # the one that was compared is not about this privilege, so the reader learns of no policy
    Remark.objects.update(privileges="WRITE")
    own = page_html(browse("dee").get(f"/ask?entity={ORDERS}&operation=READ"))
    assert REDACTED_REMARK not in own and said not in own
