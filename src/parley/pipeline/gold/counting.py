"""All gold tables of a lake from what they are counted from, as DataFrames: nothing is read or written here."""

from dataclasses import dataclass, fields

from pyspark.sql import DataFrame

from parley.core.settings import PipelineSettings
from parley.pipeline.gold import activity, agents, answers, facts, health, places, work

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Sources:
    """The events of bronze, and the silver tables that gold is counted from."""

    events: DataFrame
    message_versions: DataFrame
    topics: DataFrame
    channels: DataFrame
    tasks: DataFrame
    leases: DataFrame
    quarantine: DataFrame


class Counted:
    """The gold tables by name. What several of them are counted from is kept by Spark until ``release``."""

    def __init__(self, sources: Sources, settings: PipelineSettings) -> None:
        window_ms = round(settings.answer_window_minutes * MINUTE_MS)
        posts = facts.find_posts(sources.message_versions, sources.topics).persist()
        changes = facts.find_changes(sources.message_versions, posts)
        found = answers.find_answers(posts, window_ms).persist()
        irregular = health.compare_neighbours(sources.events).persist()
        topics = places.describe_topics(
            sources.topics,
            posts,
            found,
            work.count_open_tasks(sources.tasks),
            places.last_moments(sources.events),
            round(settings.stuck_after_hours * HOUR_MS),
        ).persist()
        hourly = activity.count_activity(changes).persist()
        hours = health.count_hours(sources.events).persist()
        self._kept = (posts, found, irregular, topics, hourly, hours)
        self.tables: dict[str, DataFrame] = {
            "activity_hour": hourly,
            "activity_day": activity.by_day(hourly),
            "answers": found,
            "pairs": answers.count_pairs(found),
            "agents": agents.describe_agents(posts, found),
            "topics": topics,
            "channels": places.describe_channels(sources.channels, posts, found, topics),
            "unanswered": places.find_unanswered(topics, window_ms),
            "hubs": health.describe_hubs(sources.events, hours, irregular, sources.quarantine),
            "health_hour": hours,
            "irregularities": irregular,
            "quarantine_reasons": health.count_quarantine(sources.quarantine),
            "task_times": work.describe_tasks(sources.tasks, sources.events),
            "lease_times": work.describe_leases(sources.leases, sources.events),
        }

    def release(self) -> None:
        """Lets Spark forget what it kept."""
        for kept in self._kept:
            kept.unpersist()


SOURCES = tuple(field.name for field in fields(Sources))
