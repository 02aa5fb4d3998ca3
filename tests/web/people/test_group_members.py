"""The members of a group or role are changed from a list of names, with the effect before, by a plan that can be
undone.
"""

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile

from grants.change_set import AddGroup, ChangeSet, Join
from grants.changes import apply as apply_change_set
from grants.models import Plan, User
from grants.plans.sources.members import MAX_NAMES
from grants.policies.principals import group_text
from tests.support.authors import COMMAND, database_state
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
    assert "Adds 2 members" in preview and "user:dee, user:out" in preview
    assert (
        "1 named member does not change" in preview and "Gives " in preview and "gained</button>" in preview
    )
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


@pytest.fixture
def role(cast) -> str:
    """A role with the member dee and a grant. Return the URL of its form."""
    apply_change_set(ChangeSet.of(AddGroup("role:readers"), Join("dee", "role:readers")), author=COMMAND)
    add_grant("role:readers", "dataset:hr.salaries", "READ")
    return "/people/members/role:readers"


def members_of_role() -> set[str]:
    role = Group.objects.get(name="role:readers")
    groups = role.role_groups.values_list("group__name", flat=True)
    return {*role.user_set.values_list("username", flat=True), *map(group_text, groups)}


def test_users_and_groups_are_added_to_a_role_after_the_effect_was_shown(browse, role):
    client = browse("ada")
    assert "users and groups" in page_html(client.get(role))
    form = {"verb": "add", "text": "user:out\n group:operators\ngroup:operators\ndee"}
    preview = page_html(client.post(role, form | {"preview": "yes"}))
    assert "Adds 2 members" in preview and "group:operators, user:out" in preview
    # grp gains it too, through operators
    assert "1 named member does not change" in preview and "grp" in preview and "Gives " in preview
    client.post(role, form)
    plan = Plan.objects.get()
    assert plan.title == "Add 2 members to role:readers"
    apply(client, plan)
    assert members_of_role() == {"dee", "out", "group:operators"}
    client.post(f"/plans/{plan.pk}/undo", follow=True)
    apply(client, Plan.objects.latest("pk"))
    assert members_of_role() == {"dee"}


def test_the_named_users_and_groups_become_the_only_members_of_a_role(browse, role):
    client = browse("ada")
    client.post(role, {"verb": "replace", "text": "group:operators"})
    apply(client, Plan.objects.get())
    assert members_of_role() == {"group:operators"}
    client.post(role, {"verb": "remove", "text": "group:operators\ndee"})
    assert Plan.objects.latest("pk").title == "Remove 1 member from role:readers"


def test_lines_that_name_no_possible_member_of_a_role_are_listed(browse, role):
    page = browse("ada").post(role, {"verb": "add", "text": "out\ngroup:nobody\nrole:readers\nnobody\nuser:"})
    assert page.status_code == 400 and not Plan.objects.exists()
    assert [(fault.line, fault.name) for fault in page.context["bad_names"].faults] == [
        (2, "group:nobody"),
        (3, "role:readers"),
        (4, "user:nobody"),
        (5, "user:"),
    ]
    assert "a role cannot contain a role" in page_html(page) and "add the group first" in page_html(page)
    of_group = browse("ada").post(URL, {"verb": "add", "text": "group:operators"})
    assert "only roles contain groups" in page_html(of_group)


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
        with django_assert_max_num_queries(32):
            assert "Adds " in page_html(client.post(URL, {"verb": "replace", "text": text, "preview": "yes"}))
