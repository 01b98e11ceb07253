"""What each kind of entry does, who may write it, and when it is refused."""

import hashlib

import pytest
from msgspec.structs import replace
from nacl import bindings

from parley.core import sealing
from parley.core.limits import NAME_KEPT_MS
from parley.core.roster import Refusal, State, apply, apply_all, entries, member_id, read_entry, state_hash
from parley.core.roster.authoring import found_entry, next_entry
from tests.core.roster.town import DAY_MS, START, Town, key_body, key_of, salt, seed_of


def test_a_mesh_begins_with_its_founder_alone() -> None:
    town = Town()
    ada = town.member("ada")
    assert (ada.role, ada.key, town.state.n, town.state.epoch) == ("owner", key_of("ada"), 0, 0)
    assert town.state.fingerprint == town.state.head == entries.entry_hash(town.log[0])
    assert ada.id == member_id(read_entry(town.log[0]))


def test_two_meshes_of_one_founder_are_two() -> None:
    one = found_entry("ada", seed=seed_of("ada"), at=START, random=salt)
    other = found_entry("ada", seed=seed_of("ada"), at=START, random=lambda count: b"\x08" * count)
    assert entries.entry_hash(one) != entries.entry_hash(other)


def test_a_mesh_with_newer_rules_is_not_begun() -> None:
    body = entries.Found("00" * 32, entries.RULES + 1, key_of("ada"), "ada")
    data = entries.write_entry(
        n=0, prev=entries.NOTHING_BEFORE, kind="found", by=key_of("ada"), at=START, body=body, seed=seed_of("ada")
    )
    refused = apply(None, data)
    assert isinstance(refused, Refusal)
    assert refused.reason == "upgrade_needed"


def test_a_roster_begins_with_found_and_only_once() -> None:
    town = Town()
    late = apply(None, town.entry("ada", "leave", entries.Leave()))
    assert isinstance(late, Refusal)
    assert late.reason == "no_beginning"
    again = entries.Found("01" * 32, entries.RULES, key_of("ada"), "ada")
    assert town.try_to("ada", "found", again) == "no_beginning"


def test_an_invite_lets_in_as_many_as_it_says() -> None:
    town = Town()
    invite = town.invite("ada", uses=2)
    assert [town.try_to_join(name, invite) for name in ("bob", "carl", "dora")] == ["", "", "invite_used"]


def test_who_only_saw_a_join_cannot_join_by_its_invite() -> None:
    town = Town()
    invite = town.invite("ada", uses=9)
    assert town.try_to_join("bob", invite) == ""
    assert town.try_to_join("eve", invite, secret=seed_of("not the secret")) == "bad_invite"
    seen = read_entry(town.log[-1]).body
    assert isinstance(seen, entries.Join)
    stolen = entries.Join("eve", seen.invite, None, seen.countersig)
    data = next_entry(town.state, "join", stolen, by=key_of("eve"), seed=seed_of("eve"), at=town.now + 1)
    assert town.offer(data) == Refusal("bad_invite", "the joiner does not hold the invite's secret")


def test_a_joiner_signs_with_its_own_key() -> None:
    town = Town()
    invite = town.invite("ada")
    town.seeds["eve"] = seed_of("eve")
    honest = read_entry(town.joining("bob", invite)).body
    data = next_entry(town.state, "join", honest, by=key_of("bob"), seed=seed_of("eve"), at=town.now)
    refusal = town.offer(data)
    assert refusal is not None
    assert refusal.reason == "bad_signature"
    short = next_entry(town.state, "join", honest, by="ab", seed=seed_of("eve"), at=town.now)
    refusal = town.offer(short)
    assert refusal is not None
    assert refusal.reason == "bad_signature"


def test_an_invite_of_a_mesh_means_nothing_in_another() -> None:
    one, other = Town("ada"), Town("zoe")
    invite = other.invite("zoe")
    one.secrets.update(other.secrets)
    assert one.try_to_join("bob", replace(invite, issuer=one.ids["ada"])) == "bad_invite"
    assert one.try_to_join("bob", invite) == "bad_invite"


def test_an_expired_invite_lets_nobody_in() -> None:
    town = Town()
    invite = town.invite("ada", expires=town.now + 2)
    assert town.try_to_join("bob", invite) == ""
    assert town.try_to_join("carl", invite) == "invite_expired"


@pytest.mark.parametrize(
    ("issuer", "role", "reason"),
    [
        ("admin", "admin", ""),
        ("admin", "owner", "invite_void"),
        ("plain", "member", "invite_void"),
        ("ada", "owner", ""),
    ],
)
def test_admins_and_owners_invite_up_to_their_own_role(issuer: str, role: entries.Role, reason: str) -> None:
    town = Town()
    town.join("admin", role="admin")
    town.join("plain")
    assert town.try_to_join("new", town.invite(issuer, role=role)) == reason


def test_m3_an_invite_of_a_demoted_owner_makes_no_owners() -> None:
    town = Town()
    town.join("bob", role="owner")
    invite = town.invite("bob", role="owner")
    town.do("ada", "role", entries.SetRole(town.ids["bob"], "admin"))
    assert town.try_to_join("mallory", invite) == "invite_void"


def test_an_invite_of_somebody_who_is_gone_lets_nobody_in() -> None:
    town = Town()
    town.join("bob", role="admin")
    invite = town.invite("bob")
    town.do("ada", "remove", town.of("bob"))
    assert town.try_to_join("mallory", invite) == "invite_void"


def test_m9_who_is_put_out_takes_the_invite_along() -> None:
    town = Town()
    invite = town.invite("ada", uses=100)
    assert town.try_to_join("mallory", invite) == ""
    town.do("ada", "ban", town.of("mallory"))
    assert town.try_to_join("mallory2", invite) == "invite_revoked"


def test_invites_are_taken_back_by_their_issuer_and_by_who_outranks_it() -> None:
    town = Town()
    town.join("bob", role="admin")
    town.join("carl", role="admin")
    town.join("dora")
    invites = [town.invite("bob") for _ in range(2)]
    first = entries.RevokeInvite(invites[0])
    assert town.try_to("carl", "revoke_invite", first) == "not_allowed"
    assert town.try_to("dora", "revoke_invite", first) == "not_allowed"
    assert town.try_to("bob", "revoke_invite", first) == ""
    assert town.try_to("ada", "revoke_invite", first) == "unchanged"
    assert town.try_to("ada", "revoke_invite", entries.RevokeInvite(invites[1])) == ""
    assert [town.try_to_join("eve", each) for each in invites] == ["invite_revoked", "invite_revoked"]


def test_a_revocation_names_an_invite_that_its_issuer_really_made() -> None:
    town = Town()
    town.join("bob", role="admin")
    invite = town.invite("ada")
    town.secrets[invite.id] = seed_of("invite 0")
    pretended = replace(invite, issuer=town.ids["bob"])
    assert town.try_to("bob", "revoke_invite", entries.RevokeInvite(pretended)) == "bad_invite"


def test_a_replaced_key_voids_what_it_signed_and_is_never_a_key_again() -> None:
    town = Town()
    town.join("bob", role="admin")
    invite, old = town.invite("bob"), town.seeds["bob"]
    assert town.rotate("bob") == ""
    assert town.try_to_join("carl", invite) == "bad_invite"
    assert town.try_to_join("dora", town.invite("ada"), seed=old) == "key_taken"
    before = town.member("bob").old_keys
    assert [(each.key, each.compromised) for each in before] == [(sealing.public_key(old).hex(), False)]
    entry = next_entry(town.state, "rename", entries.Rename("rob"), by=town.ids["bob"], seed=old, at=town.now)
    refusal = town.offer(entry)
    assert refusal is not None
    assert refusal.reason == "bad_signature"


def test_nobody_takes_a_key_that_is_not_theirs() -> None:
    town = Town()
    town.join("bob")
    stolen = entries.Rotate(key_of("victim"), False, "00" * 64)
    assert town.try_to("bob", "rotate", stolen) == "bad_signature"
    taken = entries.Rotate(key_of("ada"), False, "00" * 64)
    assert town.try_to("bob", "rotate", taken) == "key_taken"


def test_a_key_that_signs_and_cannot_be_sealed_to_is_nobodys() -> None:
    town = Town()
    town.join("bob")
    mixed, signature = signed_by_a_mixed_key(b"anything")
    assert sealing.verify(mixed, signature, b"anything")
    assert not sealing.can_be_sealed_to(mixed)
    assert town.try_to("bob", "rotate", entries.Rotate(mixed.hex(), False, "00" * 64)) == "bad_key"
    old = Town()
    old.do("ada", "broker", entries.NameBroker(key_of("broker")))
    assert (
        old.try_to("ada", "adopt", entries.Adopt([entries.Adopted("mem_1", mixed.hex(), "eve", "member")])) == "bad_key"
    )


def signed_by_a_mixed_key(data: bytes) -> tuple[bytes, bytes]:
    """A public key with a part of small order, and a signature by it: the sum of a key and a point of order eight.

    A signature fits it as soon as the hash that it is multiplied with is a multiple of eight.
    """
    small = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    secret = hashlib.sha512(b"mixed").digest()
    scalar = bindings.crypto_core_ed25519_scalar_reduce(secret)
    public = bindings.crypto_core_ed25519_add(bindings.crypto_scalarmult_ed25519_base_noclamp(scalar), small)
    for attempt in range(256):
        nonce = bindings.crypto_core_ed25519_scalar_reduce(hashlib.sha512(secret + bytes([attempt])).digest())
        point = bindings.crypto_scalarmult_ed25519_base_noclamp(nonce)
        challenge = bindings.crypto_core_ed25519_scalar_reduce(hashlib.sha512(point + public + data).digest())
        if int.from_bytes(challenge, "little") % 8 == 0:
            product = bindings.crypto_core_ed25519_scalar_mul(challenge, scalar)
            return public, point + bindings.crypto_core_ed25519_scalar_add(nonce, product)
    raise AssertionError("no signature fits")


def test_who_left_may_come_back_under_its_key_and_name_as_another_member() -> None:
    town = Town()
    town.join("bob")
    first = town.ids["bob"]
    town.do("bob", "leave", entries.Leave())
    town.join("bob")
    assert town.ids["bob"] != first
    assert town.state.members[first].status == "left"
    assert town.state.with_key(key_of("bob")) == town.member("bob")


def test_a_banned_key_comes_back_only_after_the_ban_is_lifted() -> None:
    town = Town()
    town.join("bob")
    town.join("carl", role="admin")
    town.do("carl", "ban", town.of("bob"))
    assert town.try_to_join("bob", town.invite("ada")) == "banned"
    assert town.try_to("carl", "ban", town.of("bob")) == "unchanged"
    town.do("carl", "unban", town.of("bob"))
    assert town.try_to("carl", "unban", town.of("bob")) == "unchanged"
    town.join("bob")


def test_who_left_can_be_banned_but_not_as_long_as_it_is_somebody_else_now() -> None:
    town = Town()
    town.join("bob")
    first = town.of("bob")
    town.do("bob", "leave", entries.Leave())
    assert town.try_to("ada", "remove", first) == "not_active"
    town.join("bob")
    assert town.try_to("ada", "ban", first) == "not_active"
    town.do("ada", "ban", town.of("bob"))
    assert town.try_to_join("bob", town.invite("ada")) == "banned"


def test_a_name_is_one_members_and_kept_for_a_month() -> None:
    town = Town()
    town.join("bob")
    town.join("carl")
    assert town.try_to("carl", "rename", entries.Rename("bob")) == "name_taken"
    town.do("bob", "leave", entries.Leave())
    assert town.try_to("carl", "rename", entries.Rename("bob")) == "name_taken"
    assert town.try_to("carl", "rename", entries.Rename("bob"), at=town.now + NAME_KEPT_MS - 2) == "name_taken"
    assert town.try_to("carl", "rename", entries.Rename("bob"), at=town.now + NAME_KEPT_MS) == ""


def test_a_name_that_was_given_up_is_its_old_owners_to_take_back() -> None:
    town = Town()
    town.join("bob")
    town.join("carl")
    town.do("bob", "rename", entries.Rename("robert"))
    assert town.try_to("carl", "rename", entries.Rename("bob")) == "name_taken"
    town.do("bob", "rename", entries.Rename("bob"))
    assert town.try_to("bob", "rename", entries.Rename("bob")) == "unchanged"


@pytest.mark.parametrize("name", ["self", "all", "here", "everyone", "parley"])
def test_names_that_mean_something_else_are_nobodys(name: str) -> None:
    town = Town()
    assert town.try_to_join(name, town.invite("ada")) == "name_reserved"
    assert town.try_to("ada", "rename", entries.Rename(name)) == "name_reserved"
    founded = apply(None, found_entry(name, seed=seed_of("x"), at=START, random=salt))
    assert isinstance(founded, Refusal)
    assert founded.reason == "name_reserved"


def test_ephemeral_members_end_when_anybody_says_so_after_their_time() -> None:
    town = Town()
    town.join("ci-1", until=START + DAY_MS)
    town.join("bob")
    names = [town.ids["ci-1"]]
    assert town.try_to("bob", "expire", entries.Expire(names)) == "not_expired"
    assert town.try_to("bob", "expire", entries.Expire([town.ids["ada"]]), at=START + DAY_MS) == "not_expired"
    assert town.try_to("bob", "expire", entries.Expire(names), at=START + DAY_MS) == ""
    assert town.state.members[names[0]].status == "expired"
    assert town.try_to("bob", "expire", entries.Expire(names), at=START + DAY_MS) == "not_active"
    town.now = START + DAY_MS
    town.join("ci-1", seed=seed_of("another machine"))


def test_an_ephemeral_member_puts_off_its_end_by_a_day_at_most() -> None:
    town = Town()
    town.join("ci-1", until=START + 1_000)
    assert town.try_to("ci-1", "renew", entries.Renew(town.now + 2 * DAY_MS)) == "bad_until"
    assert town.try_to("ci-1", "renew", entries.Renew(town.now)) == "bad_until"
    town.do("ci-1", "renew", entries.Renew(town.now + DAY_MS))
    assert town.try_to("ada", "renew", entries.Renew(town.now + DAY_MS)) == "not_allowed"
    assert town.try_to_join("ci-2", town.invite("ada"), until=town.now + 2 * DAY_MS) == "bad_until"


def test_an_ephemeral_member_owns_no_mesh() -> None:
    town = Town()
    assert town.try_to_join("ci", town.invite("ada", role="owner"), until=START + 1_000) == "not_allowed"
    town.join("ci-1", until=START + DAY_MS)
    assert town.try_to("ada", "role", entries.SetRole(town.ids["ci-1"], "owner")) == "not_allowed"


def test_members_that_expire_are_listed_in_one_way() -> None:
    town = Town()
    town.join("ci-1", until=START + 1_000)
    town.join("ci-2", until=START + 1_000)
    both = sorted((town.ids["ci-1"], town.ids["ci-2"]))
    late = START + 2_000
    assert town.try_to("ada", "expire", entries.Expire(both[::-1]), at=late) == "malformed"
    assert town.try_to("ada", "expire", entries.Expire([both[0], *both]), at=late) == "malformed"
    assert town.try_to("ada", "expire", entries.Expire(both), at=late) == ""


def test_an_owner_acts_on_those_made_owner_after_it() -> None:
    town = Town()
    town.join("bob", role="owner")
    town.join("carl", role="owner")
    assert town.try_to("carl", "remove", town.of("bob")) == "not_allowed"
    assert town.try_to("carl", "role", entries.SetRole(town.ids["bob"], "member")) == "not_allowed"
    assert town.try_to("bob", "remove", town.of("ada")) == "not_allowed"
    assert town.try_to("bob", "role", entries.SetRole(town.ids["carl"], "admin")) == ""
    assert town.try_to("ada", "ban", town.of("bob")) == ""


@pytest.mark.parametrize("kind", ["remove", "ban"])
def test_only_who_outranks_puts_somebody_out(kind: entries.Kind) -> None:
    town = Town()
    town.join("one", role="admin")
    town.join("two", role="admin")
    town.join("plain")
    assert town.try_to("one", kind, town.of("two")) == "not_allowed"
    assert town.try_to("one", kind, town.of("ada")) == "not_allowed"
    assert town.try_to("plain", kind, town.of("one")) == "not_allowed"
    assert town.try_to("plain", kind, town.of("plain")) == "not_allowed"
    assert town.try_to("one", kind, town.of("plain")) == ""
    assert town.try_to("plain", "rename", entries.Rename("back")) == "unknown_author"


def test_a_role_is_given_by_who_outranks_and_up_to_its_own() -> None:
    town = Town()
    town.join("admin", role="admin")
    town.join("plain")
    assert town.try_to("admin", "role", entries.SetRole(town.ids["plain"], "owner")) == "not_allowed"
    assert town.try_to("plain", "role", entries.SetRole(town.ids["plain"], "admin")) == "not_allowed"
    assert town.try_to("admin", "role", entries.SetRole(town.ids["plain"], "member")) == "unchanged"
    assert town.try_to("admin", "role", entries.SetRole(town.ids["plain"], "admin")) == ""
    assert town.try_to("admin", "role", entries.SetRole(town.ids["admin"], "member")) == ""


def test_the_last_owner_stays() -> None:
    town = Town()
    town.join("bob")
    assert town.try_to("ada", "leave", entries.Leave()) == "last_owner"
    assert town.try_to("ada", "role", entries.SetRole(town.ids["ada"], "admin")) == "last_owner"
    town.do("ada", "role", entries.SetRole(town.ids["bob"], "owner"))
    town.do("ada", "leave", entries.Leave())
    assert [each.name for each in town.state.owners()] == ["bob"]


def test_who_is_alone_may_go() -> None:
    town = Town()
    town.do("ada", "leave", entries.Leave())
    assert town.state.active() == []


def test_a_key_is_owed_after_every_change_that_takes_somebody_away() -> None:
    town = Town()
    town.join("bob")
    town.do("bob", "leave", entries.Leave())
    assert town.state.owed == ""  # there is no key yet that bob could have
    assert town.new_key() == ""
    town.join("carl")
    town.join("ci", until=town.now + 1_000)
    town.join("dora")
    town.do("carl", "leave", entries.Leave())
    assert town.state.owed == "soon"
    assert town.new_key() == ""
    town.do("ada", "expire", entries.Expire([town.ids["ci"]]), at=town.now + 1_000)
    assert town.state.owed == "soon"
    town.now += 1_000
    town.do("ada", "remove", town.of("dora"))
    assert town.state.owed == "now"
    assert town.rotate("ada") == ""
    assert town.state.owed == "now"
    assert town.new_key() == ""
    assert (town.state.owed, town.state.epoch) == ("", 3)
    assert town.rotate("ada", compromised=True) == ""
    assert town.state.owed == "now"


def test_m5_only_admins_and_owners_make_keys_one_epoch_after_the_other() -> None:
    town = Town()
    town.join("admin", role="admin")
    town.join("plain")
    assert town.new_key("plain") == "not_allowed"
    assert town.new_key("admin") == ""
    assert town.try_to("ada", "key", replace(key_body(town.state), epoch=3)) == "wrong_epoch"
    assert town.try_to("ada", "key", replace(key_body(town.state), epoch=1)) == "wrong_epoch"
    late = replace(key_body(town.state), previous=entries.Previous(2, "ab"))
    assert town.try_to("ada", "key", late) == "wrong_epoch"
    assert town.new_key("ada") == ""
    assert [each.by for each in town.state.epochs.values()] == [town.ids["admin"], town.ids["ada"]]


def test_an_owner_voids_an_epoch_whose_key_is_lost() -> None:
    town = Town()
    town.join("admin", role="admin")
    assert [town.new_key(), town.new_key()] == ["", ""]
    assert town.try_to("admin", "void", entries.Void(1)) == "not_allowed"
    assert town.try_to("ada", "void", entries.Void(3)) == "wrong_epoch"
    assert town.try_to("ada", "void", entries.Void(1)) == ""
    assert town.state.owed == ""
    assert town.try_to("ada", "void", entries.Void(1)) == "unchanged"
    assert town.try_to("ada", "void", entries.Void(2)) == ""
    assert town.state.owed == "now"


def test_an_owner_names_the_broker() -> None:
    town = Town()
    town.join("admin", role="admin")
    assert town.try_to("admin", "broker", entries.NameBroker(key_of("broker"))) == "not_allowed"
    town.do("ada", "broker", entries.NameBroker(key_of("broker")))
    assert town.state.broker == key_of("broker")
    assert town.try_to("ada", "broker", entries.NameBroker(key_of("broker"))) == "unchanged"


def adopted(*names: str, **roles: entries.Role) -> entries.Adopt:
    listed = [entries.Adopted(f"mem_old{name}", key_of(name), name, roles.get(name, "member")) for name in names]
    return entries.Adopt(listed)


def test_the_members_of_an_older_mesh_keep_their_ids_in_the_order_of_the_list() -> None:
    town = Town()
    town.do("ada", "broker", entries.NameBroker(key_of("broker")))
    town.do("ada", "adopt", adopted("zoe", "ada", "bob", zoe="owner", ada="owner"))
    town.ids = {name: f"mem_old{name}" for name in ("zoe", "ada", "bob")}
    town.seeds |= {name: seed_of(name) for name in town.ids}
    town.do("ada", "adopt", adopted("carl"))
    assert town.state.founder == "mem_oldada"
    assert sorted(town.state.members) == ["mem_oldada", "mem_oldbob", "mem_oldcarl", "mem_oldzoe"]
    assert [each.name for each in town.state.owners()] == ["zoe", "ada"]
    assert town.try_to("ada", "remove", town.of("zoe")) == "not_allowed"
    assert town.try_to("zoe", "role", entries.SetRole("mem_oldada", "member")) == ""


def test_nobody_is_adopted_later_or_by_somebody_else() -> None:
    town = Town()
    assert town.try_to("ada", "adopt", adopted("bob")) == "not_allowed"
    town.do("ada", "broker", entries.NameBroker(key_of("broker")))
    town.do("ada", "adopt", adopted("zoe", zoe="owner"))
    town.ids["zoe"], town.seeds["zoe"] = "mem_oldzoe", seed_of("zoe")
    assert town.try_to("zoe", "adopt", adopted("bob")) == "not_allowed"
    assert town.new_key() == ""
    assert town.try_to("ada", "adopt", adopted("bob")) == "not_allowed"


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (adopted("bob", "bob"), "key_taken"),
        (entries.Adopt([*adopted("bob").members, replace(adopted("bob").members[0], id="mem_x")]), "key_taken"),
        (entries.Adopt([*adopted("bob").members, replace(adopted("carl").members[0], name="bob")]), "name_taken"),
        (adopted("ada"), "not_allowed"),
        (adopted("self"), "name_reserved"),
    ],
    ids=["an id twice", "a key twice", "a name twice", "a founder who is no owner", "a reserved name"],
)
def test_a_list_that_makes_no_sense_adopts_nobody(listed: entries.Adopt, reason: str) -> None:
    town = Town()
    town.do("ada", "broker", entries.NameBroker(key_of("broker")))
    before = town.state
    assert town.try_to("ada", "adopt", listed) == reason
    assert town.state is before


def test_newer_rules_make_the_mesh_read_only_for_who_does_not_know_them() -> None:
    town = Town()
    town.join("admin", role="admin")
    assert town.try_to("admin", "rules", entries.Rules(2)) == "not_allowed"
    assert town.try_to("ada", "rules", entries.Rules(1)) == "unchanged"
    assert town.try_to("ada", "rules", entries.Rules(2)) == ""
    assert town.try_to("ada", "rename", entries.Rename("ada2")) == "upgrade_needed"


def test_a_fork_is_settled_by_who_was_an_owner_before_it() -> None:
    town = Town()
    town.join("bob", role="owner")
    town.join("carl", role="owner")
    lost = ["ab" * 32, "cd" * 32]
    assert town.try_to("carl", "settle", entries.Settle(1, lost)) == "not_allowed"
    assert town.try_to("bob", "settle", entries.Settle(9, lost)) == "not_allowed"
    assert town.try_to("bob", "settle", entries.Settle(1, lost)) == ""
    assert set(town.state.settled) == set(lost)


def test_time_goes_back_only_by_an_owners_word() -> None:
    town = Town()
    town.join("bob")
    future = START + 400 * DAY_MS
    assert town.try_to("bob", "rename", entries.Rename("robert"), at=future) == ""
    assert town.try_to("bob", "rename", entries.Rename("bob")) == "time_went_back"
    assert town.try_to_join("carl", town.invite("ada", expires=future * 2)) == "time_went_back"
    assert town.try_to("ada", "rename", entries.Rename("ada2")) == ""
    assert town.try_to("bob", "rename", entries.Rename("bob")) == ""


def test_an_entry_stands_in_one_place_alone() -> None:
    town = Town()
    early = town.entry("ada", "rename", entries.Rename("ada2"))
    town.join("bob")
    refusal = town.offer(early)
    assert refusal is not None
    assert refusal.reason == "conflict"
    other = Town("ada")
    other.join("carl")
    data = town.entry("ada", "rename", entries.Rename("ada2"))
    refusal = other.offer(data)
    assert refusal is not None
    assert refusal.reason == "conflict"


def test_strangers_write_nothing() -> None:
    town = Town()
    town.ids["eve"], town.seeds["eve"] = "mem_eve", seed_of("eve")
    assert town.try_to("eve", "rename", entries.Rename("mallory")) == "unknown_author"
    town.ids["eve"] = town.ids["ada"]
    assert town.try_to("eve", "rename", entries.Rename("mallory")) == "bad_signature"


@pytest.mark.parametrize("kind", ["remove", "ban", "unban", "role"])
def test_whoever_never_was_is_told_of(kind: entries.Kind) -> None:
    town = Town()
    body = entries.SetRole("mem_x", "admin") if kind == "role" else entries.OfMember("mem_x")
    assert town.try_to("ada", kind, body) == "unknown_member"


def test_entries_are_taken_together_or_not_at_all() -> None:
    town = Town()
    town.join("bob")
    before, log = town.state, town.log
    town.do("ada", "remove", town.of("bob"))
    assert town.new_key() == ""
    batch = log[-2:]
    assert apply_all(before, batch) == town.state
    refused = apply_all(before, [batch[0], batch[0]])
    assert isinstance(refused, Refusal)
    assert refused.reason == "conflict"
    assert apply_all(None, []) == Refusal("no_entries", "there is no entry")


def test_a_checkpoint_says_what_all_compute() -> None:
    town = Town()
    town.join("bob")
    assert town.try_to("ada", "checkpoint", entries.Checkpoint(state_hash(town.state))) == "not_allowed"
    town.state = replace(town.state, checkpoint=town.state.n - 1_000)
    assert town.try_to("bob", "checkpoint", entries.Checkpoint(state_hash(town.state))) == "not_allowed"
    assert town.try_to("ada", "checkpoint", entries.Checkpoint("00" * 32)) == "wrong_state"
    assert town.try_to("ada", "checkpoint", entries.Checkpoint(state_hash(town.state))) == ""
    assert town.state.checkpoint == town.state.n


def test_an_entry_changes_nothing_of_the_state_before() -> None:
    town = Town()
    kept: list[tuple[State, str]] = []
    for step in ("bob", "carl", "dora"):
        kept.append((town.state, state_hash(town.state)))
        town.join(step)
    assert [state_hash(state) for state, _ in kept] == [digest for _, digest in kept]
