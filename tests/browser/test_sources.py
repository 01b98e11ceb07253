"""The page's own files: they make nodes, never HTML from text, and need nothing from any other place."""

import re
from pathlib import Path

import pytest

import parley.hub

PAGE = Path(parley.hub.__file__).parent / "page"
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
NEVER_IN_SCRIPTS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|parseHTML|createContextualFragment|DOMParser|srcdoc"
    r"|document\s*\.\s*write|\beval\s*\(|\bFunction\s*\(|javascript:"
    r"|set(?:Timeout|Interval)\s*\(\s*[\"'`]"
    r"|setAttribute\s*\(\s*[\"'`](?:on|style)"
)
NEVER_IN_MARKUP = re.compile(r"\son\w+\s*=|\sstyle\s*=|<style|<script(?![^>]*\ssrc=)|javascript:", re.IGNORECASE)
NEVER_IN_STYLES = re.compile(r"@import|url\(|expression\(", re.IGNORECASE)
ANOTHER_PLACE = re.compile(r"(?:https?:|wss?:|[\"'`])//[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
NAMESPACES = ("http://www.w3.org/2000/svg",)
"""Names that look like addresses and are never fetched."""
RULES = {".js": NEVER_IN_SCRIPTS, ".html": NEVER_IN_MARKUP, ".svg": NEVER_IN_MARKUP, ".css": NEVER_IN_STYLES}
_COMMENTS = re.compile(r"/\*.*?\*/|<!--.*?-->|(?<![:\"'`\\])//[^\n]*", re.DOTALL)


def code_of(path: Path) -> str:
    """A file without its comments, which may name what the code must not do."""
    return _COMMENTS.sub("", path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PAGE)))
def test_a_file_of_the_page_does_nothing_that_its_policy_would_have_to_stop(path: Path) -> None:
    code = code_of(path)
    assert RULES[path.suffix].findall(code) == []
    for namespace in NAMESPACES:
        code = code.replace(namespace, "")
    assert ANOTHER_PLACE.findall(code) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (NEVER_IN_SCRIPTS, "node.innerHTML = text"),
        (NEVER_IN_SCRIPTS, "node.insertAdjacentHTML('beforeend', text)"),
        (NEVER_IN_SCRIPTS, "document.write(text)"),
        (NEVER_IN_SCRIPTS, "new Function(text)()"),
        (NEVER_IN_SCRIPTS, "setTimeout('run()', 5)"),
        (NEVER_IN_SCRIPTS, 'node.setAttribute("onclick", text)'),
        (NEVER_IN_MARKUP, "<p onclick=run()>"),
        (NEVER_IN_MARKUP, "<script>run()</script>"),
        (NEVER_IN_MARKUP, '<p style="color: red">'),
        (NEVER_IN_STYLES, "body { background: url(x.png) }"),
        (ANOTHER_PLACE, 'fetch("https://cdn.example.com/x.js")'),
        (ANOTHER_PLACE, 'import "//cdn.example.com/x.js"'),
    ],
)
def test_control_the_rules_see_what_they_are_for(rule: re.Pattern[str], text: str) -> None:
    assert rule.search(text)


def test_modules_import_only_each_other() -> None:
    imports = [
        (path, name)
        for path in FILES
        if path.suffix == ".js"
        for name in re.findall(r"(?:from|import)\s*\(?\s*[\"']([^\"']+)[\"']", code_of(path))
    ]
    assert [
        (path, name) for path, name in imports if not name.startswith(".") or not (path.parent / name).is_file()
    ] == []
