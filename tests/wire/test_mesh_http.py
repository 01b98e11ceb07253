"""What a joiner signs, and what a slug looks like."""

import msgspec
import pytest
from msgspec.structs import replace

from parley.core import sealing
from parley.wire.mesh_http import CreateMesh, JoinMesh, join_bytes

SEED = b"\1" * 32
ASKED = JoinMesh("parley-invite:abc", sealing.public_key(SEED).hex(), "alice", "0" * 128, "f" * 64)


def test_a_joiner_signs_the_invite_its_key_its_name_and_its_proof() -> None:
    signature = sealing.sign(SEED, join_bytes(ASKED))
    assert sealing.verify(sealing.public_key(SEED), signature, join_bytes(ASKED))
    for changes in ({"invite": "x"}, {"pubkey": "0" * 64}, {"display_name": "mallory"}, {"join_proof": ""}):
        assert join_bytes(replace(ASKED, **changes)) != join_bytes(ASKED)


@pytest.mark.parametrize("slug", ["", "Team", "a b", "-a", "a\n", "a" * 65])
def test_a_slug_is_a_word_that_needs_no_escape(slug: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"slug": slug, "name": "A team"}, CreateMesh)
    assert msgspec.convert({"slug": "team-1", "name": "A team"}, CreateMesh).slug == "team-1"
