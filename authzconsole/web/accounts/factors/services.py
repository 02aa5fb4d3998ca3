"""Write the journal lines of changes to second factors, and reset the factors of accounts.

INVARIANT: only the owner adds a factor. The owner removes single factors; administrators and commands remove
all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from allauth.mfa.models import Authenticator
from django.db import transaction

from authzconsole.common.sign_in_methods.factors import factor_title, remove_all_factors
from grants.authority.transactions import administrator_transaction, check_can_manage_account
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import User
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability


@contextmanager
def journalled_factors(author: Author, user: User) -> Iterator[None]:
    """Append a line for each factor of the account that is added or removed inside, in one transaction.

    A factor that is replaced by one of the same title, such as the recovery codes, has one line.
    """
    if author.user_id != user.pk:
        raise GrantError("only the owner of an account can change its factors")
    with transaction.atomic():
        head = lock_journal()
        before = _titles(user)
        yield
        after = _titles(user)
        added = [title for pk, title in after.items() if pk not in before]
        removed = [title for pk, title in before.items() if pk not in after and title not in added]
        changes = [("factor-remove", title) for title in removed] + [("factor-add", title) for title in added]
        append_to_journal(
            head,
            [JournalEntry(action, principal=str(user), detail=title) for action, title in changes],
            author=author,
        )


def _titles(user: User) -> dict[int, str]:
    return {
        factor.pk: factor_title(factor) for factor in Authenticator.objects.filter(user=user).order_by("pk")
    }


def reset_factors(*, author: Author, name: str) -> Outcome:
    """Remove all factors of an account, for example after a phone was lost."""
    with administrator_transaction(author, capability=Capability.MANAGE_ACCOUNTS) as head:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise GrantError(f"user:{name} does not exist")
        check_can_manage_account(author, user)
        if titles := remove_all_factors(head, author, user):
            return Outcome(
                True, f"the second factors of {user} were removed: {', '.join(titles)}", head.revision
            )
        return Outcome(False, f"{user} has no second factor: nothing changed", head.revision)
