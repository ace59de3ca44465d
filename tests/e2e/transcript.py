"""What an upstream must see: the simulator's digest, computed from what the client holds."""

import hashlib
import json

FACTS = ("runs", "sha", "calls", "results", "tools_sha", "system_sha")


def short_hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Transcript:
    """A history in neutral words: texts by role, calls and results in order."""

    def __init__(self, system=""):
        self.system = system
        self._runs, self._calls, self._results, self._tool_texts = [], 0, 0, []

    def say(self, role, text):
        if not text:
            return
        if self._runs and self._runs[-1][0] == role:
            self._runs[-1][1] += text
        else:
            self._runs.append([role, text])

    def call(self, name, arguments):
        self._calls += 1
        self._tool_texts.append(f"{name} {canonical(arguments)}")

    def result(self, text):
        self._results += 1
        self._tool_texts.append(text)

    def digest(self):
        return {
            "runs": len(self._runs),
            "sha": short_hash("\n".join(f"{role}:{text}" for role, text in self._runs)),
            "calls": self._calls,
            "results": self._results,
            "tools_sha": short_hash("\n".join(self._tool_texts)),
            "system_sha": short_hash(self.system) if self.system else None,
        }


def of_texts(*runs, system=""):
    """The digest of a history of texts alone: (role, text) pairs."""
    transcript = Transcript(system)
    for role, text in runs:
        transcript.say(role, text)
    return transcript.digest()


def facts(digest):
    """The part of a simulator's digest that does not depend on the protocol."""
    return {key: digest[key] for key in FACTS}
