"""The URLs of users and groups."""

from django.urls import path

from authzconsole.web.people.comparison import compare_users
from authzconsole.web.people.group_members import ChangeGroupMembers
from authzconsole.web.people.impersonation import SeeAs
from authzconsole.web.people.like import LikeColleague
from authzconsole.web.people.limited import NewExpiredPlan, limited_access
from authzconsole.web.people.managers import ChangeManager
from authzconsole.web.people.memberships import ChangeMembership
from authzconsole.web.people.names import RemovalPage, RenamePrincipal
from authzconsole.web.people.off_boarding import OffBoard
from authzconsole.web.people.own_access import GiveBack
from authzconsole.web.people.principal_list import AddPrincipal, principal_list
from authzconsole.web.people.principal_page import my_access, principal_page

urlpatterns = [
    path("people/", principal_list, name="people"),
    path("people/add", AddPrincipal.as_view(), name="people-add"),
    path("people/compare", compare_users, name="people-compare"),
    path("people/membership", ChangeMembership.as_view(), name="membership"),
    path("people/see-as", SeeAs.as_view(), name="see-as"),
    path("limited", limited_access, name="limited-access"),
    path("people/like", LikeColleague.as_view(), name="people-like"),
    path("people/rename/<path:principal>", RenamePrincipal.as_view(), name="person-rename"),
    path("people/remove/<path:principal>", RemovalPage.as_view(), name="person-remove"),
    path("people/members/<path:principal>", ChangeGroupMembers.as_view(), name="group-members"),
    path("people/manager/<path:principal>", ChangeManager.as_view(), name="person-manager"),
    path("people/leaving/<path:principal>", OffBoard.as_view(), name="person-off-board"),
    path("people/<path:principal>", principal_page, name="person"),
    path("my-access", my_access, name="my-access"),
    path("my-access/give-back", GiveBack.as_view(), name="give-back"),
    path("plans/expired", NewExpiredPlan.as_view(), name="plan-expired"),
]
