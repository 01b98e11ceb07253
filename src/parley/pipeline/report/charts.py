"""The charts of the report, as the plain values that plotly draws.

A colour is written as ``@name`` and becomes one of the style sheet's when it is drawn, so that the same chart is drawn
in light and in dark. Names are never categories of an axis, which plotly would take for numbers or dates where they
look like some, but labels of numbered places; and they are escaped, since plotly knows tags in labels.
"""

from collections.abc import Sequence
from typing import Any, Final

from parley.pipeline.report import words
from parley.pipeline.report.findings import Findings, Row
from parley.pipeline.report.network import COLOURS

Chart = dict[str, Any]

AGENTS_STACKED: Final = COLOURS - 1
"""Agents with a colour of their own in the timeline; the others are one."""
AGENTS_MEASURED: Final = 14
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_LATENCY_TICKS: Final = (1_000, 10_000, _MINUTE, 10 * _MINUTE, _HOUR, 10 * _HOUR, _DAY, 10 * _DAY)


def timeline(found: Findings) -> Chart:
    """Messages over time, one colour an agent."""
    ranked = [agent["agent"] for agent in found.agents[:AGENTS_STACKED]]
    starts = sorted({row["start"] for row in found.timeline})
    sums: dict[str | None, dict[int, int]] = {}
    for row in found.timeline:
        who = row["agent"] if row["agent"] in ranked else None
        counted = sums.setdefault(who, {})
        counted[row["start"]] = counted.get(row["start"], 0) + row["messages"]
    traces = [
        _bars(starts, sums.get(who, {}), words.drawn(who) or "(no name)", f"@agent-{number}")
        for number, who in enumerate(ranked)
    ]
    if None in sums:
        traces.append(_bars(starts, sums[None], "others", "@agent-other"))
    width = _HOUR if found.grain == "hour" else _DAY
    for trace in traces:
        trace["width"] = width * 0.82
    layout: Chart = {
        "barmode": "stack",
        "xaxis": {"type": "date", "showgrid": False},
        "yaxis": {"rangemode": "tozero", "title": {"text": f"messages per {found.grain}"}},
        "hovermode": "x unified",
        "legend": {"orientation": "h", "y": -0.16, "x": 0, "traceorder": "normal"},
        "showlegend": True,
    }
    return {"data": traces, "layout": layout}


def _bars(starts: Sequence[int], counted: dict[int, int], name: str, colour: str) -> Chart:
    return {
        "type": "bar",
        "x": list(starts),
        "y": [counted.get(start, 0) for start in starts],
        "name": name,
        "marker": {"color": colour},
        "hovertemplate": "%{y}",
    }


def heat_map(found: Findings) -> Chart:
    """Messages by weekday and hour of the day."""
    grid = [[0] * 24 for _ in WEEKDAYS]
    for row in found.hours:
        grid[row["weekday"]][row["hour"]] += row["messages"]
    trace = {
        "type": "heatmap",
        "z": grid,
        "x": list(range(24)),
        "y": list(range(7)),
        "customdata": [[f"{day} {hour:02d}:00" for hour in range(24)] for day in WEEKDAYS],
        "colorscale": "@heat",
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": "%{customdata}<br>%{z} messages<extra></extra>",
        "colorbar": {"thickness": 8, "outlinewidth": 0, "len": 0.9},
    }
    hours = list(range(0, 24, 3))
    layout: Chart = {
        "xaxis": {
            "tickvals": hours,
            "ticktext": [f"{hour:02d}:00" for hour in hours],
            "showgrid": False,
            "title": {"text": "hour of the day, UTC"},
        },
        "yaxis": {
            "tickvals": list(range(7)),
            "ticktext": list(WEEKDAYS),
            "autorange": "reversed",
            "showgrid": False,
        },
    }
    return {"data": [trace], "layout": layout}


def latencies(found: Findings) -> Chart:
    """How long answers took."""
    places = list(range(len(found.latencies)))
    traces = [
        {
            "type": "bar",
            "x": places,
            "y": [row[kind] for row in found.latencies],
            "name": name,
            "marker": {"color": colour},
            "hovertemplate": "%{y}",
        }
        for kind, name, colour in (("reply", "by reply", "@agent-0"), ("next", "by speaking next", "@agent-1"))
    ]
    labels = [row["up_to"] for row in found.latencies]
    layout: Chart = {
        "barmode": "stack",
        "bargap": 0.22,
        "xaxis": {
            "tickvals": places,
            "ticktext": labels,
            "tickangle": 0,
            "showgrid": False,
            "zeroline": False,
            "title": {"text": "answered within"},
        },
        "yaxis": {"rangemode": "tozero", "title": {"text": "answers"}},
        "hovermode": "x unified",
        "legend": {"orientation": "h", "y": -0.26, "x": 0, "traceorder": "normal"},
        "showlegend": True,
    }
    return {"data": traces, "layout": layout}


def agent_latencies(found: Findings) -> Chart:
    """Median, 90th and 99th percentile of each agent's answers, on a logarithmic scale."""
    rows = [row for row in found.agents if row["measured"]][:AGENTS_MEASURED]
    places = list(range(len(rows)))
    line_x: list[float | None] = []
    line_y: list[int | None] = []
    for place, row in zip(places, rows, strict=True):
        line_x += [_drawable(row["p50_ms"]), _drawable(row["p99_ms"]), None]
        line_y += [place, place, None]
    traces: list[Chart] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": line_x,
            "y": line_y,
            "line": {"color": "@line", "width": 3},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
    for column, name, colour in (
        ("p50_ms", "median", "@agent-0"),
        ("p90_ms", "90 %", "@agent-1"),
        ("p99_ms", "99 %", "@agent-2"),
    ):
        traces.append(_dots(rows, places, column, name, colour))
    known = [_drawable(row[column]) for row in rows for column in ("p50_ms", "p99_ms")]
    layout: Chart = {
        "xaxis": {"type": "log", **_ticks(known), "zeroline": False},
        "yaxis": {
            "tickvals": places,
            "ticktext": [words.drawn(row["agent"]) for row in rows],
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
        },
        "legend": {"orientation": "h", "y": -0.16, "x": 0},
        "showlegend": True,
    }
    return {"data": traces, "layout": layout, "height": max(220, 110 + 30 * len(rows))}


def _dots(rows: list[Row], places: list[int], column: str, name: str, colour: str) -> Chart:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_drawable(row[column]) for row in rows],
        "y": places,
        "name": name,
        "marker": {"color": colour, "size": 11},
        "customdata": [[words.drawn(row["agent"]), words.duration(row[column])] for row in rows],
        "hovertemplate": "%{customdata[0]}: %{customdata[1]}<extra>" + name + "</extra>",
    }


def _drawable(ms: float | None) -> float:
    """A logarithmic scale has no 0."""
    return max(ms or 0, 100)


def _ticks(known: list[float]) -> Chart:
    low, high = min(known, default=1_000), max(known, default=_HOUR)
    inside = [tick for tick in _LATENCY_TICKS if low / 10 <= tick <= high * 10]
    return {"tickvals": inside, "ticktext": [words.duration(tick) for tick in inside]}


def rates(found: Findings) -> Chart:
    """Which share of each agent's messages was edited, moved or deleted."""
    rows = [row for row in found.agents if row["edited"] or row["moved"] or row["deleted"]][:AGENTS_MEASURED]
    places = list(range(len(rows)))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": places,
            "x": [row[column] for row in rows],
            "name": name,
            "marker": {"color": colour},
            "customdata": [words.drawn(row["agent"]) for row in rows],
            "hovertemplate": "%{customdata}: %{x:.1%}<extra>" + name + "</extra>",
        }
        for column, name, colour in (
            ("edit_rate", "edited", "@agent-0"),
            ("move_rate", "moved", "@agent-1"),
            ("delete_rate", "deleted", "@agent-2"),
        )
    ]
    layout: Chart = {
        "barmode": "group",
        "bargap": 0.3,
        "xaxis": {"tickformat": ".0%", "rangemode": "tozero"},
        "yaxis": {
            "tickvals": places,
            "ticktext": [words.drawn(row["agent"]) for row in rows],
            "autorange": "reversed",
            "showgrid": False,
        },
        "legend": {"orientation": "h", "y": -0.16, "x": 0},
        "showlegend": True,
    }
    return {"data": traces, "layout": layout, "height": max(220, 110 + 40 * len(rows))}


def health(found: Findings) -> Chart:
    """Events of all hubs by the hour."""
    trace = {
        "type": "scatter",
        "mode": "lines" if len(found.health) > 1 else "markers",
        "x": [row["start"] for row in found.health],
        "y": [row["events"] for row in found.health],
        "line": {"color": "@accent", "width": 2, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "@accent-soft",
        "hovertemplate": "%{x|%d %b %H:%M}<br>%{y} events<extra></extra>",
    }
    layout: Chart = {
        "xaxis": {"type": "date", "showgrid": False},
        "yaxis": {"rangemode": "tozero", "title": {"text": "events per hour"}},
    }
    return {"data": [trace], "layout": layout}
