"""Charts of reports: proportions, maximum size, links and caching."""

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.analyses import ANALYSES
from analytics.models import Figure
from authzconsole.web.reports.charts import report_charts
from authzconsole.web.reports.charts.namespace_treemap import largest_namespaces
from authzconsole.web.reports.charts.report_charts import MAX_NAMESPACES, MAX_USERS
from authzconsole.web.reports.charts.treemap_layout import LANDSCAPE, PORTRAIT, TreemapItem, treemap
from authzconsole.web.reports.charts.trends import MAX_RUNS, axis_ticks, report_trends
from tests.support.pages import page_html
from tests.support.reports import create_report

IMPACT = {"generation": "final", "to_generation": "core"}


def item(number: int, area: int) -> TreemapItem:
    return TreemapItem(f"n{number}", area, "", "")


# beside other tests, all times depend on the machine
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 1_000_000), max_size=60), st.sampled_from([LANDSCAPE, PORTRAIT]))
def test_tiles_fit_the_chart_without_overlapping(areas, size):
    tiles = treemap([item(number, area) for number, area in enumerate(areas)], size)
    assert len(tiles) == sum(area > 0 for area in areas)
    for index, tile in enumerate(tiles):
        assert (
            tile.x >= 0
            and tile.y >= 0
            and tile.x + tile.width <= size[0] + 1
            and tile.y + tile.height <= size[1] + 1
        )
        for other in tiles[:index] if tile.width > 2 and tile.height > 2 else []:
            is_side_by_side = tile.x + tile.width <= other.x + 0.6 or other.x + other.width <= tile.x + 0.6
            assert (
                is_side_by_side
                or tile.y + tile.height <= other.y + 0.6
                or other.y + other.height <= tile.y + 0.6
            )


def test_tile_areas_are_proportional():
    large, small = treemap([item(1, 300), item(2, 100)])
    assert ((large.width + 2) * (large.height + 2)) / (
        (small.width + 2) * (small.height + 2)
    ) == pytest.approx(3, rel=0.01)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


def chart(client, run) -> dict | None:
    response = client.get(f"/analyses/{run.pk}/")
    assert response.status_code == 200
    return response.context["chart"]


def test_readiness_tiles_link_to_their_rows(browse, folder):
    run = create_report(
        folder,
        {
            "rows": [("sales", "ned", 6, 6, 0, True)],
            "namespaces": [
                ("empty", 1, 0, 0, None, None, True),
                ("hr", 2, 1, 0, 2, "dee", True),
                ("sales", 6, 3, 2, 0, "ned", False),
            ],
        },
    )
    client = browse("aud")
    tiles = chart(client, run)["tiles"]
    assert [(tile.item.name, tile.item.area, tile.item.meaning) for tile in tiles] == [
        ("sales", 6, "good"),
        ("hr", 2, "bad"),
        ("empty", 1, "bad"),
    ]
    assert client.get(tiles[0].item.url.removesuffix("#rows")).context["table"]["total"] == 1


def test_the_heat_map_groups_users_by_namespace(browse, folder):
    cells = [("ned", "sales", 6), ("dee", "sales", 2), ("zed", "hr", 2), ("grp", "sales", 1), ("zed", "", 4)]
    rows = [
        ("ned", "dataset", "sales", 6),
        ("ned", "dataset", "sales_archive", 1),
        ("nedney", "dataset", "sales", 1),
    ]
    run = create_report(
        folder, {"rows": rows, "namespaces": cells}, analysis="visibility", options={"generation": "final"}
    )
    client = browse("aud")
    heat = chart(client, run)
    assert [column["name"] for column in heat["columns"]] == ["sales", "hr"]
    assert [(row["name"], [cell["step"] for cell in row["cells"]]) for row in heat["rows"]] == [
        ("ned", [5, 0]),
        ("dee", [3, 0]),
        ("grp", [3, 0]),
        ("zed", [0, 3]),
    ]
    assert client.get(heat["rows"][0]["cells"][0]["url"].removesuffix("#rows")).context["table"]["total"] == 1
    assert client.get(heat["rows"][0]["url"].removesuffix("#rows")).context["table"]["total"] == 2
    assert [column["url"] for column in heat["columns"]] == [
        "/entities/namespace:sales",
        "/entities/namespace:hr",
    ]


def test_the_heat_map_is_bounded(browse, folder):
    cells = sorted(
        (f"u{user:03}", f"n{name:03}", 1 + (user + name) % 50) for user in range(60) for name in range(40)
    )
    run = create_report(
        folder, {"rows": [], "namespaces": cells}, analysis="visibility", options={"generation": "final"}
    )
    heat = chart(browse("aud"), run)
    assert (len(heat["rows"]), len(heat["columns"]), heat["is_cut"]) == (MAX_USERS, MAX_NAMESPACES, True)


def test_policy_impact_bars_start_at_a_common_zero(browse, folder):
    rows = [("dataset", "read", 3, 0, 8), ("stream", "get", 2, 4, 0)]
    # the links must not match rows of another operation that contains the same text
    impact_rows = [
        ("ned", "dataset", "get-properties", 0, 1),
        ("ned", "dataset", "read", 0, 8),
        ("ned", "stream", "get", 4, 0),
        ("ned", "stream", "read-events", 1, 0),
        ("ned", "stream", "get-properties", 1, 0),
    ]
    run = create_report(
        folder, {"rows": sorted(impact_rows), "operations": rows}, analysis="policy-impact", options=IMPACT
    )
    client = browse("aud")
    bars = chart(client, run)["bars"]
    assert [(bar["name"], bar["lost"] > 0, bar["gained"] > 0) for bar in bars] == [
        ("dataset read", True, False),
        ("stream get", False, True),
    ]
    assert (
        bars[0]["lost"] == 2 * bars[1]["gained"]
        and 0 < bars[0]["lost_text_x"] < 50 < bars[1]["gained_text_x"]
    )
    assert [client.get(bar["url"].removesuffix("#rows")).context["table"]["total"] for bar in bars] == [1, 1]


def test_the_blast_radius_ranks_people_and_shows_what_one_of_them_reaches(browse, folder):
    run = create_report(
        folder,
        {
            "rows": [
                ("ann", "dataset", "READ", 9),
                ("dee", "dataset", "WRITE", 2),
                ("dee", "instance", "ADMIN", 1),
            ],
            "namespaces": [("ann", "sales", 9, 1), ("dee", "", 1, 1), ("dee", "hr", 2, 0)],
            "people": [("ann", 9, 1, 1, 9, 0, 0, 0), ("dee", 3, 2, 1, 0, 2, 0, 1)],
            "detail": [("dee", "dataset:hr.a", "WRITE"), ("dee", "namespace:hr", "READ")],
        },
        analysis="blast-radius",
        summary={"detail_is_written": True, "detail_rows": 2},
    )
    client = browse("aud")
    bars = chart(client, run)["bars"]
    assert [bar["row"]["user"] for bar in bars] == ["dee", "ann"]
    assert all(0 <= bar["dark"] <= bar["light"] <= 100 for bar in bars)
    page = client.get(bars[0]["url"].removesuffix("#rows"))
    assert page.context["table"]["total"] == 2
    tiles = {tile.item.name: tile.item for tile in page.context["chart"]["tiles"]}
    assert {name: (item.area, item.meaning) for name, item in tiles.items()} == {
        "hr": (2, "heat-0"),
        "outside of namespaces": (1, "heat-5"),
    }
    assert (
        client.get(tiles["hr"].url).context["table"]["total"] == 1 and not tiles["outside of namespaces"].url
    )
    assert client.get(f"/analyses/{run.pk}/?user=%22nobody%22").context["chart"] is None


def test_bars_of_outliers_lead_to_the_rows_of_a_user(browse, folder):
    run = create_report(
        folder,
        {
            "rows": [
                ("ann", "team", "dataset:hr.a", "READ", 1, 9),
                ("dee", "team", "dataset:hr.a", "WRITE", 1, 9),
            ],
            "people": [("ann", 1, 2, 2), ("dee", 1, 3, 4)],
        },
        analysis="outliers",
    )
    client = browse("aud")
    bars = chart(client, run)["bars"]
    assert [(bar["row"]["user"], bar["dark"], bar["text"]) for bar in bars] == [
        ("dee", 100, "4 privileges on 3 entities"),
        ("ann", 50, "2 privileges on 2 entities"),
    ]
    assert client.get(bars[0]["url"].removesuffix("#rows")).context["table"]["total"] == 1


@pytest.mark.parametrize(
    ("largest", "figures"), [(1, [1]), (8, [2, 4, 6, 8]), (1_200, [500, 1_000]), (40, [10, 20, 30, 40])]
)
def test_gridlines_are_round_numbers_on_both_sides_of_the_zero(largest, figures):
    ticks = report_charts._ticks(largest)
    assert [tick["figure"] for tick in ticks if tick["x"] > 50] == figures
    assert sorted(100 - tick["x"] for tick in ticks if tick["x"] < 50) == pytest.approx(
        sorted(tick["x"] for tick in ticks if tick["x"] > 50)
    )
    assert all(10 <= tick["x"] <= 90 for tick in ticks)


def test_a_name_that_hardly_fits_is_left_out(browse):
    wide, narrow = treemap(
        [TreemapItem("marketing", 990, "", ""), TreemapItem("marketing-archive", 10, "", "")]
    )
    assert (wide.label, narrow.label) == ("marketing", "")


def create_readiness_runs(folder, figures: dict[int, int]) -> list:
    """Create runs by number of days before now, each with this number of namespaces that nobody can delete."""
    names = ANALYSES["delete-readiness"].figures
    return [
        create_report(
            folder,
            {"rows": [], "namespaces": []},
            summary=dict.fromkeys(names, 0) | {"namespaces_nobody_can_delete": figure},
            finished_at=timezone.now() - timedelta(days=days),
        )
        for days, figure in figures.items()
    ]


def trend_of(page) -> dict:
    return next(trend for trend in page.context["trends"] if trend["name"] == "namespaces_nobody_can_delete")


def test_a_report_shows_its_figures_over_time(browse, folder):
    client, runs = browse("aud"), create_readiness_runs(folder, {9: 4, 8: 8, 2: 6, 0: 2})
    assert client.get(f"/analyses/{runs[0].pk}/").context["trends"] == []
    page = client.get(f"/analyses/{runs[3].pk}/")
    trend = trend_of(page)
    points = trend["lines"][0]["points"]
    assert [point["row"].value for point in points] == [4, 8, 6, 2]
    assert (trend["figure"], [tick["figure"] for tick in trend["ticks"]]) == (2, [0, 2, 4, 6, 8])
    assert (trend["change"], trend["since"]) == (-6, runs[1].finished_at), (
        "since a week before the newest run"
    )
    x, y = ([point[axis] for point in points] for axis in "xy")
    assert x == sorted(set(x)) and y[1] < y[2] < y[0] < y[3]
    assert len(page.context["trend_days"]) == 4


def test_the_table_of_figures_has_the_last_run_of_each_day(browse, folder):
    runs = create_readiness_runs(folder, {4: 1, 3: 5, 1: 2})
    noon = timezone.now().replace(hour=12) - timedelta(days=3)
    for seconds, run in enumerate(runs[:2]):
        Figure.objects.filter(run_id=run.pk).update(finished_at=noon + timedelta(seconds=seconds))
    page = browse("aud").get(f"/analyses/{runs[2].pk}/")
    column = page.context["trends"].index(trend_of(page))
    days = page.context["trend_days"]
    assert [row["points"][column]["row"].value for row in days] == [2, 5]


def test_the_overview_shows_figures_of_three_analyses_over_time(browse, folder):
    client = browse("aud")
    assert "How has it changed?" not in client.html("/")
    create_readiness_runs(folder, {8: 3, 0: 1})
    for days, figure in ((8, 2), (0, 7)):
        create_report(
            folder,
            {},
            analysis="ghost-grants",
            summary={"grants_on_deleted_addresses": figure},
            finished_at=timezone.now() - timedelta(days=days),
        )
    page = client.get("/")
    changes = {trend["title"]: trend["change"] for trend in page.context["trends"]}
    assert changes == {
        "namespaces nobody can delete": -2,
        "leftover grants of active users and groups": 5,
    }
    assert "How has it changed?" in page_html(page) and "+5 since" in page_html(page)
    assert [[point["row"].value for point in row["points"]] for row in page.context["trend_days"]] == [
        [1, 7],
        [3, 2],
    ]


def test_trends_read_a_bounded_number_of_runs(browse, folder, django_assert_max_num_queries):
    runs = create_readiness_runs(folder, {days: days for days in range(MAX_RUNS + 5, 0, -1)})
    with django_assert_max_num_queries(1):
        trends = report_trends(runs[-1])
    assert {len(line["points"]) for trend in trends for line in trend["lines"]} == {MAX_RUNS}


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (4, [0, 1, 2, 3, 4]),
        (5, [0, 2, 4, 6]),
        (83, [0, 50, 100]),
        (2_000, [0, 500, 1_000, 1_500, 2_000]),
    ],
)
def test_the_axis_of_a_trend_has_round_numbers_up_to_its_largest_figure(largest, ticks):
    assert axis_ticks(largest) == ticks


@pytest.mark.parametrize(
    ("analysis", "tables", "options"),
    [
        ("visibility", {"rows": [], "namespaces": []}, {"generation": "final"}),
        ("policy-impact", {"rows": [], "operations": []}, IMPACT),
        ("blast-radius", {"rows": [], "people": []}, {"generation": "final"}),
        ("visibility", {}, {"generation": "final"}),
    ],
)
def test_empty_and_unreadable_reports_have_no_chart(analysis, tables, options, browse, folder):
    assert chart(browse("aud"), create_report(folder, tables, analysis=analysis, options=options)) is None


def test_a_chart_is_cached_until_its_report_is_removed(browse, folder, monkeypatch):
    run = create_report(
        folder,
        {"rows": [("sales", "ned", 6, 6, 0, True)], "namespaces": [("sales", 6, 1, 1, 0, "ned", False)]},
    )
    client, reads = browse("aud"), []
    monkeypatch.setattr(
        report_charts, "largest_namespaces", lambda run: reads.append(run) or largest_namespaces(run)
    )
    assert chart(client, run) == chart(client, run) and len(reads) == 1
    type(run).objects.filter(pk=run.pk).update(result_removed_at=timezone.now(), result_path="")
    assert client.get(f"/analyses/{run.pk}/").context.get("chart") is None


def test_an_unchanged_figure_says_since_when_it_has_been_the_same(browse, folder):
    create_readiness_runs(folder, {20: 3, 15: 1, 8: 1, 0: 1})
    (trend,) = browse("aud").get("/").context["trends"]
    assert trend["change"] == 0 and (timezone.now() - trend["since"]).days == 15
    assert "Namespaces nobody can delete: <strong>1</strong>" in browse("aud").html("/")
