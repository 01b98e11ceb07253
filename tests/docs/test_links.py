"""Every link within the documents leads somewhere, and nothing in them belongs to one machine."""

import re

import pytest

from parley.core.settings import PluginDefaultSettings
from scripts.docs import ROOT
from tests.docs.markdown import NAMES, anchors, document, prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OF_ONE_MACHINE = re.compile(r"/wor[k]/|/roo[t]/|/home/|/tmp/|/Users/|https?://[^ ]*(?:pyp[i]|pythonhoste[d]|npmj[s])")


@pytest.mark.parametrize("name", NAMES)
def test_internal_links_resolve(name: str) -> None:
    broken: list[str] = []
    for link in LINK.findall(prose(document(name))):
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, open_names = set[str](), ["README.md"]
    while open_names:
        name = open_names.pop()
        if name in reached or not name.endswith(".md"):
            continue
        reached.add(name)
        for link in LINK.findall(prose(document(name))):
            target = ((ROOT / name).parent / link.partition("#")[0]).resolve()
            if target.is_relative_to(ROOT) and target.is_file():
                open_names.append(str(target.relative_to(ROOT)))
    assert set(NAMES) - {"CHANGELOG.md"} - reached == set()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_belongs_to_one_machine(name: str) -> None:
    text = document(name)
    assert str(ROOT) not in text
    assert OF_ONE_MACHINE.findall(text) == []


def test_the_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 20


def test_h12_what_memory_plugins_have_is_a_recorded_decision() -> None:
    mib = PluginDefaultSettings().memory_bytes // 1024 // 1024
    records = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "decisions").glob("0*.md")]
    assert any(f"`plugin_defaults.memory_bytes` is {mib} MiB" in text and "128 MB" in text for text in records)
