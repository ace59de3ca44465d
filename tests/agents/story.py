"""One conversation with everything that a session file can hold, and what a model must be told of it.

`STORY` is in neutral words; `sources` writes it as each runtime's own file, `told` says it as the events that must arrive.
"""

import base64
import dataclasses
import hashlib
import json
import struct
import zlib


def picture(red, green, blue):
    """A PNG of 2 × 2 pixels, as base64 text."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    rows = (b"\0" + bytes([red, green, blue]) * 2) * 2
    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")).decode()


def image_name(data):
    """What stands for an image in events: its hash."""
    return hashlib.sha256(base64.b64decode(data)).hexdigest()[:12]


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclasses.dataclass
class User:
    text: str
    image: str = ""


@dataclasses.dataclass
class Call:
    id: str
    name: str
    input: dict
    result: str | None  # None: it never ended
    is_error: bool = False
    image: str = ""


@dataclasses.dataclass
class Answer:
    """One answer of the model. The calls of one answer ran in parallel."""

    text: str = ""
    calls: list = dataclasses.field(default_factory=list)
    thinking: str = ""
    after: str = ""  # text behind the calls


THINKING = "First both files, then the picture."
STORY = [
    User('Look at the two files and at this picture. Olá, 北京, “quoted”, <b>tag</b>, C:\\dir and\na second line.', picture(200, 0, 0)),
    Answer(
        "I will read both files.",
        [
            Call("toolu_01alpha", "Read", {"file_path": "/tmp/a.txt", "limit": 20}, "alpha\n\tindented ✓\n"),
            Call("toolu_01beta", "Bash", {"command": "cat '/tmp/b.txt'", "env": {"A": [1, 2.5, None, True, {}]}}, "cat: /tmp/b.txt: No such file", is_error=True),
        ],
        THINKING,
    ),
    Answer("", [Call("toolu_01gamma", "Screenshot", {}, "the screen", image=picture(0, 0, 200))]),
    Answer("The first file is there, the second is not; `*both*` were asked for."),
    User("Thank you. Does ![this](embed://x1) survive?"),
    Answer("It does."),
    User("And three more?"),
    Answer("One more look.", [Call("toolu_01delta", "Bash", {"command": "true"}, "(no output)")]),
    Answer("Nothing was printed 🙂."),
    # What a client could take for a command of its own, two turns in a row.
    User("/etc/hosts looks wrong to me."),
    User("?why is that"),
    Answer("", [Call("call_x|fc:1.2", "Bash", {"command": "cat /etc/hosts"}, ""), Call("call_x|fc:1.3", "Read", {"file_path": "/etc/hosts"}, "line\n" * 8000)]),
    Answer("", [Call("call_y", "Screenshot", {"of": "hosts"}, "failed half-way", is_error=True, image=picture(0, 200, 0))]),
    Answer("Once more.", [Call("toolu_01eps", "Bash", {"command": "pwd"}, "/tmp")], after="While that runs, a word."),
    Answer("  It begins with blanks, and ends with them. \n"),
    User("<note>It may be a tag.</note>"),
    Answer("It may."),
]
# Histories that end, or repeat themselves, in the ways in which they break.
ODD = {
    "it ends with results": STORY[:2],
    "it ends with words of the user": [User("Hello?"), Answer("Hello."), User("Are you there?")],
    "it ends with a call": [User("Look."), Answer("I look.", [Call("toolu_01zeta", "Bash", {"command": "sleep 9"}, None)])],
    "a call had no result": [User("Look."), Answer("I look.", [Call("toolu_01eta", "Bash", {"command": "sleep 9"}, None)]), User("Stop."), Answer("I stopped.")],
    "IDs come again": [
        *[User("First."), Answer("", [Call("call_0", "Bash", {"command": "one"}, "1")]), Answer("It is 1.")],
        *[User("Second."), Answer("", [Call("call_0", "Bash", {"command": "two"}, "2")]), Answer("It is 2.")],
    ],
}
PROMPT = "Go on with the rest, please."


def told(story, errors=True, media_of_errors=True, commands=True):
    """The events of the story, as far as a source says it and a target can be told it.

    `errors`: which results are errors. `media_of_errors`: pictures in failed results.
    `commands`: what a user says that begins like a command.
    """
    events = []
    for turn in story:
        if isinstance(turn, User):
            if not commands and turn.text.startswith(("/", "?")):
                continue
            events.append(("user", turn.text))
            if turn.image:
                events.append(("image", image_name(turn.image)))
            continue
        if turn.text:
            events.append(("assistant", turn.text))
        events += [("call", call.name, canonical(call.input)) for call in turn.calls]
        if turn.after:
            events.append(("assistant", turn.after))
        for call in [call for call in turn.calls if call.result is not None]:
            events.append(("result", call.result, errors and call.is_error))
            if call.image and (media_of_errors or not call.is_error):
                events.append(("image", image_name(call.image)))
    return events
