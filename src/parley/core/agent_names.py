"""Names for agents that bring none: two words that a person can say, made from something that stays the same.

The same seed gives the same name, so a program that comes back with its session finds its name again even where nothing
was kept. Names that are taken get a number.
"""

import hashlib
import re
from typing import Final

from parley.core.limits import AGENT_NAME_CHARS_MAX

_FIRST_WORDS: Final = (
    "amber apt azure bold brave brisk bright calm candid cheery civil clear clever coral crisp deft eager early even "
    "fair fleet fond frank fresh gentle glad golden grand green hardy hazel honest humble jolly keen kind lively lucid "
    "lunar mellow merry mild neat nimble noble opal patient placid plain proud quick quiet rapid ready rosy ruby "
    "serene sharp silver smart solid spry stable steady sunny swift teal tidy trim true vivid warm wise witty"
)
_SECOND_WORDS: Final = (
    "acorn alder aspen badger beaver birch bison bramble brook canyon cedar cobra comet crane creek cypress delta dune "
    "eagle elm ember falcon fern finch fjord fox gecko geyser glade grove gull harbor hawk heron ibex iris jay kestrel "
    "lagoon lark lily lotus lynx magpie maple marten meadow mesa moose moth newt oak orchid osprey otter owl panda "
    "pebble pine plover poppy puffin quail quartz raven reef ridge robin sable seal sparrow spruce stork summit swan "
    "thicket thistle tiger tulip tundra viper walnut willow wren yak zebra"
)
_FIRST: Final = _FIRST_WORDS.split()
_SECOND: Final = _SECOND_WORDS.split()
_NUMBERED: Final = re.compile(r"(.*)-(\d{1,6})")


def made_name(seed: str) -> str:
    """``brisk-otter``: the same words for the same seed."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    number, first = divmod(number, len(_FIRST))
    return f"{_FIRST[first]}-{_SECOND[number % len(_SECOND)]}"


def next_name(name: str) -> str:
    """The name to try when this one is taken: ``brisk-otter-2``, then ``brisk-otter-3``."""
    numbered = _NUMBERED.fullmatch(name)
    stem, number = (numbered[1], int(numbered[2]) + 1) if numbered is not None else (name, 2)
    tail = f"-{number}"
    return stem[: AGENT_NAME_CHARS_MAX - len(tail)] + tail
