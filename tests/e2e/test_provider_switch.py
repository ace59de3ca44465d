"""One client holds the history; the model name alternates between two providers; nothing is lost and nothing leaks."""

import json
import unittest

from clients import HOLDERS
from harness import CLIENT_KEY, KEYS, GatewayTest, key_hash
from journal import kinds
from tap import places_of, unchunked
from transcript import facts

# Five turns. The second upstream is OpenAI's protocol twice over: a dialect that demands its reasoning back with every
# call, and OpenAI itself, which refuses such a field.
TURNS = [
    ("claude-sim-think-tools", "What is the weather in Лиссабон?"),
    ("dialect-sim-reasoning-content+tools", "And tomorrow — “please”?"),
    ("claude-sim-think+redacted", "Think it over."),
    ("gpt-sim-parallel-tools:2", "Now both at once 🌍."),
    ("claude-sim-think-tools", "Once more, then we are done."),
]
UPSTREAMS = {
    "claude": ("anthropic-messages", "x-api-key", KEYS["E2E_ANTHROPIC_KEY"]),
    "dialect": ("openai-chat", "bearer", KEYS["E2E_DIALECT_KEY"]),
    "gpt": ("openai-chat", "bearer", KEYS["E2E_CHAT_KEY"]),
}
SYNTHETIC = "tl-synthetic:"


def upstream_of(model):
    return UPSTREAMS[model.split("-")[0]]


class ProviderSwitch(GatewayTest):
    with_taps = True

    def converse(self, sdk, stream):
        holder = HOLDERS[sdk](self.client_tap.url, stream)
        for model, text in TURNS:
            reply = holder.turn(model, text)
            self.assertTrue(reply.text.startswith("SIM{"), f"{model} answered {reply.text[:200]!r}")
        entries = self.upstream_log(len(holder.expected))
        self.assert_history_seen(holder, entries)
        self.assert_private_state_kept(holder, entries)
        self.assert_one_branch(holder)
        return holder, entries

    def assert_history_seen(self, holder, entries):
        """Every upstream request held the whole history of the client, in legal form, with the right key."""
        self.assert_accepted(entries)
        self.assertEqual(len(holder.expected), len(entries), "requests at the upstreams")
        for number, (entry, expected, model) in enumerate(zip(entries, holder.expected, holder.models, strict=True), 1):
            protocol, kind, key = upstream_of(model)
            self.assertEqual(protocol, entry["protocol"], f"request {number}")
            self.assertEqual({kind: key_hash(key)}, entry["auth"], f"request {number} carries the key of its account and no other")
            self.assertEqual(model, entry["body"]["model"])
            self.assertEqual(expected, facts(entry["digest"]), f"what request {number} ({model}) told the upstream")
            self.assertEqual(holder.stream, bool(entry["body"].get("stream")))

    def assert_private_state_kept(self, holder, entries):
        """Anthropic's signatures come back to Anthropic, and stand nowhere else."""
        issued = self.anthropic_tap.private_values()
        self.assertGreaterEqual(len(issued), 6, "the simulator gave out signatures and redacted data")
        anthropic = [e for e in entries if e["protocol"] == "anthropic-messages"]
        self.assertEqual(0, anthropic[0]["digest"]["signed"])
        for entry in anthropic[1:]:
            self.assertGreater(entry["digest"]["signed"], 0, f"no signature came back in request {entry['n']}: {entry['digest']}")
        # the round that answers the first call carries the thinking that led to it, byte for byte
        self.assertIn(issued[0], json.dumps(anthropic[1]["body"]))
        foreign = [v for e in anthropic for v in private_values(e["body"]) if v not in issued]
        self.assertEqual([], foreign, "state that Anthropic never issued")
        sent_to_chat = unchunked(self.chat_tap.requests())
        self.assertEqual([], places_of(issued, sent_to_chat), "Anthropic's state went to the other provider")
        self.assertNotIn(SYNTHETIC.encode(), sent_to_chat + unchunked(self.anthropic_tap.requests()))
        self.assertNotIn(CLIENT_KEY.encode(), self.chat_tap.requests() + self.anthropic_tap.requests())
        if holder.protocol == "openai-chat":
            self.assertEqual([], places_of(issued, unchunked(self.client_tap.answers())), "a client of another protocol got Anthropic's state")

    def assert_one_branch(self, holder):
        """On disk: one conversation, one branch, every item once."""
        named = set(self.client_tap.answer_headers("throughline-conversation"))
        journal = self.gateway.journal()
        conversations = journal.conversations()
        self.assertEqual(1, len(conversations), "conversations in the database")
        self.assertEqual(named, set(conversations), "throughline-conversation of all answers")
        self.assertEqual(1, len(journal.branches(conversations[0])), "branches in the database")
        self.assertEqual(["completed"] * len(holder.expected), journal.operation_states())
        found = kinds(journal.items(conversations[0]))
        texts = sum(bool(reply.text) for reply in holder.replies)
        calls = sum(len(reply.calls) for reply in holder.replies)
        expected = {"message/user": len(TURNS), "message/assistant": texts, "message/system": 1, "tool-call": calls, "tool-result": calls}
        self.assertEqual(expected, {kind: found.get(kind, 0) for kind in expected}, f"items: {found}")
        # thinking of two turns with two rounds, of the third turn (with a redacted block), and of the dialect's two rounds
        self.assertGreaterEqual(found.get("reasoning", 0), 7, f"items: {found}")
        self.assertLess(sum(found.values()), 60, f"items: {found}")

    def test_anthropic_sdk(self):
        holder, _ = self.converse("anthropic", stream=False)
        self.assert_signatures_of_the_right_kind(holder)

    def test_anthropic_sdk_streamed(self):
        holder, _ = self.converse("anthropic", stream=True)
        self.assert_signatures_of_the_right_kind(holder)

    def assert_signatures_of_the_right_kind(self, holder):
        """An Anthropic client gets Anthropic's own signatures for Anthropic's thinking and synthetic ones for other reasoning."""
        issued = self.anthropic_tap.private_values()
        for model, reply in zip(holder.models, holder.replies, strict=True):
            if model.startswith("claude"):
                self.assertTrue(reply.signatures, f"{model} thought, and nothing of it arrived")
                self.assertEqual([], [s for s in reply.signatures if s not in issued], f"signatures of {model}")
            else:
                self.assertEqual([], [s for s in reply.signatures if not s.startswith(SYNTHETIC)], f"signatures of {model}")
        dialect = [r for m, r in zip(holder.models, holder.replies, strict=True) if m.startswith("dialect")]
        self.assertTrue(all(r.reasoning for r in dialect), "the reasoning of the other provider is shown as thinking")

    def test_openai_sdk(self):
        self.converse("openai", stream=False)

    def test_openai_sdk_streamed(self):
        self.converse("openai", stream=True)


class SwitchInsideOneTurn(GatewayTest):
    """The call comes from one provider, its result goes to the other."""

    with_taps = True

    def switch(self, sdk, first, second):
        holder = HOLDERS[sdk](self.client_tap.url, stream=False)
        holder.add_user("weather?")
        holder.transcript.say("user", "weather?")
        reply = holder.ask(first)
        self.assertTrue(reply.calls)
        holder.answer_calls(reply)
        answer = holder.ask(second)
        self.assertIn("The tool said:", answer.text)
        entries = self.upstream_log(2)
        self.assert_accepted(entries)
        self.assertEqual(holder.expected, [facts(e["digest"]) for e in entries])
        self.assertEqual([], places_of(self.anthropic_tap.private_values(), unchunked(self.chat_tap.requests())))
        self.assertEqual(1, len(self.gateway.journal().conversations()))

    def test_anthropic_sdk_from_chat_to_anthropic(self):
        self.switch("anthropic", "gpt-sim-tools", "claude-sim-think")

    def test_anthropic_sdk_from_anthropic_to_chat(self):
        self.switch("anthropic", "claude-sim-think-tools", "gpt-sim-text")

    def test_openai_sdk_from_chat_to_anthropic(self):
        self.switch("openai", "gpt-sim-parallel-tools:2", "claude-sim-think")

    def test_openai_sdk_from_anthropic_to_chat(self):
        self.switch("openai", "claude-sim-think+parallel-tools:2", "gpt-sim-text")


class PrefixStays(GatewayTest):
    """A projection repeats itself from turn to turn, or the provider's prompt cache would miss."""

    def test_chat_upstream_hits_its_cache(self):
        holder = HOLDERS["openai"](self.gateway.url, stream=False)
        holder.turn("gpt-sim-text", "one " * 60)
        holder.turn("gpt-sim-text", "two " * 60)
        reply = holder.turn("gpt-sim-text", "three")
        self.assertGreater(reply.cached, 100, reply.record.usage)

    def test_chat_upstream_hits_its_cache_for_an_anthropic_client(self):
        holder = HOLDERS["anthropic"](self.gateway.url, stream=False)
        holder.turn("gpt-sim-tools", "one " * 60)
        reply = holder.turn("gpt-sim-text", "two")
        holder.turn("gpt-sim-text", "three")
        reply = holder.turn("gpt-sim-text", "four")
        self.assertGreater(reply.cached or 0, 100, reply.record.usage)


def private_values(value):
    """Signatures and redacted data anywhere in a request body."""
    if isinstance(value, dict):
        if value.get("type") == "redacted_thinking":
            yield value.get("data")
        for key, inner in value.items():
            if key == "signature":
                yield inner
            else:
                yield from private_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from private_values(inner)


if __name__ == "__main__":
    unittest.main()
