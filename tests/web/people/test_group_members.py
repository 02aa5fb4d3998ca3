"""The members of a group are changed from a list of names, with the effect before, by a plan that can be
undone.
"""

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile

from grants.models import Plan, User
from grants.plans.sources.members import MAX_NAMES
from tests.support.authors import database_state
from tests.support.changes import add_grant
from tests.support.pages import page_html, shown_effect_of_plan

pytestmark = pytest.mark.django_db

URL = "/people/members/group:operators"


def members():
    return sorted(Group.objects.get(name="operators").user_set.values_list("username", flat=True))


def test_members_are_added_after_the_effect_was_shown_and_the_plan_is_undone(browse):
    client, before = browse("ada"), database_state()
    form = {
        "verb": "add",
        "text": "out\r\n user:dee \n\ngrp\nout\n",
        "valid_from": "",
        "valid_until": "",
        "until_preset": "",
    }
    preview = page_html(client.post(URL, form | {"preview": "yes"}))
    assert "Adds 2 members" in preview and "dee, out" in preview
    assert "1 named user does not change" in preview and "Gives " in preview and "gained</button>" in preview
    assert database_state() == before
    page = client.post(URL, form, follow=True)
    plan = Plan.objects.get()
    assert (plan.title, plan.origin) == ("Add 2 members to group:operators", "members")
    assert "Effect on permissions" in page_html(page)
    assert members() == ["grp"]
    apply(client, plan)
    assert members() == ["dee", "grp", "out"]
    client.post(f"/plans/{plan.pk}/undo", follow=True)
    apply(client, Plan.objects.latest("pk"))
    assert members() == ["grp"]


def apply(client, plan):
    form = {
        "reason": "because",
        **shown_effect_of_plan(client, plan),
        "beyond": "yes",
        "strand": "yes",
    }
    assert client.post(f"/plans/{plan.pk}/apply", form).status_code == 303


def test_the_named_users_become_the_only_members(browse):
    add_grant("group:operators", "dataset:hr.salaries", "ADMIN")
    file = SimpleUploadedFile("names.txt", "\ufeffdee\nned\n".encode())
    preview = page_html(
        browse("ada").post(URL, {"verb": "replace", "file": file, "text": "out", "preview": "yes"})
    )
    assert "Adds 2 members" in preview and "Removes 1 member" in preview and "dee ned" in preview
    file.seek(0)
    browse("ada").post(URL, {"verb": "replace", "file": file})
    assert Plan.objects.get().title == "Add 2 members to and remove 1 member from group:operators"
    removal = page_html(browse("ada").post(URL, {"verb": "remove", "text": "grp", "preview": "yes"}))
    assert "would have no ADMIN holder" in removal


def test_a_period_applies_to_new_members(browse):
    form = {"verb": "add", "text": "grp\nout", "valid_until": "2126-12-05T17:00"}
    browse("ada").post(URL, form)
    (item,) = Plan.objects.get().items.all()
    assert (item.principal_name, item.valid_until.year) == ("out", 2126)
    over = browse("ada").post(URL, form | {"valid_until": "2020-12-05T17:00"})
    assert over.status_code == 400 and Plan.objects.count() == 1


def test_lines_that_name_no_user_are_listed_and_nothing_is_created(browse):
    page = browse("ada").post(URL, {"verb": "add", "text": "out\nnobody\n\n" + "x" * 200})
    text = page_html(page)
    assert (
        page.status_code == 400
        and "2 lines to correct" in text
        and "nobody" in text
        and not Plan.objects.exists()
    )
    assert [fault.line for fault in page.context["bad_names"].faults] == [2, 4]


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"text": " \n"}, "there are no names"),
        ({"text": "grp"}, "this changes no member"),
        ({"text": "out\0"}, "line to correct"),
        ({"text": "\n".join(map(str, range(MAX_NAMES + 1)))}, "10,001 names, and 10,000 are allowed"),
        ({"text": "x" * 600_000}, "longer than 512 kB"),
        ({"file": SimpleUploadedFile("names.txt", b"\xff\xfe")}, "not UTF-8"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(browse, form, sentence):
    page = browse("ada").post(URL, {"verb": "add"} | form)
    assert page.status_code == 400 and sentence in page_html(page) and not Plan.objects.exists()


def test_only_groups_have_the_form_and_administrators_a_link_to_it(browse):
    assert [
        browse("ada").get(f"/people/members/{name}").status_code for name in ("user:ned", "group:none", "x")
    ] == [404] * 3
    assert "Change many" in page_html(browse("ada").get("/people/group:operators"))
    assert "Change many" not in page_html(browse("aud").get("/people/group:operators"))


def test_the_number_of_queries_does_not_grow_with_the_names(browse, django_assert_max_num_queries):
    User.objects.bulk_create(User(username=f"many{number}", password="!") for number in range(60))
    client = browse("ada")
    client.post(URL, {"verb": "add", "text": "out", "preview": "yes"})
    for text in ("out\ndee", "\n".join(f"many{number}" for number in range(60))):
        with django_assert_max_num_queries(31):
            assert "Adds " in page_html(client.post(URL, {"verb": "replace", "text": text, "preview": "yes"}))
