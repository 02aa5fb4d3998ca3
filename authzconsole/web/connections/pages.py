"""The pages of connections: the list, the form of a connection, and a connection with its last jobs."""

from collections.abc import Mapping

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_safe

from authzconsole.connections import services
from authzconsole.connections.jobs import (
    COMPARE_JOB,
    PUSH_JOB,
    SYNC_JOB,
    TEST_JOB,
    drift_row,
    newest_job,
    newest_jobs,
    request_connection_job,
    request_push,
)
from authzconsole.connections.platform import ConnectionFault
from authzconsole.lists.connections import Connections
from authzconsole.models import Connection
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    FormPage,
    NameInput,
    StrictChoiceField,
    TextField,
    optional,
    reason_field,
)
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import Page, paginate_sequence
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from grants.jobs import redis_problem
from grants.models import Job, JobState
from grants.policies.times import parse_time
from grants.principal_names import principals_by_name
from grants.roles.capabilities import Capability

TYPE_LABELS = {"cdap": "CDAP", "hive": "Hive metastore", "ranger": "Apache Ranger"}
# by name of an option, its label and what can be entered
OPTIONS = {
    "account": (
        "Account",
        "Write full if the account sees everything, or limited. With limited, nothing that is absent counts as deleted.",
    ),
    "service": ("Service", "The name of the service of the type cdap in Ranger."),
    "user": ("User", "The name under which the console acts on the platform."),
    "user_header": ("Header of the user", "The header in which a proxy expects the name of the user."),
    "verify": (
        "TLS certificate",
        "Write yes to verify it, no, or the path of a file with CA certificates on the server.",
    ),
}
RUNS = {"test": TEST_JOB, "sync": SYNC_JOB, "compare": COMPARE_JOB}
ROWS_PER_PAGE = 50
INTERVALS = {0: "Only on request", 1: "Every hour", 4: "Every 4 hours", 24: "Every day"}


@require_safe
@capability_required(Capability.READ_ALL)
def connection_list(request: HttpRequest) -> HttpResponse:
    jobs = newest_jobs()
    rows = [
        (row, TYPE_LABELS.get(row.type, row.type), _job_row(jobs.get(row.name)))
        for row in Connections(request.user).rows()
    ]
    can_change = request.user.can(Capability.MANAGE_SETTINGS)
    return render_page(request, "connections/list.html", {"rows": rows, "can_change": can_change})


def _job_row(job: Job | None) -> dict | None:
    return job and {
        "label": job.type.removeprefix(services.JOB_PREFIX),
        "state": job.state,
        "at": job.requested_at,
    }


def check_client(type_name: str) -> None:
    """Raise Http404 if the client for this type of platform is not installed."""
    try:
        services.platform_type(type_name)
    except ConnectionFault as error:
        raise Http404(str(error)) from None


class ConnectionForm(ConsoleForm):
    """A connection. type_name: of the platform; its options are fields."""

    id_pattern = "connection-%s"
    name = TextField(
        label="Name",
        help_text="Letters, digits and underscores.",
        max_characters=services.MAX_NAME_CHARACTERS,
        required=True,
        widget=NameInput(),
    )
    url = TextField(
        label="Address", max_characters=500, required=True, widget=NameInput({"inputmode": "url"})
    )
    token = TextField(
        label=optional("Token"),
        help_text="Stored encrypted, and never shown.",
        strip=True,
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )
    removes_token = FlagField(label="Remove the stored token")
    interval_hours = StrictChoiceField(label="Syncs", choices=list(INTERVALS.items()), default="0")
    applies_syncs = FlagField(
        label="Apply these syncs at once",
        help_text="Otherwise, a sync without a request only makes a plan, which you apply.",
    )
    reason = reason_field()

    def __init__(self, *args, type_name: str, has_secret: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.type_name = type_name
        self.fields["url"].widget.attrs["placeholder"] = (
            "thrift://metastore.example:9083" if type_name == "hive" else "https://platform.example:11443"
        )
        platform_type = services.platform_type(type_name)
        for name in platform_type.option_names:
            label, help_text = OPTIONS.get(name, (name, ""))
            is_required = name in platform_type.required_options
            self.fields[f"option_{name}"] = TextField(
                label=label if is_required else optional(label),
                help_text=help_text,
                max_characters=300,
                required=is_required,
                widget=NameInput(),
            )
        if secret := platform_type.secret_name:
            self.fields["token"].label = optional(secret.capitalize())
        else:
            del self.fields["token"]
        if not has_secret:
            del self.fields["removes_token"]

    @property
    def option_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name.startswith("option_")]

    def settings(self) -> dict:
        """Return the arguments of `change_connection`."""
        values = self.cleaned_data
        options = {
            name: values[f"option_{name}"] for name in services.platform_type(self.type_name).option_names
        }
        return {
            "url": values["url"],
            "options": {name: value for name, value in options.items() if value},
            "interval_hours": int(values["interval_hours"]),
            "applies_syncs": values["applies_syncs"],
        }


@method_decorator(sensitive_post_parameters("token"), name="dispatch")
@method_decorator(sensitive_variables("token"), name="perform")
class NewConnection(FormPage):
    """Add a connection. Without a type of platform in the URL, the page lists the types."""

    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_ALL,)
    decorators = (recent_authentication_required,)
    form_class = ConnectionForm
    template_name = "connections/edit.html"
    change_name = "Add a connection"
    connection: Connection | None = None

    def prepare(self) -> None:
        self.type_name = self.request.GET.get("type", "")
        if self.type_name in services.TYPES:
            check_client(self.type_name)
        elif self.type_name or self.request.method == "POST":
            raise Http404("there is no such type of platform")

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if not self.type_name:
            types = [(name, TYPE_LABELS.get(name, name)) for name in services.TYPES]
            return render_page(request, "connections/types.html", {"types": types})
        return super().get(request, *args, **kwargs)

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"type_name": self.type_name}

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "connection": self.connection,
            "type": TYPE_LABELS.get(self.type_name, self.type_name),
        }

    def perform(self, form: ConnectionForm) -> HttpResponse:
        author, settings = self.author(form), form.settings()
        with transaction.atomic():
            connection = services.add_connection(
                author=author,
                type_name=self.type_name,
                name=form.cleaned_data["name"],
                url=settings["url"],
                options=settings["options"],
            )
            services.change_connection(connection, author=author, **settings)
            if token := form.cleaned_data.get("token"):
                services.store_token(connection, token, author=author)
        messages.success(self.request, f"The connection {connection.name} is added. Test it, then sync.")
        return see_other(reverse("connection", args=[connection.name]))


class OnConnection(FormPage):
    """Do something with a connection."""

    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_ALL,)
    decorators = (recent_authentication_required,)

    def prepare(self) -> None:
        self.connection = get_object_or_404(
            Connection.objects.defer("creations", "plan_creations").select_related("plan"),
            name=self.kwargs["name"],
        )

    @property
    def url(self) -> str:
        return reverse("connection", args=[self.connection.name])


class ChangeConnection(OnConnection, NewConnection):
    """Change a connection. An empty token keeps the stored one."""

    @property
    def change_name(self) -> str:
        return f"Change the connection {self.connection.name}"

    def prepare(self) -> None:
        super().prepare()
        self.type_name = self.connection.type
        check_client(self.type_name)

    def get_initial(self) -> dict:
        connection = self.connection
        return {
            "name": connection.name,
            "url": connection.url,
            "interval_hours": connection.interval_hours,
            "applies_syncs": connection.applies_syncs,
            **{f"option_{name}": value for name, value in connection.options.items()},
        }

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"has_secret": bool(self.connection.secret)}

    def perform(self, form: ConnectionForm) -> HttpResponse:
        values, connection = form.cleaned_data, self.connection
        author, had_secret = self.author(form), bool(connection.secret)
        with transaction.atomic():
            services.change_connection(connection, author=author, **form.settings())
            token = values.get("token", "")
            if token or values.get("removes_token"):
                services.store_token(connection, token, author=author)
        text = f"The connection {connection.name} is changed."
        if had_secret and not connection.secret and not token:
            text = f"{text} Its token was removed, because the address is another one: enter it again."
        messages.success(self.request, text)
        return see_other(self.url)


class DeletionForm(ConsoleForm):
    reason = reason_field()


class DeleteConnection(OnConnection):
    """Delete a connection."""

    form_class = DeletionForm
    template_name = "connections/delete.html"

    @property
    def change_name(self) -> str:
        return f"Delete the connection {self.connection.name}"

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {"connection": self.connection}

    def perform(self, form: DeletionForm) -> HttpResponse:
        author = self.author(form)
        services.delete_connection(self.connection, author=author)
        messages.success(self.request, f"The connection {self.connection.name} is deleted.")
        return see_other(reverse("connections"))


class RunForm(ConsoleForm):
    """What a job is to do with the platform."""

    id_pattern = "run-%s"
    verb = TextField()
    accepts_shrunken = FlagField(
        label="Accept a platform that lost more than half of its entities",
        help_text="Otherwise such an answer is refused, because it may be incomplete.",
    )


class JobsPage(OnConnection):
    """Show the newest jobs of a connection. section: the part that reloads itself until they are finished."""

    http_method_names = ("get", "head")
    capabilities = (Capability.READ_ALL,)
    decorators = ()
    section: str
    section_template: str
    # by name in the context
    job_types: Mapping[str, str]

    def get_template_names(self) -> list[str]:
        is_section = requested_section(self.request) == self.section
        return [self.section_template if is_section else self.template_name]

    def get_context_data(self, **context) -> dict:
        connection, user = self.connection, self.request.user
        jobs = {name: newest_job(connection, job_type) for name, job_type in self.job_types.items()}
        requested = [job for job in jobs.values() if job]
        is_waiting = any(job.state == JobState.WAITING for job in requested)
        return (
            super().get_context_data(**context)
            | jobs
            | {
                "connection": connection,
                "type": TYPE_LABELS.get(connection.type, connection.type),
                "url": self.request.path,
                "is_running": any(not job.is_finished for job in requested),
                "waiting_reason": redis_problem() if is_waiting else "",
                "has_grants": bool(services.platform_type(connection.type).capabilities),
                "can_change": user.can(Capability.CHANGE_GRANTS),
            }
        )

    def page_of(self, job: Job | None, name: str) -> Page:
        """Return the rows with this name in the result of a job."""
        rows = job.summary.get(name, ()) if job else ()
        return paginate_sequence(self.request, rows, max_rows=ROWS_PER_PAGE, name=name)


class ConnectionPage(JobsPage):
    """Show a connection, with its test and its syncs."""

    form_class = RunForm
    template_name = "connections/page.html"
    section, section_template = "jobs", "connections/_jobs.html"
    job_types = {"test": TEST_JOB, "sync": SYNC_JOB, "comparison": COMPARE_JOB}

    def get_context_data(self, **context) -> dict:
        context, connection = super().get_context_data(**context), self.connection
        return context | {
            "options": [
                (OPTIONS.get(name, (name, ""))[0], value) for name, value in connection.options.items()
            ],
            "interval": INTERVALS.get(connection.interval_hours),
            "secret_name": services.platform_type(connection.type).secret_name.capitalize(),
            "plan": connection.plan,
            "unsupported": self.page_of(context["sync"], "unsupported"),
            "can_manage": self.request.user.can(Capability.MANAGE_SETTINGS),
        }


class PushForm(ConsoleForm):
    """A push of the comparison that was shown."""

    refusal = "Nothing was changed on the platform"
    id_pattern = "push-%s"
    shown = TextField(widget=forms.HiddenInput)
    reason = reason_field(required=True)


class DriftPage(JobsPage):
    """Show where the console and the platform differ, and the changes that make them equal."""

    form_class = PushForm
    template_name = "connections/drift.html"
    section, section_template = "drift", "connections/_drift.html"
    job_types = {"comparison": COMPARE_JOB, "push": PUSH_JOB}

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        names = ("rows", "changes", "unsupported")
        pages = {name: self.page_of(context["comparison"], name) for name in names}
        drift = [drift_row(row) for row in pages["rows"].rows]
        for row in drift:
            row["granted_at"] = parse_time(row["granted_at"]) if row["granted_at"] else None
        known = set(principals_by_name({row["principal"] for row in drift}))
        return context | pages | {"drift": drift, "known_principals": known}


class PushConnection(DriftPage):
    """Start a push."""

    http_method_names = ("post",)
    capabilities = (Capability.CHANGE_GRANTS,)
    visible_to = (Capability.READ_ALL,)
    decorators = (recent_authentication_required,)

    @property
    def change_name(self) -> str:
        return f"Change the grants on {self.connection.name}"

    def perform(self, form: PushForm) -> HttpResponse:
        author = self.author(form)
        request_push(
            self.connection,
            author=author,
            shown=form.cleaned_data["shown"],
            requested_by=self.request.user,
        )
        return see_other(reverse("connection-drift", args=[self.connection.name]))


class RunConnection(ConnectionPage):
    """Start a job for the connection, as the posted `verb` says."""

    http_method_names = ("post",)
    capabilities = (Capability.CHANGE_GRANTS,)
    visible_to = (Capability.READ_ALL,)

    def perform(self, form: RunForm) -> HttpResponse:
        verb = form.cleaned_data["verb"]
        if verb not in RUNS:
            raise ConnectionFault("choose what to do with the connection", field="verb")
        author = request_author(self.request, f"{verb} of {self.connection.name}")
        accepts = {"accepts_shrunken": "yes"} if form.cleaned_data["accepts_shrunken"] else {}
        request_connection_job(
            self.connection, RUNS[verb], author=author, requested_by=self.request.user, options=accepts
        )
        page = "connection-drift" if verb == "compare" else "connection"
        return see_other(reverse(page, args=[self.connection.name]))
