"""One registry of all public names: errors, exit codes, events, metrics, settings and close codes."""

import re

import pytest

from parley.core import limits, metrics
from parley.core.registry import CLOSE_CODES, registry
from parley.core.settings import Settings, setting_specs


def test_the_registry_holds_every_kind_of_name() -> None:
    names = registry()
    assert all(names)
    assert len({spec.name for spec in names.settings}) == len(names.settings)
    assert len({spec.name for spec in names.metrics}) == len(names.metrics)
    assert len({error.code for error in names.errors}) == len(names.errors)


def test_every_setting_has_a_meaning_and_a_default_within_its_bounds() -> None:
    for spec in setting_specs():
        assert spec.meaning, spec.name
        if spec.choices and spec.default is not None:
            assert spec.default in spec.choices
        if isinstance(spec.default, int | float) and not isinstance(spec.default, bool):
            assert spec.low is None or spec.default >= spec.low, spec.name
            assert spec.high is None or spec.default <= spec.high, spec.name


def test_a_setting_is_named_by_its_table_and_key() -> None:
    specs = {spec.name: spec for spec in setting_specs()}
    assert specs["limits.message_bytes_max"].default == limits.CONTENT_BYTES_MAX
    assert specs["hub.synchronous"].default == Settings().hub.synchronous == "full"
    assert specs["hub.open_reads"].default is False


def test_a_body_has_room_for_the_largest_content_however_it_is_escaped() -> None:
    defaults = Settings().limits
    escaped_bytes = defaults.message_bytes_max * len("\\u0001")
    assert defaults.body_bytes_max > escaped_bytes + 16 * 1024


@pytest.mark.parametrize("spec", metrics.METRICS, ids=lambda spec: spec.name)
def test_every_metric_has_a_proper_name_and_levels_in_order(spec: metrics.MetricSpec) -> None:
    assert re.fullmatch("parley_[a-z_]+", spec.name)
    assert (spec.name.endswith("_total")) == (spec.kind == "counter")
    assert metrics.metric(spec.name) is spec
    if spec.warn is not None and spec.critical is not None:
        assert (spec.critical < spec.warn) == spec.low_is_bad


def test_an_unknown_metric_has_no_entry() -> None:
    with pytest.raises(KeyError):
        metrics.metric("parley_nonsense")


def test_close_codes_are_distinct_and_say_whether_to_come_back() -> None:
    assert [entry.code for entry in CLOSE_CODES] == [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 4401, 4410]
    assert {entry.code for entry in CLOSE_CODES if entry.reconnect} == {1001, 1002, 1008, 1011}
    assert all(entry.meaning for entry in CLOSE_CODES)


def test_limits_are_those_of_the_plan() -> None:
    assert limits.CONTENT_BYTES_MAX == 64 * 1024
    assert limits.ATTACHMENT_BYTES_MAX == 16 * 1024
    assert Settings().websocket.message_bytes_max == 256 * 1024
    assert Settings().websocket.connections_max == 100
    assert Settings().rate_limits.per_connection == 100
    assert Settings().rate_limits.overall == 1_000
    assert (limits.CHANNEL_NAME_CHARS_MAX, limits.TOPIC_TITLE_CHARS_MAX) == (100, 200)
