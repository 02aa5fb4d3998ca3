"""The page of a list that `authzconsole/lists` declares, and its files."""

from typing import ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.views import View

from authzconsole.lists.files import list_file
from authzconsole.web.forms import ListForm
from authzconsole.web.shared.guard import check_page_access
from authzconsole.web.shared.paging import Page, keyset_page
from authzconsole.web.shared.rendering import render_page, requested_section


class ListView(View):
    """A view of a list for its readers, or for every account if `select` limits the rows. `form` has the filters in the URL.

    form_class: names the list and parses its filters.
    """

    http_method_names = ("get", "head")
    form_class: type[ListForm] = ListForm

    def dispatch(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.method.lower() not in self.http_method_names:
            return self.http_method_not_allowed(request)
        if readers := self.form_class.list_type.readers:
            check_page_access(request, *readers)
        self.form = self.form_class(request.GET)
        return super().dispatch(request, *args, **kwargs)


class ListPage(ListView):
    """A page of rows, with the form of the filters, a pager and links to the files.

    template_name: of the page. section: the id of the part that filters and the pager replace, and the template of that part.
    page_url, file_url: the names of the URLs of the page, and of its files with an argument `extension`.
    """

    template_name: ClassVar[str]
    section: ClassVar[tuple[str, str]]
    page_url: ClassVar[str]
    file_url: ClassVar[str]
    rows_per_page: ClassVar[int] = 50

    def get(self, request: HttpRequest) -> HttpResponse:
        name, template = self.section
        is_section = requested_section(request) == name
        return render_page(request, template if is_section else self.template_name, self.get_context_data())

    def get_context_data(self) -> dict:
        listed = self.form.filtered_list(self.request.user)
        return {
            "form": self.form,
            "page": self.page(listed.rows(), listed.order),
            "url": reverse(self.page_url),
            "downloads": self.form.downloads(self.file_url),
        }

    def page(self, rows: QuerySet, order: tuple[str, ...]) -> Page:
        return keyset_page(self.request, rows, *order, max_rows=self.rows_per_page)


class ListFile(ListView):
    """A file with all rows that match the filters of the URL, in the order of the list."""

    def get(self, request: HttpRequest, extension: str) -> StreamingHttpResponse:
        return list_file(self.form.filtered_list(request.user), extension)
