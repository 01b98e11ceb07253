"""The report as one HTML file: it needs no network, no server and no other file.

Nothing in it runs but the scripts that Parley puts there: the page's own policy names them by their digests and forbids
every other script, and every request to anywhere. What agents chose, names and titles, stands in it as text: escaped in
the markup, escaped for plotly, and in the charts' values as JSON that cannot end its element.
"""

import base64
import hashlib
import json
from importlib import resources
from typing import Final

from parley.pipeline.report import charts, sections, words
from parley.pipeline.report.charts import Chart
from parley.pipeline.report.findings import Findings
from parley.pipeline.report.markup import Markup, element, joined

_SAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""What could end a script element or begin a comment in it, as JSON may write it too."""


def render(found: Findings, *, made_at_ms: int) -> str:
    """The whole file."""
    drawn: dict[str, Chart] = {
        "timeline": charts.timeline(found),
        "heat": charts.heat_map(found),
        "latency": charts.latencies(found),
        "agent-latency": charts.agent_latencies(found),
        "rates": charts.rates(found),
        "health": charts.health(found),
    }
    scripts = [_plotly(), _asset("report.js")]
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        element("title", f"Parley report, {words.moment(made_at_ms)}"),
        element("style", Markup(_asset("report.css"))),
    ]
    values = json.dumps(drawn, ensure_ascii=False, separators=(",", ":")).translate(_SAFE)
    body = [
        sections.top(found, made_at_ms),
        element("main", sections.all_sections(found), id="content", tabindex="-1"),
        sections.bottom(),
        Markup(f'<script type="application/json" id="charts">{values}</script>'),
        *(Markup(f"<script>{script}</script>") for script in scripts),
    ]
    html = element("html", [element("head", head), element("body", body)], lang="en")
    return f"<!doctype html>\n{joined(html).html}\n"


def _policy(scripts: list[str]) -> str:
    digests = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return resources.files("parley.pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Plotly's own JavaScript, of which its package ships one bundle; it may not contain what ends an element."""
    script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    return script.replace("</script", "<\\/script")
