"""``hooks/hooks.toml``: what each hook may do. A script without its entry there does not run."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from parley.core.errors import ConfigInvalid
from parley.daemon.hooks import redaction
from parley.wire.validation_errors import in_words

CONFIG_NAME: Final = "hooks.toml"
SCRIPT_BYTES_MAX: Final = 1024 * 1024
PRE_SEND: Final = "pre-send"
_NAME: Final = re.compile(r"pre-send|on-(message|dm|mention|disconnect|reconnect|startup|topic-[^/\x00-\x1f]+)")
_SCOPE: Final = re.compile(r"reply:event|dm:send:sender|topic:[^\x00-\x1f]+:post")


class HookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of ``hooks.toml``, named as the script without its ending."""

    enabled: bool = True
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 30.0
    output_size_limit: Annotated[int, Meta(ge=1, le=1024 * 1024)] = 65_536
    allow_reply: bool = False
    capability_token_scope: list[str] = []
    network_policy: Literal["deny", "allow"] = "deny"
    redact_payload: Annotated[list[str], Meta(max_length=redaction.PATHS_MAX)] = []
    """What the hook is not told, as paths into the event."""

    @property
    def scopes(self) -> frozenset[str]:
        """What the hook may ask for."""
        return frozenset(self.capability_token_scope) | ({"reply:event"} if self.allow_reply else set[str]())


class Hook(NamedTuple):
    """A hook that may run: its settings, and its script as it was read."""

    name: str
    settings: HookSettings
    file: str
    script: bytes
    redacted: tuple[redaction.Path, ...] = ()


def load_hooks(folder: Path) -> dict[str, Hook]:
    """The hooks of the folder that are enabled and have a script. Raises ``ConfigInvalid`` with all mistakes."""
    try:
        document = tomllib.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigInvalid(f"{CONFIG_NAME} cannot be read: {error}") from error
    hooks: dict[str, Hook] = {}
    problems: list[str] = []
    for name, table in document.items():
        try:
            hook = _hook(folder, name, table)
        except msgspec.ValidationError as error:
            problems.append(f"{name}: {in_words(error)}")
            continue
        except (ValueError, OSError) as error:
            problems.append(f"{name}: {error}")
            continue
        if hook.settings.enabled:
            hooks[name] = hook
    if problems:
        raise ConfigInvalid(f"{CONFIG_NAME}: {'; '.join(problems)}", problems=problems)
    return hooks


def _hook(folder: Path, name: str, table: Any) -> Hook:
    if not _NAME.fullmatch(name):
        raise ValueError("not the name of a hook")
    if isinstance(table, dict) and cast("dict[str, Any]", table).get("network_policy") == "allowlist":
        raise ValueError("a list of hosts cannot be enforced; network_policy is deny, or allow for names and the web")
    settings = msgspec.convert(table, HookSettings)
    unknown = [scope for scope in settings.capability_token_scope if not _SCOPE.fullmatch(scope)]
    if unknown:
        raise ValueError(f"not a scope: {', '.join(unknown)}")
    if name == PRE_SEND and settings.scopes:
        raise ValueError("it judges what is sent and sends nothing, so it has no scopes")
    redacted = tuple(redaction.parse_path(each) for each in settings.redact_payload)
    for ending in (".py", ".sh"):
        path = folder / f"{name}{ending}"
        if path.is_file():
            if path.stat().st_size > SCRIPT_BYTES_MAX:
                raise ValueError(f"{path.name} is larger than {SCRIPT_BYTES_MAX} bytes")
            return Hook(name, settings, path.name, path.read_bytes(), redacted)
    raise ValueError(f"there is no {name}.py or {name}.sh")
