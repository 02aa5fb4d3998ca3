"""Change the password of an account, with a journal line. The prompts are those of Django's command."""

from django.contrib.auth.hashers import make_password
from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal
from grants.management.console_command import ConsoleCommand
from grants.models import User
from grants.principals.hooks import end_access


class Command(ConsoleCommand, changepassword.Command):
    help = "Change the password of an account. The journal records the change."

    def handle(self, *, username, **options):
        user = User.objects.filter(username=username).first()
        if user is None or user.is_service:
            raise CommandError(f"`{username}` is not an account that can sign in")
        self.stdout.write(f"Changing password for user '{user}'")
        password = self._get_pass()
        if password != self._get_pass("Password (again): "):
            raise CommandError("the two passwords differ")
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        # the prompts and the slow hash precede the lock of the journal
        hashed, author = make_password(password), Author("changepassword")
        with administrator_transaction(author) as head:
            User.objects.filter(pk=user.pk).update(
                password=hashed, must_change_password=False, password_expires_at=None
            )
            changes = [
                JournalEntry("password-set", principal=str(user)),
                *end_access([user.pk], with_tokens=False),
            ]
            append_to_journal(head, changes, author=author)
        self.stdout.write(f"Password changed successfully for user '{user}'")
