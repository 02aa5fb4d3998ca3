"""Test the fields of forms and the base view of pages with a form."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.http import QueryDict

from authzconsole.web.forms import (
    AddressField,
    ConsoleForm,
    FlagField,
    NumberField,
    OptionalChoiceField,
    PrincipalField,
    StrictChoiceField,
    TextField,
    TextsField,
    TimeField,
    reason_field,
)
from entities.address import parse_address
from tests.support.pages import page_html

WEB = Path(settings.BASE_DIR) / "authzconsole" / "web"
READ = re.compile(r"request\.POST\b(?! if request\.method)")


class Form(ConsoleForm):
    refusal = "Nothing was changed"

    text = TextField(required=True)
    number = NumberField()
    flag = FlagField()
    list = TextsField()
    entity = AddressField()
    at = TimeField()
    verb = OptionalChoiceField(default="add", choices=[("add", "Add"), ("remove", "Remove")])
    kind = StrictChoiceField(choices=[("dataset", "Dataset")])
    reason = reason_field()


def sent(**values) -> Form:
    query = QueryDict(mutable=True)
    for name, value in values.items():
        query.setlist(name, value if isinstance(value, list) else [value])
    return Form(query)


def test_only_forms_read_what_was_sent_in_a_body():
    """An answer of a SAML provider is a message of the protocol, which python3-saml reads."""

    readers = {str(path.relative_to(WEB)) for path in WEB.rglob("*.py") if READ.search(path.read_text())}
    assert readers == {"accounts/providers/saml.py"}


def test_fields_clean_what_was_sent():
    form = sent(
        text=" a\0b ", number="7", flag="yes", list=["x", "y", "x"], entity="dataset:sales.orders", verb="fly"
    )
    assert form.is_valid()
    values = form.cleaned_data
    assert (values["text"], values["number"], values["flag"], values["list"]) == ("ab", 7, True, ["x", "y"])
    assert (values["entity"], values["verb"], values["at"]) == (
        parse_address("dataset:sales.orders"),
        "add",
        None,
    )


def test_missing_values_are_left_to_the_services():
    form = sent()
    assert form.is_valid()
    assert form.cleaned_data == {
        "text": "",
        "number": 0,
        "flag": False,
        "list": [],
        "entity": None,
        "at": None,
        "verb": "add",
        "kind": "",
        "reason": "",
    }
    assert " required" in str(form["text"]) and " required" not in str(form["reason"])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("number", "x", "`x` is not a whole number, such as 30."),
        ("entity", "sales", "`sales` is not an address"),
        ("at", "soon", "`soon` is not a time"),
        ("kind", "table", "`table` is not one of dataset."),
    ],
)
def test_an_invalid_value_is_explained_beside_its_field_and_stays(name, value, message):
    form = sent(**{name: value})
    assert not form.is_valid() and set(form.errors) == {name} and message in form.errors[name][0]
    field = form[name].as_field_group()
    assert f'aria-describedby="{name}_error"' in field and 'aria-invalid="true"' in field
    assert f'id="{name}_error" role="alert"' in field and (f'value="{value}"' in field or name == "kind")


def test_a_flag_is_checked_by_exactly_one_value():
    assert not sent(flag="no").is_valid() or not sent(flag="no")["flag"].value()
    assert 'value="yes" checked' in str(sent(flag="yes")["flag"])


def test_the_parameters_of_a_url_are_initial_values():
    query = QueryDict("text=a&list=x&list=y&flag=yes&other=1")
    assert Form.initial_from(query) == {"text": "a", "list": ["x", "y"], "flag": True}


@pytest.mark.django_db
def test_a_principal_keeps_the_spaces_of_its_name():
    field = PrincipalField(), PrincipalField(only="user")
    assert [each.clean(" user:dee ") for each in field] == ["user:dee", "dee"]


@pytest.mark.django_db
def test_a_refusal_is_shown_beside_its_field_with_its_status_and_the_input(browse):
    answer = browse("ada").post("/people/manager/user:dee", {"manager": "nobody", "reason": "leads"})
    text = page_html(answer)
    assert answer.status_code == 400 and "user:nobody does not exist" in text
    assert 'value="nobody"' in text and 'value="leads"' in text
    assert 'aria-describedby="manager-manager_helptext manager-manager_error"' in text


@pytest.mark.django_db
def test_the_wrong_method_is_answered_before_the_permission(browse):
    assert browse("ned").put("/people/manager/user:dee").status_code == 405
    assert browse("ned").get("/people/manager/user:dee").status_code == 404
    assert browse("aud").get("/people/manager/user:dee").status_code == 403
