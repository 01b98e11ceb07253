"""The roster of a mesh: who belongs to it, as a log of signed entries that a broker keeps and cannot write.

``apply`` decides what each entry does; ``State`` is what they add up to. ``authoring`` writes entries.
"""

from parley.core.roster.entries import Entry, Invite, Name, Role, read_entry
from parley.core.roster.rules import Refusal, apply, apply_all, judge_invite, member_id
from parley.core.roster.state import Member, State, outranks, state_hash
from parley.core.roster.steps import Step, follow

__all__ = [
    "Entry",
    "Invite",
    "Member",
    "Name",
    "Refusal",
    "Role",
    "State",
    "Step",
    "apply",
    "apply_all",
    "follow",
    "judge_invite",
    "member_id",
    "outranks",
    "read_entry",
    "state_hash",
]
