"""The parts of the documents that are about daemons, brokers and the bus."""

from typing import Any, get_args

from msgspec import inspect

from parley.core.bus_errors import StoreError
from parley.core.registry import registry
from parley.core.setting_values import allowed_values
from parley.serve.endpoint import Endpoint
from scripts import docs_endpoints
from scripts.doc_tables import close_code_table, code, default, errors, local_errors, sentence, table


def broker_errors() -> str:
    return errors("broker")


def bus_errors(of_stores: bool = False) -> str:
    """The errors of the bus, whether a peer is told of them or not: those of its stores, or the others."""
    rows = (
        (code(each.code), int(each.exit_code), "yes" if each.transient else "no", sentence(each.__doc__), each.hint)
        for each in registry().errors
        if each.spoken_by == "bus" and issubclass(each, StoreError) == of_stores
    )
    return table("code|exit code|transient|what it means|what to do", rows)


def daemon_errors() -> str:
    return errors("daemon")


def daemon_local_errors() -> str:
    return local_errors("daemon")


def daemon_routes() -> str:
    """Every route of a daemon, with the members of its body or its query; those in brackets may be left out."""
    from parley.daemon.http.table import ENDPOINTS as ROUTES

    rows = (
        (
            code(f"{each.method} {each.path}"),
            _members(each),
            " or ".join(dict.fromkeys(docs_endpoints.answer_name(kind) for kind in each.answers.values())),
            each.summary,
        )
        for each in ROUTES
    )
    return table("route|takes|answers with|what it does", rows)


def daemon_answers() -> str:
    """The bodies of a daemon's answers."""
    from parley.daemon.http.table import ENDPOINTS as ROUTES

    return docs_endpoints.answers(ROUTES)


def _members(route: Endpoint[Any]) -> str:
    if route.body is not None:
        return _frame_members(route.body)
    return ", ".join(code(each.name) if each.required else f"[{code(each.name)}]" for each in route.params)


def daemon_settings() -> str:
    from parley.core.daemon_settings import daemon_setting_specs

    rows = ((code(each.name), default(each), allowed_values(each), each.meaning) for each in daemon_setting_specs())
    return table("key|default|allowed|meaning", rows)


def broker_settings() -> str:
    from parley.core.broker_settings import broker_setting_specs

    rows = ((code(each.name), default(each), allowed_values(each), each.meaning) for each in broker_setting_specs())
    return table("key|default|allowed|meaning", rows)


def daemon_metrics() -> str:
    from parley.core.daemon_metrics import DAEMON_METRICS

    rows = ((code(each.name), each.kind, code(*each.labels), each.meaning) for each in DAEMON_METRICS)
    return table("metric|kind|labels|meaning", rows)


def broker_close_codes() -> str:
    return close_code_table(registry().broker_close_codes)


def broker_frames() -> str:
    """Every frame between a daemon and a broker, with its members; those in brackets may be left out."""
    from parley.wire import broker

    speakers: dict[type, list[str]] = {}
    for side, union in (("broker", broker.FromBroker), ("daemon", broker.FromDaemon)):
        for frame in get_args(union):
            speakers.setdefault(frame, []).append(side)
    rows = (
        (code(frame.__struct_config__.tag), ", ".join(sides), _frame_members(frame), sentence(frame.__doc__))
        for frame, sides in speakers.items()
    )
    return table("type|said by|members|meaning", rows)


def broker_methods() -> str:
    """Every method that a daemon may call by a request frame."""
    from parley.wire.mesh_methods import METHODS

    rows = (
        (code(name), _frame_members(method.params), method.role, method.answer, method.meaning)
        for name, method in METHODS.items()
    )
    return table("method|parameters|least role|members of the result|what it does", rows)


def broker_routes() -> str:
    """Every route of a broker."""
    from parley.broker.http import ENDPOINTS as BROKER_ROUTES

    return table("route|what it does", ((code(f"{each.method} {each.path}"), each.summary) for each in BROKER_ROUTES))


def broker_notices() -> str:
    """Every notice that a broker sends."""
    from parley.wire.mesh_methods import NOTICES

    return table(
        "notice|members of its data|when", ((code(n), code(*fields), why) for n, (fields, why) in NOTICES.items())
    )


def orphan_checks() -> str:
    """Every finding of the orphan check."""
    from parley.core.orphans import CHECKS

    return table("finding|what it means", ((code(name), check.meaning) for name, check in CHECKS.items()))


def _frame_members(frame: type) -> str:
    described = inspect.type_info(frame)
    assert isinstance(described, inspect.StructType)
    required_first = sorted(described.fields, key=lambda each: not each.required)
    named = (code(each.encode_name) if each.required else f"[{code(each.encode_name)}]" for each in required_first)
    return ", ".join(named) or "none"


def broker_checks() -> str:
    from parley.pipeline.audit.brokers.checks import BROKER_CHECKS

    rows = ((code(each.id), each.severity, each.sentence, each.cause) for each in BROKER_CHECKS.values())
    return table("check|if not|what holds|what most likely happened if not", rows)


PARTS = {
    "bus-errors": bus_errors,
    "broker-errors": broker_errors,
    "bus-store-errors": lambda: bus_errors(of_stores=True),
    "broker-close-codes": broker_close_codes,
    "broker-frames": broker_frames,
    "daemon-errors": daemon_errors,
    "daemon-local-errors": daemon_local_errors,
    "daemon-routes": daemon_routes,
    "daemon-answers": daemon_answers,
    "daemon-settings": daemon_settings,
    "daemon-metrics": daemon_metrics,
    "broker-settings": broker_settings,
    "broker-methods": broker_methods,
    "broker-notices": broker_notices,
    "broker-routes": broker_routes,
    "orphan-checks": orphan_checks,
    "broker-checks": broker_checks,
}
