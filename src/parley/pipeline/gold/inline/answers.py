"""Who answers whom, by the rules of ``gold.answers``, in arrays."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parley.pipeline.gold.answers import EXPLICIT, NEXT
from parley.pipeline.gold.inline.arrays import (
    UNKNOWN,
    Array,
    Columns,
    grouped,
    latency_ms,
    moments,
    whole,
)
from parley.pipeline.gold.inline.posts import Posts, Vocabulary


@dataclass(frozen=True, slots=True)
class Answers:
    """One row per message and agent who answered it, in the order of the questions."""

    question: Array
    """The row of the post."""
    answer: Array
    by_reply: Array
    latency_ms: Array


def find_answers(posts: Posts, window_ms: int) -> Answers:
    """Those by a reply, and where nobody replied by name, those who came next."""
    asked, replied = _replies(posts)
    spoken, next_one = _coming_next(posts, window_ms)
    has_reply = np.zeros(len(posts.hub), bool)
    has_reply[asked] = True
    left = ~has_reply[spoken]
    question = np.concatenate([asked, spoken[left]])
    answer = np.concatenate([replied, next_one[left]])
    by_reply = np.arange(len(question)) < len(asked)
    order = np.lexsort((posts.event_id[answer], posts.event_id[question], posts.hub[question]))
    question, answer = question[order], answer[order]
    return Answers(question, answer, by_reply[order], latency_ms(posts.at[question], posts.at[answer]))


def _replies(posts: Posts) -> tuple[Array, Array]:
    """Each agent's first reply by name to a message of somebody else: the questions and the answers."""
    live = ~posts.is_deleted
    answer = np.flatnonzero(live & (posts.reply_to >= 0))
    question = posts.reply_to[answer]
    counts = live[question] & (posts.sender[question] != posts.sender[answer])
    question, answer = question[counts], answer[counts]
    groups, _ = grouped(question, posts.sender[answer])
    firsts = groups.first(posts.event_id[answer])
    return question[firsts], answer[firsts]


def _coming_next(posts: Posts, window_ms: int) -> tuple[Array, Array]:
    """Each message with the next one of another sender in its topic that replies to nothing by name.

    Those who may answer stand in a row of their own. What comes after a message is the first of them behind it, if
    another has sent it, or else the first after all that its sender says there in one go.
    """
    rows = np.flatnonzero(~posts.is_deleted)
    rows = rows[np.lexsort((posts.event_id[rows], posts.topic[rows], posts.hub[rows]))]
    speaks = ~posts.replies[rows]
    speakers = rows[speaks]
    follows = np.cumsum(speaks)
    sender, topic, hub = posts.sender[speakers], posts.topic[speakers], posts.hub[speakers]
    begins = np.ones(len(speakers), bool)
    begins[1:] = (sender[1:] != sender[:-1]) | (topic[1:] != topic[:-1]) | (hub[1:] != hub[:-1])
    starts = np.append(np.flatnonzero(begins), len(speakers))
    after_run = starts[np.cumsum(begins)]
    speakers = np.append(speakers, -1)  # nobody comes after the last
    first = speakers[follows]
    is_other = (first < 0) | (posts.sender[first] != posts.sender[rows])
    second = speakers[np.append(after_run, len(speakers) - 1)[follows]]
    found = np.where(is_other, first, second)
    here = (found >= 0) & (posts.topic[found] == posts.topic[rows]) & (posts.hub[found] == posts.hub[rows])
    question, answer = rows[here], found[here]
    waited = latency_ms(posts.at[question], posts.at[answer])
    in_time = (waited == UNKNOWN) | (waited <= window_ms)
    return question[in_time], answer[in_time]


def answers_table(posts: Posts, answers: Answers, words: Vocabulary) -> Columns:
    """The table ``answers``."""
    question, answer = answers.question, answers.answer
    is_first = np.ones(len(question), bool)
    is_first[1:] = question[1:] != question[:-1]
    return {
        "db_id": words.hubs.column(posts.hub[question]),
        "channel_id": words.channels.column(posts.channel[question]),
        "topic_id": words.topics.column(posts.topic[question]),
        "question_id": posts.names.column(posts.message[question]),
        "asker": words.agents.column(posts.sender[question]),
        "answerer": words.agents.column(posts.sender[answer]),
        "asked_at": moments(posts.at[question]),
        "answer_id": posts.names.column(posts.message[answer]),
        "answer_event_id": whole(posts.event_id[answer]),
        "answered_at": moments(posts.at[answer]),
        "kind": pa.DictionaryArray.from_arrays(np.where(answers.by_reply, 0, 1).astype(np.int8), [EXPLICIT, NEXT]),
        "is_first": pa.array(is_first),
        "latency_ms": whole(answers.latency_ms),
    }


def pairs_table(posts: Posts, answers: Answers, words: Vocabulary) -> Columns:
    """The table ``pairs``."""
    asker, answerer = posts.sender[answers.question], posts.sender[answers.answer]
    hub = posts.hub[answers.question]
    pairs, of = grouped(hub, asker, answerer)
    return {
        "db_id": words.hubs.column(hub[of]),
        "asker": words.agents.column(asker[of]),
        "answerer": words.agents.column(answerer[of]),
        "answers": whole(pairs.count()),
        "by_reply": whole(pairs.count(answers.by_reply)),
        "messages": whole(pairs.distinct(answers.answer)),
        **pairs.latencies(answers.latency_ms),
    }
