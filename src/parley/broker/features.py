"""What a broker promises to daemons, feature by feature, each with the version of its parameters."""

from collections.abc import Iterable

from parley.broker.policy import Policy
from parley.wire.broker import FeatureParams, Features


def supported(policy: Policy, connection_policy: str) -> dict[str, FeatureParams]:
    """All that this broker has, for a mesh with this policy for a member's second connection."""
    dedupe: dict[str, object] = {"version": 2, "mode": "permanent", "request_fingerprint": True}
    if policy.dedupe_days:
        dedupe.update(mode="retention_scoped", dedupe_retention_days=policy.dedupe_days)
    size = policy.inline_bytes_max
    return {
        "client_message_id_dedupe": FeatureParams(dedupe),
        "concurrent_connection_policy": FeatureParams({"version": 1, "default_policy": connection_policy}),
        "member_keypair_rotated_event": FeatureParams({"version": 1}),
        "key_epoch": FeatureParams({"version": 1, "max_concurrent_epochs": 2}),
        # Nothing larger than a message is carried yet, so that is also the largest blob.
        "max_payload": FeatureParams({"version": 1, "inline_bytes": size, "blob_bytes": size}),
    }


def negotiated(has: dict[str, FeatureParams], require: Iterable[str], optional: Iterable[str]) -> Features:
    """The answer to a daemon: what it asked for and the broker has, and what it requires in vain."""
    wanted = dict.fromkeys([*require, *optional])
    missing = [name for name in dict.fromkeys(require) if name not in has]
    return Features({name: has[name] for name in wanted if name in has}, missing)
