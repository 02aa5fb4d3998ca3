"""The URLs of sign-in, accounts, sessions and tokens."""

from django.urls import path

from authzconsole.web.accounts.account_pages import (
    RenewPassword,
    ResetFactors,
    UnlinkIdentity,
    account_list,
    account_page,
    change_account,
)
from authzconsole.web.accounts.factors.pages import (
    NewApp,
    NewPasskey,
    NewRecoveryCodes,
    PasskeySignIn,
    RemoveFactor,
    SecondFactorSignIn,
    factor_list,
)
from authzconsole.web.accounts.invitations import AcceptInvitation, InviteUsers
from authzconsole.web.accounts.providers.openid_connect import provider_callback, provider_login
from authzconsole.web.accounts.providers.saml import SignOut, saml_acs, saml_metadata, saml_slo
from authzconsole.web.accounts.reauthentication import Reauthenticate
from authzconsole.web.accounts.sessions import AccountSessions, OwnSessions
from authzconsole.web.accounts.sign_in import PasswordChange, SignIn, healthz
from authzconsole.web.accounts.time_zone import ChooseTimeZone
from authzconsole.web.accounts.tokens import NewToken, RevokeToken, token_list

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    # the name that django-allauth uses
    path("sign-in", SignIn.as_view(), name="account_login"),
    path("sign-in/second-factor", SecondFactorSignIn.as_view(), name="mfa_authenticate"),
    path("sign-in/passkey", PasskeySignIn.as_view(), name="passkey-sign-in"),
    path("sign-in/<slug:provider_id>", provider_login, name="openid_connect_login"),
    path("sign-in/<slug:provider_id>/callback", provider_callback, name="openid_connect_callback"),
    path("sign-in/<slug:provider_id>/acs", saml_acs, name="saml-acs"),
    path("sign-in/<slug:provider_id>/metadata", saml_metadata, name="saml-metadata"),
    path("sign-in/<slug:provider_id>/slo", saml_slo, name="saml-slo"),
    path("invitation/<str:uidb64>/<str:token>", AcceptInvitation.as_view(), name="invitation"),
    path("accounts/invite", InviteUsers.as_view(), name="account-invite"),
    path("sign-out", SignOut.as_view(), name="sign-out"),
    path("sessions", OwnSessions.as_view(), name="sessions"),
    path("time-zone", ChooseTimeZone.as_view(), name="time-zone"),
    path("reauthenticate", Reauthenticate.as_view(), name="reauthenticate"),
    path("second-factor", factor_list, name="second-factor"),
    path("second-factor/app", NewApp.as_view(), name="second-factor-app"),
    path("second-factor/passkey", NewPasskey.as_view(), name="second-factor-passkey"),
    path("second-factor/codes", NewRecoveryCodes.as_view(), name="second-factor-codes"),
    path("second-factor/<int:pk>/remove", RemoveFactor.as_view(), name="second-factor-remove"),
    path("password", PasswordChange.as_view(), name="password"),
    path("accounts/", account_list, name="accounts"),
    path("accounts/tokens/", token_list, name="tokens"),
    path("accounts/tokens/new", NewToken.as_view(), name="token-new"),
    path("accounts/tokens/<int:pk>/revoke", RevokeToken.as_view(), name="token-revoke"),
    path("accounts/password/<path:principal>", RenewPassword.as_view(), name="account-password"),
    path("accounts/sessions/<path:principal>", AccountSessions.as_view(), name="account-sessions"),
    path("accounts/identities/<int:pk>/unlink", UnlinkIdentity.as_view(), name="account-identity-unlink"),
    path("accounts/second-factor/<path:principal>", ResetFactors.as_view(), name="account-second-factor"),
    path("accounts/change/<path:principal>", change_account, name="account-change"),
    path("accounts/<path:principal>", account_page, name="account"),
]
