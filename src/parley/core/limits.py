"""Every limit that is a rule of the protocol, with its reason. What a workspace may tune is in ``settings``."""

from typing import Final

CHANNEL_NAME_CHARS_MAX: Final = 100
"""Fits a sidebar; the same bound stands as a CHECK in the schema."""
TOPIC_TITLE_CHARS_MAX: Final = 200
"""Fits a line; the same bound stands as a CHECK in the schema."""
DESCRIPTION_CHARS_MAX: Final = 2_000
"""A channel's description is a paragraph, not a document."""
SENDER_CHARS_MAX: Final = 200
"""Names are shown beside every message and are part of every fingerprint."""
KIND_CHARS_MAX: Final = 100
"""An attachment's kind is a word."""
ATTACHMENT_KEY_CHARS_MAX: Final = 200
"""An attachment's key is a namespace."""
DEDUPE_KEY_CHARS_MAX: Final = 32_768
"""Room for the canonical JSON of the largest metadata, the default key; also the largest index entry we accept."""
URL_CHARS_MAX: Final = 2_048
"""What browsers and servers agree on."""
URL_TEXT_CHARS_MAX: Final = 500
"""Title and description of a link."""
URLS_PER_MESSAGE_MAX: Final = 100
"""One message cannot write an unbounded number of rows."""
IDEMPOTENCY_KEY_CHARS_MAX: Final = 200
"""A key is an id, not a payload."""
REQUEST_ID_CHARS_MAX: Final = 128
"""A request id is echoed into headers and logs."""
SEARCH_QUERY_CHARS_MAX: Final = 1_000
"""A query is typed by a person or built from a few words."""
JSON_DEPTH_MAX: Final = 64
"""Deeper metadata is an attack on somebody's parser."""
JSON_DOCUMENT_DEPTH_MAX: Final = 96
"""Levels of a whole JSON text that is decoded: metadata, and room for what it is wrapped in."""
JSON_BYTES_MAX: Final = 67_108_864
"""Bytes of a JSON text that is decoded; a request, a frame and a file have smaller limits of their own."""
CONTENT_BYTES_MAX: Final = 65_536
"""64 KiB of UTF-8; the schema's CHECK counts characters, of which there are never more."""
ATTACHMENT_BYTES_MAX: Final = 16_384
"""16 KiB of metadata as stored; the same bound stands as a CHECK in the schema."""
PAGE_LIMIT_DEFAULT: Final = 50
PAGE_LIMIT_MAX: Final = 1_000
"""One answer stays small enough to be built in a few milliseconds."""
MESSAGES_REACHED_MAX: Final = 500
"""Messages whose deliveries are counted in one answer, which must fit into a frame."""
BROKER_FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest frame that a daemon takes from a broker; it hangs up on a larger one."""
EVENTS_LIMIT_DEFAULT: Final = 100
SEARCH_LIMIT_DEFAULT: Final = 100
SUBSCRIPTIONS_MAX: Final = 1_000
"""Channels and topics that one feed may name; more is what an unfiltered feed is for."""
PLUGIN_NAME_CHARS_MAX: Final = 64
"""A plugin's name is a word."""
AGENT_NAME_CHARS_MAX: Final = 64
"""An agent's name travels in a header and names a file."""
AGENT_TEXT_CHARS_MAX: Final = 200
"""Program, model and session of an agent are words that it gives about itself."""
TASK_TEXT_CHARS_MAX: Final = 8_000
"""A task's description and result are a page each; they travel with each of its events."""
REASON_CHARS_MAX: Final = 500
"""Why somebody did something is a sentence."""
PATTERN_CHARS_MAX: Final = 500
"""A pattern of paths is compared with every other one."""
PATTERNS_MAX: Final = 50
"""Patterns of one lease; more is what ``**`` is for."""
CHECKED_PATHS_MAX: Final = 2_000
"""Paths that one request may ask about; a larger commit is asked about in parts."""
ENRICHED_MESSAGES_MAX: Final = 200
"""Messages whose enrichments one request may ask for; a page of them."""
LOGIN_CODE_SECONDS: Final = 300
"""A link of `parley ui` is opened at once or pasted soon; later it is only something to be found."""
LOGIN_CODE_CHARS_MAX: Final = 200
"""Anything longer is no code of ours."""
LOGIN_CODES_MAX: Final = 32
"""Links that wait to be opened; the oldest one gives way to one more."""
PAGE_SESSION_SECONDS: Final = 30 * 24 * 3600
"""A page that is used daily stays logged in; a forgotten browser does not for ever."""
ENRICHMENTS_PER_MESSAGE_MAX: Final = 500
"""What one plugin may find in one message; a page still draws it at once."""
EXTRACTED_PER_MESSAGE_MAX: Final = 100
"""Attachments that one plugin may take from one message; as many as links."""
FINDINGS_BYTES_MAX: Final = 262_144
"""All that a plugin says about one message travels as one event, which every reader has to hold."""
MODEL_NAME_CHARS_MAX: Final = 200
"""Each part of an embedding model's identity is a name."""
VECTOR_DIM_MAX: Final = 8_192
"""Numbers in a vector: more than any model in use has, and what SQLite's vector tables take."""
PROFILE_CHARS_MAX: Final = 24_576
"""What a member tells of itself, sealed and in base64: the largest summary, title, text and picture's address."""
VERSION_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly; a message cannot be changed more often."""
TOMBSTONE: Final = "[deleted]"
"""What replaces the content of a deleted message."""
DESTINATION_CHARS_MAX: Final = 200
"""A topic's or a group's name, or a key in hexadecimal."""
MENTIONS_MAX: Final = 50
"""Members that one message may mention; more is what a group is for."""
INVITE_CHARS_MAX: Final = 4_096
"""An invite is pasted by people; a longer one was put together by somebody else."""
INVITE_TEXT_CHARS_MAX: Final = 500
"""A mesh's name, or the address of its broker."""
INVITE_USES_MAX: Final = 10_000
"""Members that one invite may let in; more is what another invite is for."""
ROSTER_ENTRY_BYTES_MAX: Final = 4_096
"""An entry of a roster is read by everybody for ever; what is longer comes as several."""
ROSTER_APPEND_ENTRIES_MAX: Final = 32
"""Entries that are appended together: a removal and its key are two, and whoever settles a fork repeats a few more."""
ROSTER_APPEND_BYTES_MAX: Final = 65_536
"""Their bytes together: with what JSON adds to them they fit into a daemon's frame."""
CHECKPOINT_ENTRIES_MIN: Final = 1_000
"""Entries between two checkpoints of a roster: each costs every reader a hash over all members."""
EPHEMERAL_MS_MAX: Final = 24 * 3_600_000
"""How far ahead an ephemeral membership may end: who is not renewed for a day is gone."""
NAME_KEPT_MS: Final = 30 * 24 * 3_600_000
"""How long nobody else is called what a member was called, so that no message reaches the wrong one by habit."""
MESSAGE_META_BYTES_MAX: Final = 4_096
"""What a sender lets everybody see is a label, not a payload."""
SEALED_META_BYTES_MAX: Final = 32_768
"""Metadata that is sealed with a message: half of what a broker carries at least."""
INBOX_WAIT_SECONDS_MAX: Final = 25
"""How long a request for a daemon's inbox may wait for something to arrive; less than clients wait for an answer."""
BUS_NONCES_KEPT: Final = 4_096
"""Nonces of all peers that a bus remembers, first in first out. The marks are the defence; these only add to it."""
BUS_SEQUENCE_MAX: Final = 2**63 - 1
"""The largest sequence that a store can hold; a peer that sends a larger one is refused."""
BUS_SEQUENCE_BLOCK: Final = 1_024
"""Sequences that a durable store reserves with one commit. A restart skips what is left of them, of 9 * 10^18."""
BUS_SEQUENCE_JUMP_MAX: Final = 2**32
"""How far a peer's refusal may move our counter: more messages than a lost backup can be behind, and so few that a
lying peer cannot use the counter up."""
BUS_STORED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The payload of one message: what fits into a frame."""
BUS_BOX_ITEMS_MAX: Final = 10_000
"""Messages in the outbox, and as many that wait for a handler: what can be listed and looked through in a moment."""
BUS_BOX_BYTES_MAX: Final = 64 * 1024 * 1024
"""Their payloads together, also where they are in memory."""
BUS_BOX_ITEMS_PER_PEER_MAX: Final = 1_000
"""One peer that is away, or floods us, leaves room for the others."""
BUS_DISPATCHES_MAX: Final = 5
"""How often a handler is tried with a message that it never returned from; then the message is at fault."""
BUS_BACKOFF_MS_MAX: Final = 600_000
"""The longest wait between two tries: ten minutes. A wait beyond it was written under a clock that has jumped back."""
BUS_OUTBOX_MS_MAX: Final = 7 * 24 * 3600 * 1000
"""The longest life of a message in the outbox: a week, so that a laptop finds it after a long weekend."""
BUS_MESSAGE_ID_MS: Final = BUS_OUTBOX_MS_MAX + 24 * 3600 * 1000
"""How long the id of a received message is remembered: a day longer than its sender can go on repeating it."""
BUS_MEMORY_MESSAGE_IDS_MAX: Final = 65_536
"""Ids that the memory store keeps for each peer, oldest given up first: about ten megabytes."""
BUS_EXPIRED_KEPT: Final = 1_000
"""Notes of messages that expired in the outbox, newest kept, so that it can still tell of them."""
BUS_PEERS_KEPT: Final = 1_000
"""Peers that a store remembers, those seen last: more agents than one person has."""
BUS_PEER_SEEN_MS: Final = 30 * 24 * 3600 * 1000
"""Who was not seen for a month is not published to any more."""
BUS_SUBSCRIPTIONS_MAX: Final = 256
"""Topics that one agent subscribes to; all of them are told to every peer."""
BUS_CODE_CHARS_MAX: Final = 64
"""The code of a refusal that a peer tells of."""
BUS_UNANSWERED_MAX: Final = 256
"""Envelopes on a connection that wait for their acknowledgement: a sender waits then, and a receiver reads no more."""
BUS_ADMITTING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Payloads of one connection that are on their way into the store, before no more is read from it."""
BUS_CONNECTIONS_MAX: Final = 512
"""Connections at a time: several for each machine that one person could have."""
BUS_CONNECTIONS_PER_PEER_MAX: Final = 8
"""Of these, how many one peer may open: it needs one, and a few more while it loses and replaces it."""
BUS_HELLO_SECONDS: Final = 10.0
"""How long the other side of a new connection may take to say who it is."""
BUS_DIAL_SECONDS: Final = 5.0
"""How long one address is tried before the next."""
BUS_RESOLVE_SECONDS: Final = 5.0
"""How long a request waits for a peer of which no address is known to be announced."""
BUS_ALIVE_SECONDS: Final = 20.0
"""A connection on which nothing else is said says so often that it is there."""
BUS_SILENCE_SECONDS: Final = 60.0
"""How long a frame may take to arrive, or to be taken; time for the largest one on a slow network."""
BUS_ACK_SECONDS: Final = 10.0
"""How long an acknowledgement may take before the message is sent again under the same id: several slow commits."""
BUS_TRIES_MAX: Final = 3
"""How often a message is sent before its sender is told, or the outbox waits with it."""
BUS_REQUEST_SECONDS: Final = 30.0
"""How long a request waits for its answer unless told otherwise."""
BUS_REQUEST_SECONDS_MAX: Final = 24 * 3600.0
"""The longest that a request may wait; what takes longer is two messages."""
BUS_HANDLERS_MAX: Final = 64
"""Requests on one topic that are handled at the same time; others wait in the inbox."""
BUS_UNTAKEN_MAX: Final = 4_096
"""Answers for one peer that it has not taken yet: more than an honest one asks for side by side."""
BUS_UNTAKEN_BYTES_MAX: Final = 128 * 1024 * 1024
"""These answers with what they answer: four of the largest, or thousands of others."""
BUS_STRANGERS_GREETED: Final = 16
"""Announced agents that were never met which are looked for at a time. Most may be made up."""
BUS_CLOSE_SECONDS: Final = 5.0
"""How long a bus that closes gives what it is doing."""
BUS_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest envelope; a receiver hangs up on a larger one before it has read it."""
BUS_CHAIN_DEPTH_MAX: Final = 4
"""Certificates from a user's key to an agent's. Each is a signature to check before anything else is known."""
BUS_CERTIFICATE_BYTES_MAX: Final = 16_384
"""One certificate, most of which are the topics that it allows."""
BUS_CHAIN_BYTES_MAX: Final = BUS_CHAIN_DEPTH_MAX * (BUS_CERTIFICATE_BYTES_MAX + 128)
"""A chain of the largest certificates, with their signatures."""
BUS_TOPIC_CHARS_MAX: Final = DESTINATION_CHARS_MAX
"""A topic of the bus is named as one of a mesh is."""
BUS_TOPICS_MAX: Final = 64
"""Topics that one certificate may name; a machine that needs more may use them all."""
BUS_ROLE_CHARS_MAX: Final = 64
"""A role is a word or two that a user reads in a list."""
BUS_REVOKED_MAX: Final = 1_000
"""Keys that a statement revokes one by one. It travels with every connection and is pasted by people."""
BUS_STATEMENTS_MAX: Final = 16
"""Statements of one user of which none holds all of another; there is one, unless a user key was restored."""
BUS_LINE_CHARS_MAX: Final = 120_000
"""The largest statement as a line, and what Linux takes as one argument of a command."""
BUS_CERTIFICATE_DAYS: Final = 90
"""How long a certificate holds unless the user says otherwise."""
BUS_CERTIFICATE_DAYS_MAX: Final = 3_650
"""Ten years; what should hold for ever is renewed."""
BUS_RENEWAL_DAYS: Final = 30
"""A certificate that ends sooner is renewed where the user key is."""
BUS_PAIRING_SECONDS: Final = 300.0
"""How long a pairing may take unless told otherwise: time to walk to the other machine."""
BUS_HANDSHAKE_SECONDS: Final = 10
"""How long whoever connects may take to prove its key."""
BUS_FRAME_GAP_SECONDS: Final = 30
"""How long a peer may be silent within a frame. Between frames it may be silent for as long as it likes."""
BUS_FAREWELL_SECONDS: Final = 5
"""How long a connection that is closed goes on sending what is on its way."""
BUS_NEWCOMERS_MAX: Final = 64
"""Connections that have not proven a key yet. One more ends the oldest of the address that has the most of them."""
BUS_CONNECTIONS_PER_ADDRESS_MAX: Final = 64
"""Connections from one address, where several agents may live."""
BUS_FIXED_ADDRESSES_MAX: Final = 4
"""Fixed addresses of one peer: a machine has a cable, a radio and a name."""
BUS_ANNOUNCEMENTS_MAX: Final = 512
"""Announcements that are kept, oldest given up first. Anybody on the LAN can make them up."""
BUS_ANNOUNCEMENTS_PER_PEER_MAX: Final = 4
"""Of one peer: those of a listener that was killed live on for an hour beside that of the next one."""
BUS_ANNOUNCED_ADDRESSES_MAX: Final = 6
"""Addresses of one peer that are tried because they were announced."""
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, after which no calendar of ours goes on."""
