"""The beginning of a plugin: a small module that works, and a text to try it on."""

from pathlib import Path
from typing import Final, NamedTuple

from parley.core.errors import InvalidInput, ServiceUnavailable
from parley.core.settings import PLUGIN_NAME

LINKIFIER: Final = '''\
"""Plugin {name}: marks ticket numbers such as TICKET-42 and links them."""

from typing import Any

from parley.plugin import Enrichment, Message, find, link


def enrich(message: Message, config: dict[str, Any]) -> list[Enrichment]:
    """Called for each message that is posted or edited. `config` is the plugin's own table in parley.toml."""
    base = config.get("base", "https://tickets.example.com/")
    return [link(match, base + match[0]) for match in find(r"\\bTICKET-\\d+\\b", message)]
'''
EXTRACTOR: Final = '''\
"""Plugin {name}: makes each line that starts with "Decision:" an attachment of the topic."""

from typing import Any

from parley.plugin import Attachment, Message, find


def extract(message: Message, config: dict[str, Any]) -> list[Attachment]:
    """Called for each message that is posted or edited. `config` is the plugin's own table in parley.toml."""
    label = config.get("label", "Decision")
    found = find(rf"(?m)^{{label}}: (.{{{{1,500}}}})$", message, inside_urls=True)
    return [Attachment("decision", {{"text": match[1], "by": message.sender}}, dedupe_key=match[1]) for match in found]
'''
SAMPLES: Final = {
    "linkifier": "TICKET-42 is done, TICKET-43 is next. https://example.com/TICKET-1 is a link already.\n",
    "extractor": "We talked about it.\nDecision: ship on Friday\nDecision: no changes after Thursday\n",
}
_TEMPLATES: Final = {"linkifier": LINKIFIER, "extractor": EXTRACTOR}


class Made(NamedTuple):
    """What was written, and what is left to do."""

    module: Path
    sample: Path
    settings: str
    """The lines for ``parley.toml``."""


def new_plugin(folder: Path, name: str, kind: str, root: Path | None) -> Made:
    """Writes the two files. ``root`` is the workspace's, if there is one. Nothing that exists is overwritten."""
    stem = name.replace("-", "_")
    if not PLUGIN_NAME.fullmatch(name) or not stem.isidentifier():
        raise InvalidInput(
            f"{name} is no name for a plugin: take 1 to 64 of a-z, 0-9, _ and -, with a letter first", field="name"
        )
    made = folder / f"{stem}.py", folder / f"{stem}.sample.txt"
    texts = _TEMPLATES[kind].format(name=name), SAMPLES[kind]
    for path in made:
        if path.exists():
            raise InvalidInput(f"{path} exists already; choose another name", path=str(path))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(made, texts, strict=True):
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ServiceUnavailable(f"{folder} cannot be written: {error.strerror}", reason="io_error") from error
    return Made(*made, _settings(made[0], name, kind, root))


def _settings(module: Path, name: str, kind: str, root: Path | None) -> str:
    real = module.resolve()
    inside = root is not None and real.is_relative_to(root)
    path = real.relative_to(root) if root is not None and inside else Path(module.parent.name) / module.name
    return f'[[plugins]]\nname = "{name}"\ntype = "{kind}"\nmodule = "{path}"\n'
