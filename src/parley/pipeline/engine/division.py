"""Which hubs need not be built whole when they have news.

A small hub is built whole in less time than it takes to find out what its news touch. And some news change rows that no
event names: an archive takes messages of all ages, and in a log whose beginning is missing a topic may come to be known
that older rows speak of.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import functions as F

from parley.pipeline.engine.spec import EVENTS_SEEN
from parley.pipeline.engine.standing import Goal
from parley.pipeline.engine.views import Views, meets, meets_after
from parley.pipeline.lake.reading import bounds_meet

EVENTS_MIN: Final = 50_000
"""Hubs with fewer events are built whole."""
NEWS_SHARE_MAX: Final = 0.2
"""With more of its events new, a hub is built whole: most of its rows change."""
NEWS_MAX: Final = 200_000
"""Or with so many new events: what they touch is kept in the driver."""


def find_divisible(views: Views, goals: Mapping[str, Goal], seen: Mapping[str, int]) -> frozenset[str]:
    """The hubs of which only what news touch has to be built. ``seen`` is up to where all tables have them."""
    large = {
        db_id: mark
        for db_id, mark in seen.items()
        if db_id in goals
        and goals[db_id].mark >= EVENTS_MIN
        and 0 < goals[db_id].mark - mark <= min(NEWS_MAX, NEWS_SHARE_MAX * goals[db_id].mark)
    }
    if not large:
        return frozenset()
    events = views.table(EVENTS_SEEN, may_hold=lambda entry: meets_after(entry, large, "event_id"))
    archived = views.marked(events, large, "event_id").where(F.col("name") == "workspace.archived")
    firsts = views.table(
        EVENTS_SEEN, may_hold=lambda entry: meets(entry, large) and bounds_meet(entry, "event_id", at_most=1)
    )
    begun = firsts.where(F.col("db_id").isin(sorted(large)) & (F.col("event_id") == 1))
    forgets = {row["db_id"] for row in archived.select("db_id").distinct().collect()}
    complete = {row["db_id"] for row in begun.select("db_id").collect()}
    return frozenset(complete - forgets)
