"""A roster with an entry of almost every kind, kept as bytes: what it adds up to is the same for every Parley.

A state hash that changes here changes for everybody who has checkpoints: then the rules need a new version.
"""

import json
from pathlib import Path

from parley.core.roster import State, apply, entries, state_hash
from tests.core.roster.town import DAY_MS, START, Town, key_of

VECTORS = Path(__file__).with_name("vectors.json")


def a_long_story() -> Town:
    town = Town()
    town.do("ada", "broker", entries.NameBroker(key_of("broker")))
    old = [
        entries.Adopted("mem_1", key_of("ada"), "ada", "owner"),
        entries.Adopted("mem_2", key_of("zoe"), "zoe", "admin"),
    ]
    town.do("ada", "adopt", entries.Adopt(old))
    town.ids, town.seeds["zoe"] = {"ada": "mem_1", "zoe": "mem_2"}, Town("zoe").seeds["zoe"]
    assert town.new_key() == ""
    town.join("bob", role="admin")
    town.join("carl", by="zoe")
    town.join("ci-1", until=START + DAY_MS)
    town.do("ci-1", "renew", entries.Renew(town.now + DAY_MS))
    town.do("bob", "rename", entries.Rename("bob.b"))
    town.do("ada", "revoke_invite", entries.RevokeInvite(town.invite("bob")))
    town.do("ada", "role", entries.SetRole(town.ids["bob"], "owner"))
    assert town.rotate("bob") == ""
    assert town.rotate("carl", compromised=True) == ""
    assert town.new_key("bob") == ""
    town.do("ada", "ban", town.of("carl"))
    assert town.new_key() == ""
    town.do("ada", "unban", town.of("carl"))
    town.do("ada", "settle", entries.Settle(3, ["ab" * 32]))
    town.do("ada", "void", entries.Void(2))
    town.do("zoe", "leave", entries.Leave())
    town.now += DAY_MS
    town.do("bob", "expire", entries.Expire([town.ids["ci-1"]]))
    town.do("ada", "remove", town.of("bob"))
    return town


def test_a_kept_roster_adds_up_to_what_it_always_did() -> None:
    kept = json.loads(VECTORS.read_text())
    state: State | None = None
    for data, expected in zip(kept["entries"], kept["states"], strict=True):
        after = apply(state, data.encode())
        assert isinstance(after, State), after
        assert state_hash(after) == expected
        state = after


def test_entries_are_written_as_they_always_were() -> None:
    assert [each.decode() for each in a_long_story().log] == json.loads(VECTORS.read_text())["entries"]
