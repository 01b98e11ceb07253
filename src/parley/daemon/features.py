"""What a daemon requires of a broker, and how it judges what it is offered.

A broker that forgets ids too early, or does not compare fingerprints, would make a retry a second message. So a daemon
refuses it, with a close code that says which of three things is wrong: the feature is not there (4010), what it says
of itself makes no sense (4011), or it grants less than is safe (4012).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from parley.daemon.outbox.terms import HOUR_MS, RETENTION_DAYS_MIN, Terms, max_age_hours
from parley.wire.broker import FeatureParams, Features, Welcome

DEDUPE: Final = "client_message_id_dedupe"
CONCURRENT: Final = "concurrent_connection_policy"
MAX_PAYLOAD: Final = "max_payload"
ROTATED: Final = "member_keypair_rotated_event"
KEY_EPOCH: Final = "key_epoch"
REQUIRED: Final = (DEDUPE, CONCURRENT)
OPTIONAL: Final = (MAX_PAYLOAD, ROTATED, KEY_EPOCH)
UNAVAILABLE: Final = 4010
PARAM_INVALID: Final = 4011
BELOW_FLOOR: Final = 4012

_VERSIONS: Final = {DEDUPE: 2, CONCURRENT: 1, MAX_PAYLOAD: 1, ROTATED: 1, KEY_EPOCH: 1}
_PAYLOAD_BYTES_MIN: Final = 1024


class Refusal(NamedTuple):
    """Why a broker will not do. ``kind`` is for programs, as is the feature."""

    code: int
    kind: str
    feature: str
    detail: str


class Judged(NamedTuple):
    """What was agreed, the names of the features that are on, and optional ones that made no sense."""

    terms: Terms
    active: tuple[str, ...]
    ignored: tuple[str, ...]


def judge(features: Features, welcome: Welcome, max_age_override: int | None) -> Judged | Refusal:
    """The verdict over an offer. Raises ``ConfigInvalid`` for an override that the broker's window does not allow."""
    for name in REQUIRED:
        offer = features.supported.get(name)
        if offer is None or name in features.missing_required:
            return Refusal(UNAVAILABLE, "feature_unavailable", name, "the broker does not have it")
        problem = _wrong_with(name, offer.params)
        if problem is not None:
            return problem
    ignored = [
        name
        for name in OPTIONAL
        if name in features.supported and _wrong_with(name, features.supported[name].params) is not None
    ]
    active = [name for name in (*REQUIRED, *OPTIONAL) if name in features.supported and name not in ignored]
    days = _days(features.supported[DEDUPE])
    inline = welcome.inline_bytes_max
    if MAX_PAYLOAD in active:
        inline = min(inline, int(features.supported[MAX_PAYLOAD].params["inline_bytes"]))
    terms = Terms(inline, max_age_hours(days, max_age_override) * HOUR_MS)
    return Judged(terms, tuple(active), tuple(ignored))


def _days(offer: FeatureParams) -> int | None:
    return None if offer.params["mode"] == "permanent" else int(offer.params["dedupe_retention_days"])


def _wrong_with(name: str, params: Mapping[str, Any]) -> Refusal | None:
    if params.get("version") != _VERSIONS[name]:
        detail = f"version {params.get('version')!r} where {_VERSIONS[name]} is needed"
        return Refusal(PARAM_INVALID, "feature_param_invalid", name, detail)
    if name == DEDUPE:
        return _wrong_with_dedupe(params)
    if name == MAX_PAYLOAD:
        for key in ("inline_bytes", "blob_bytes"):
            if not _is_count(params.get(key)) or params[key] < _PAYLOAD_BYTES_MIN:
                return Refusal(PARAM_INVALID, "feature_param_invalid", name, f"{key} is {params.get(key)!r}")
    if name == KEY_EPOCH and (
        not _is_count(params.get("max_concurrent_epochs")) or params["max_concurrent_epochs"] < 1
    ):
        detail = f"max_concurrent_epochs is {params.get('max_concurrent_epochs')!r}"
        return Refusal(PARAM_INVALID, "feature_param_invalid", name, detail)
    return None


def _wrong_with_dedupe(params: Mapping[str, Any]) -> Refusal | None:
    mode, days = params.get("mode"), params.get("dedupe_retention_days")
    detail = None
    if params.get("request_fingerprint") is not True:
        detail = "request_fingerprint is not true"
    elif mode not in ("retention_scoped", "permanent"):
        detail = f"mode is {mode!r}"
    elif mode == "retention_scoped" and not _is_count(days):
        detail = f"dedupe_retention_days is {days!r}"
    if detail is not None:
        return Refusal(PARAM_INVALID, "feature_param_invalid", DEDUPE, detail)
    if mode == "retention_scoped" and isinstance(days, int) and days < RETENTION_DAYS_MIN:
        detail = f"dedupe_retention_days is {days}, at least {RETENTION_DAYS_MIN} are needed"
        return Refusal(BELOW_FLOOR, "feature_param_below_floor", DEDUPE, detail)
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
