"""Invite users, one or several at once, and the page of a link with which an invited user chooses the password."""

import csv
from collections.abc import Iterator

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse, reverse_lazy

from authzconsole.common.invitations import (
    Invitation,
    can_be_invited,
    invitation_tokens,
    invite,
    send_invitations,
)
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import ConsoleForm, FormPage, FormRefused, TextField, reason_field
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import render_page, see_other
from grants.errors import GrantError
from grants.journal import Author
from grants.models import User
from grants.principals.services import accept_invitation, add_user, set_full_name
from grants.roles.capabilities import Capability

MAX_INVITED = 100


class InvitationForm(ConsoleForm):
    id_pattern = "invite-%s"

    accounts = TextField(
        label="Users",
        max_characters=50_000,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "autocomplete": "off"}),
        help_text=f"One on each line: name, email, full name. At most {MAX_INVITED}. Users that do not exist are added.",
    )
    reason = reason_field()

    def clean_accounts(self) -> list[tuple[int, str, str, str]]:
        """Return the number of each line, and the name, the email and the full name in it."""
        rows = list(_account_lines(self.cleaned_data["accounts"]))
        if not rows:
            raise ValidationError("Name at least one user.")
        if len(rows) > MAX_INVITED:
            raise ValidationError(
                f"These are {len(rows):,} users; {MAX_INVITED} are allowed: invite them in parts."
            )
        names = [name for _, name, _, _ in rows]
        if repeated := next((name for name in names if names.count(name) > 1), ""):
            raise ValidationError(f"{repeated} is repeated: keep one of the lines.")
        return rows


def _account_lines(text: str) -> Iterator[tuple[int, str, str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        values = [value.strip() for value in next(csv.reader([line], skipinitialspace=True), [])]
        if not any(values):
            continue
        if len(values) > 3 or not values[0]:
            raise ValidationError(
                f"Line {number} is not a name, an email and a full name, with commas between them."
            )
        name, email, full_name = (*values, "", "")[:3]
        yield number, name, email, full_name


class InviteUsers(FormPage):
    """Add and invite users. Links that are not sent by e-mail are shown in this response and never again."""

    capabilities = (Capability.MANAGE_ACCOUNTS,)
    visible_to = (Capability.READ_ACCOUNTS,)
    decorators = (recent_authentication_required,)
    form_class = InvitationForm
    template_name = "accounts/invite.html"

    @property
    def change_name(self) -> str:
        return "Invite users"

    def perform(self, form: InvitationForm) -> HttpResponse:
        author = self.author(form)
        with transaction.atomic():
            invitations = [_invite(author, *row) for row in form.cleaned_data["accounts"]]
        sent = send_invitations(invitations)
        context = {"invitations": invitations, "sent": sent, "hours": settings.FIRST_PASSWORD_HOURS}
        return render_page(self.request, "accounts/invited.html", context)


def _invite(author: Author, number: int, name: str, email: str, full_name: str) -> Invitation:
    """Invite a user, who is added first if there is no such user. Raise FormRefused with the number of the line."""
    try:
        if not User.objects.filter(username=name).exists():
            add_user(author=author, name=name, email=email)
            if full_name:
                set_full_name(author=author, name=name, full_name=full_name)
        elif email or full_name:
            raise FormRefused(
                f"line {number}: user:{name} exists already: write only the name to invite this user"
            )
        return invite(author=author, name=name)
    except FormRefused:
        raise
    except GrantError as error:
        raise FormRefused(f"line {number}: {error}") from error


class AcceptInvitation(views.PasswordResetConfirmView):
    """Choose the first password with the link of an invitation.

    Django moves the token from the URL to the session, so that it is in no history and no referrer.
    """

    template_name = "accounts/accept_invitation.html"
    token_generator = invitation_tokens
    reset_url_token = "choose-password"
    success_url = reverse_lazy("sign-in")

    def get_user(self, uidb64: str) -> User | None:
        user = super().get_user(uidb64)
        return user if user is not None and can_be_invited(user) else None

    def form_valid(self, form) -> HttpResponse:
        user = self.user
        author = request_author(self.request, user=user)
        self.request.session.pop(views.INTERNAL_RESET_SESSION_TOKEN, None)
        if accept_invitation(author=author, user=user, password=form.cleaned_data["new_password1"]):
            messages.success(self.request, "Your password is set. Sign in with it.")
        else:
            messages.error(self.request, "This link was used already. Ask an administrator for another one.")
        return see_other(reverse("sign-in"))
