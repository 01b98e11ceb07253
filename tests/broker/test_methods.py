"""Every method of a broker, as a member calls it."""

import pytest

from parley.broker.done import Done
from parley.broker.greeting import Greeted
from parley.broker.rules.members import Member, Mesh
from parley.broker.signals import signals
from parley.core import sealing
from parley.core.clock import iso
from parley.wire.broker import ErrorFrame, Notice, Push
from parley.wire.invites import Invite, encode_invite, signed_invite
from parley.wire.mesh_methods import METHODS, rotation_bytes
from tests.broker.driven_mesh import DrivenMesh, pubkey_of, seed_of, signed_hello
from tests.conformance.broker.circle import make_send


def invite_text(driven: DrivenMesh, invite_id: str = "inv_1", **changes: object) -> str:
    values: dict[str, object] = {
        "invite_id": invite_id,
        "mesh_id": driven.mesh_id,
        "mesh_slug": "red",
        "broker_url": "ws://127.0.0.1",
        "role": "member",
        "issuer": pubkey_of("ann"),
        "expires_at": iso(driven.clock.now_ms() + 60_000),
        "uses_max": 1,
        "key_epoch": 1,
        **changes,
    }
    return encode_invite(signed_invite(Invite(**values), seed_of("ann")))  # type: ignore[arg-type]


def test_topics_and_groups_are_joined_and_left(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    for line in (ann, bob):
        assert line.result("subscribe", topic="deploy") == {"topic": "deploy", "changed": True}
        assert line.result("join_group", group="eu/west") == {"group": "eu/west", "changed": True}
    assert ann.result("subscribe", topic="deploy")["changed"] is False
    (topic,) = bob.result("topics")["topics"]
    assert (topic["subscribers"], topic["subscribed"]) == (2, True)
    ann.say(make_send("c1", "topic", "deploy"))
    ann.say(make_send("c2", "queue", "@eu"))
    assert [push.message.ref for push in bob.all(Push)] == ["deploy", "@eu"]
    peers = {each["display_name"]: each["groups"] for each in ann.result("peers")["peers"]}
    assert peers == {"ann": ["eu/west"], "bob": ["eu/west"], "cid": []}
    assert bob.result("leave_group", group="eu/west")["changed"] is True
    assert bob.result("leave_group", group="eu/west")["changed"] is False
    assert bob.result("unsubscribe", topic="deploy")["changed"] is True
    for bad in ("", "@x", "*", "a\nb"):
        assert ann.code("join_group", group=bad) == "INVALID_INPUT"


def test_grants_and_blocks_are_each_members_own(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    peer = driven.ann.member_id
    assert bob.result("block", member_id=peer) == {"member_id": peer, "capabilities": []}
    assert bob.result("grants") == {"grants": {peer: []}}
    assert ann.result("grants") == {"grants": {}}
    assert bob.result("grant", member_id=peer, capabilities=["topic", "dm"])["capabilities"] == ["dm", "topic"]
    assert bob.result("unblock", member_id=peer)["capabilities"] == ["broadcast", "dm", "topic"]
    assert bob.result("grants") == {"grants": {}}
    assert bob.code("grant", member_id=peer, capabilities=["fly"]) == "INVALID_INPUT"
    assert bob.code("block", member_id="mem_nobody") == "NO_SUCH_DESTINATION"


def test_a_profile_is_kept_sealed_and_its_member_may_stay_out_of_the_list(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    assert bob.result("set_profile", sealed="c2VhbGVk", key_epoch=1) == {"visible": True}
    told = {each["display_name"]: each["profile"] for each in ann.result("peers")["peers"]}
    assert told == {"ann": None, "bob": {"sealed": "c2VhbGVk", "key_epoch": 1}, "cid": None}
    assert bob.result("set_profile", visible=False) == {"visible": False}
    assert {each["display_name"] for each in ann.result("peers")["peers"]} == {"ann", "cid"}
    assert {each["display_name"] for each in bob.result("peers")["peers"]} == {"ann", "bob", "cid"}
    for wrong in ({"sealed": "c2VhbGVk"}, {"key_epoch": 1}, {"sealed": "not base64!", "key_epoch": 1}):
        assert bob.code("set_profile", **wrong) == "INVALID_INPUT"


def test_roles_and_removals_follow_rank(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    assert bob.code("set_role", member_id=driven.cid.member_id, role="admin") == "NOT_ALLOWED"
    assert ann.result("set_role", member_id=driven.bob.member_id, role="admin")["role"] == "admin"
    assert bob.code("revoke", member_id=driven.ann.member_id) == "NOT_ALLOWED"
    assert bob.result("revoke", member_id=driven.cid.member_id)["state"] == "revoked"
    assert bob.result("revoke", member_id=driven.cid.member_id)["state"] == "revoked"
    assert bob.result("unban", member_id=driven.cid.member_id)["state"] == "left"
    assert bob.result("unban", member_id=driven.cid.member_id)["state"] == "left"
    states = {each["display_name"]: each["state"] for each in ann.result("members")["members"]}
    assert states == {"ann": "active", "bob": "active", "cid": "left"}
    assert ann.code("leave") == "NOT_ALLOWED"
    bob.say_request("leave")
    assert bob.closed == 4002


def test_a_kick_closes_connections_and_ends_no_membership(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    assert ann.result("kick", member_id=driven.bob.member_id) == {"member_id": driven.bob.member_id}
    assert (bob.closed, bob.last(ErrorFrame).close_code) == (4001, 4001)
    assert driven.ready(driven.bob).closed is None


def test_a_new_key_signs_itself_in(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    new = seed_of("bob's new key")
    public = sealing.public_key(new).hex()
    said = rotation_bytes(driven.mesh_id, driven.bob.member_id, public)
    assert bob.code("rotate_key", pubkey=public, signature="0" * 128) == "INVALID_INPUT"
    for _ in range(2):
        result = bob.result("rotate_key", pubkey=public, signature=sealing.sign(new, said).hex())
        assert result == {"member_id": driven.bob.member_id, "pubkey": public}
    assert ann.last(Notice).data["pubkey"] == public
    audit = ann.result("audit")
    assert [each["event"] for each in audit["entries"]] == ["member_keypair_rotated"]
    assert audit["verified"] is True


def test_mesh_keys_are_asked_for_given_and_thrown_away(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    wanted = ann.result("keys_wanted")
    assert (wanted["key_epoch"], [each["member_id"] for each in wanted["wanted"]]) == (
        1,
        [driven.bob.member_id, driven.cid.member_id],
    )
    assert ann.result("give_key", member_id=driven.bob.member_id, key_epoch=1, sealed="QUJD")["given"] is True
    assert bob.last(Notice).name == "key_given"
    (key,) = bob.result("keys")["keys"]
    assert (key["giver_id"], key["giver_key"], key["sealed"]) == (driven.ann.member_id, driven.ann.pubkey, "QUJD")
    assert bob.result("refuse_key", key_epoch=1, giver_id=driven.ann.member_id) == {"changed": True}
    assert ann.last(Notice).name == "key_wanted"
    assert bob.result("refuse_key", key_epoch=1, giver_id=driven.ann.member_id) == {"changed": False}


def test_invites_are_made_listed_and_taken_back(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    text = invite_text(driven)
    assert ann.result("create_invite", invite=text) == {"invite_id": "inv_1", "created": True}
    assert ann.result("create_invite", invite=text) == {"invite_id": "inv_1", "created": False}
    assert bob.code("create_invite", invite=text) == "NOT_ALLOWED"
    for secret in ("QUJD", "A" * 43):
        assert ann.code("create_invite", invite=f"{text}.{secret}") == "INVALID_INPUT"
    assert ann.code("create_invite", invite=invite_text(driven, "inv_2", mesh_id="mesh_other")) == "INVALID_INPUT"
    assert ann.code("revoke_invite", invite_id="inv_nobody") == "NOT_FOUND"
    assert ann.result("revoke_invite", invite_id="inv_1") == {"invite_id": "inv_1", "changed": True}
    (listed,) = ann.result("invites")["invites"]
    assert (listed["invite_id"], listed["revoked"], listed["uses"]) == ("inv_1", True, 0)


def test_a_member_from_another_host_is_written_down(driven: DrivenMesh) -> None:
    for host in ("h1", "h1", "h2"):
        line = driven.connect()
        line.say(signed_hello(driven.bob, line.challenge, host=host))
    events = driven.ready(driven.ann).result("audit")["entries"]
    assert [each["event"] for each in events] == ["member_host_changed"]


@pytest.mark.parametrize("name", METHODS)
def test_each_method_refuses_parameters_of_another_shape_and_ignores_those_it_does_not_know(
    driven: DrivenMesh, name: str
) -> None:
    ann = driven.ready(driven.ann)
    fields = METHODS[name].params.__struct_fields__
    if fields:
        assert ann.code(name, **{field: {"no": "such"} for field in fields}) == "INVALID_INPUT"
    else:
        problem = ann.request(name, ignored=1).problem
        assert problem is None or (name, problem.code) == ("leave", "NOT_ALLOWED")


def test_what_a_method_means_to_others_crosses_to_other_brokers() -> None:
    mesh, member = Mesh("m", "s", "n", 1, "p"), Member("a", "m", "k", "n", "member", "active", 0, None)
    done = Done({}, ("w",), ("e",), ("k",), (Notice("presence", {}),), "m")
    made = signals("me", [done, Greeted(mesh, member, ("c1", "c2"))])
    assert [each.wake for each in made if each.wake] == [("w",)]
    assert [each.expel for each in made if each.expel] == [("e",)]
    assert [each.kick for each in made if each.kick] == [("k",)]
    assert [each.replaced for each in made if each.replaced] == [("c1", "c2")]
    assert [told.notice.name for each in made for told in each.told] == ["presence"]
