"""What the meshes of a broker may hold: shown to its operator, and changed by it.

A file has one writer, so a broker that serves it is asked over HTTP, with the creation token of its folder. A database
has many, and every broker reads a mesh's limits when it needs them: there it is written down directly.
"""

import ssl
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from parley.app.broker import broker_folder, broker_store
from parley.broker.instances import Instance, instances
from parley.broker.lifecycle import locked, open_store
from parley.broker.options import POSTGRESQL, BrokerOptions
from parley.broker.rules.mesh_limits import ChangeLimits, all_limits
from parley.broker.store import BrokerStore
from parley.client.refusals import Reply, error_from
from parley.core.broker_errors import BrokerRunning
from parley.core.broker_settings import BrokerSettings
from parley.core.clock import SystemClock
from parley.core.daemon_errors import BrokerUnreachable
from parley.core.errors import InvalidInput, NotFound, ServiceUnavailable
from parley.core.flags import laid_over
from parley.core.ids import new_uuid
from parley.wire.mesh_http import MESHES_PATH, MeshLimits, SetLimits
from parley.wire.validation_errors import invalid

ASK_SECONDS: Final = 30.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def limits(
    store: str | None, folder: Path | None, slug: str | None, members_max: int | None, bytes_max: int | None
) -> list[dict[str, Any]]:
    """The limits of one mesh or of all, after the change that is asked for, if one is."""
    changes = members_max is not None or bytes_max is not None
    if changes and slug is None:
        raise InvalidInput("Whose limits? Name the mesh", field="mesh")
    asked = None
    if slug is not None and changes:
        try:
            asked = msgspec.convert({"slug": slug, "members_max": members_max, "bytes_max": bytes_max}, SetLimits)
        except msgspec.ValidationError as error:
            raise invalid(error) from None
    found = _found(broker_store(store, broker_folder(folder)), broker_folder(folder), asked)
    if slug is not None and slug not in (each.slug for each in found):
        raise NotFound(f"There is no mesh {slug} on this broker", slug=slug)
    return [msgspec.to_builtins(each) for each in found if slug in (None, each.slug)]


def _found(store: str, folder: Path, asked: SetLimits | None) -> list[MeshLimits]:
    if store.startswith(POSTGRESQL):
        return _in_store(store, folder, asked)
    if not Path(store).is_file():
        raise ServiceUnavailable(f"There is no file {store}", reason="cannot_open")
    try:
        with locked(Path(store), new_uuid(), SystemClock()):
            return _in_store(store, folder, asked)
    except BrokerRunning:
        serving = [each for each in instances(folder) if each.store == "sqlite"]
        if not serving:
            raise
        return _over_http(serving[0], (folder / "creation-token").read_text().strip(), asked)


def _in_store(store: str, folder: Path, asked: SetLimits | None) -> list[MeshLimits]:
    opened: BrokerStore = open_store(
        BrokerOptions(folder, laid_over(BrokerSettings(), {"store.address": store})), SystemClock()
    )
    with closing(opened):
        if asked is not None:
            opened.call(ChangeLimits(asked))
        return opened.call(all_limits)


def _over_http(instance: Instance, token: str, asked: SetLimits | None) -> list[MeshLimits]:
    host = _ANY.get(instance.host, instance.host)
    place = f"[{host}]" if ":" in host else host
    address = f"{'https' if instance.tls else 'http'}://{place}:{instance.port}{MESHES_PATH}"
    headers = {"authorization": f"Bearer {token}"}
    try:
        with httpx.Client(timeout=ASK_SECONDS, trust_env=False, verify=_trust(instance), headers=headers) as client:
            if asked is not None:
                _answer(client.patch(address, content=msgspec.json.encode(asked)))
            return msgspec.convert(_answer(client.get(address))["meshes"], list[MeshLimits])
    except httpx.TransportError as error:
        raise BrokerUnreachable(f"{address} does not answer: {error}", broker_url=address) from error


def _answer(answer: httpx.Response) -> dict[str, Any]:
    if not answer.is_success:
        raise error_from(Reply(answer.status_code, answer.content, answer.headers.get("retry-after")))
    return answer.json()


def _trust(instance: Instance) -> ssl.SSLContext | bool:
    """The one certificate that the broker said it has, whatever name stands in it."""
    if not instance.tls:
        return True
    context = ssl.create_default_context(cafile=instance.tls_cert)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
