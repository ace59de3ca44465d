"""Nothing private in clear: not in the database, its log files and artifacts, not in the key files, not in the gateway's log."""

import base64
import binascii
import secrets
import unittest

from clients import HOLDERS
from harness import CLIENT_KEY, KEYS, GatewayTest
from tap import places_of, unchunked

ENCRYPTED = "ENC" + base64.b64encode(secrets.token_bytes(90)).decode()
SIGNATURE = "SIG" + base64.b64encode(secrets.token_bytes(90)).decode()
# An answer of a compatible server whose dialect hands out encrypted reasoning.
DIALECT_ANSWER = {
    "id": "gen-1",
    "object": "chat.completion",
    "created": 1767225600,
    "model": "dialect-sim-reasoning-content",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "A plain answer.",
                "reasoning": "thinking aloud",
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "thinking aloud", "signature": SIGNATURE, "format": "anthropic-claude-v1", "index": 0},
                    {"type": "reasoning.encrypted", "data": ENCRYPTED, "format": "openai-responses-v1", "id": "rs_1", "index": 1},
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
}


def decoded(secret):
    """The bytes behind a base64 text: storing those would be no better."""
    try:
        return base64.b64decode(secret)
    except (binascii.Error, ValueError):
        return secret.encode()


class Canary(GatewayTest):
    with_taps = True
    gateway_env = {"THROUGHLINE_LOG": "trace"}
    config_options = {"dialect": "openrouter"}

    def converse(self):
        """Every kind of private state that the two protocols know, in both clients, streamed and not."""
        self.secrets = [*KEYS.values(), CLIENT_KEY, ENCRYPTED, SIGNATURE]
        for sdk in HOLDERS:
            for stream in (False, True):
                holder = HOLDERS[sdk](self.client_tap.url, stream)
                holder.turn("claude-sim-think-tools", f"{sdk} {stream} one")
                holder.turn("claude-sim-think+redacted", "two")
                holder.turn("gpt-sim-tools", "three")
                holder.turn("claude-sim-think+citations", "four")
        self.dialect_answer(HOLDERS["openai"](self.client_tap.url, stream=False))
        issued = self.anthropic_tap.private_values()
        self.assertGreater(len(issued), 15)
        self.secrets += issued

    def assert_nothing_in_clear(self, when):
        raw = [s.encode() for s in self.secrets] + [decoded(s) for s in self.secrets]
        scanned = 0
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name != "throughline.toml"):
            data = path.read_bytes()
            scanned += 1
            self.assertEqual([], places_of(raw, data), f"{when}: in clear in {path.relative_to(self.folder)}")
        names = {p.name for p in self.gateway.data_dir.iterdir()}
        self.assertIn("throughline.db", names)
        self.assertGreaterEqual(scanned, 4)
        return names

    def test_nothing_in_clear(self):
        self.converse()
        self.upstream_log()
        names = self.assert_nothing_in_clear("while it runs")
        self.assertIn("throughline.db-wal", names)
        self.gateway.kill()
        self.assert_nothing_in_clear("after kill -9")
        self.gateway.start()
        self.assert_nothing_in_clear("after recovery")
        self.assertGreater(self.gateway.journal().count("provider_resources"), 15, "it was not thrown away either")
        self.assertEqual(0, self.gateway.stop())
        self.assert_nothing_in_clear("after a clean stop")
        # and the clients of another protocol did not get it
        self.assertEqual([], places_of(list(KEYS.values()), unchunked(self.client_tap.answers())))

    def dialect_answer(self, holder):
        """A turn whose answer carries the two secrets of the dialect."""
        self.sim.answer_next("openai-chat", DIALECT_ANSWER)
        self.assertEqual("A plain answer.", holder.turn("dialect-sim-reasoning-content", "think").text)

    def test_encrypted_reasoning_returns_to_its_owner_only(self):
        """After a switch the client's body is not what the journal knows, so the upstream gets what the journal has."""
        holder = HOLDERS["openai"](self.client_tap.url, stream=False)
        holder.turn("claude-sim-think", "one")
        self.dialect_answer(holder)
        holder.turn("dialect-sim-reasoning-content", "three")
        entry = self.upstream_log(3)[-1]
        self.assert_accepted([entry])
        self.assertIn(ENCRYPTED, str(entry["body"]), "the dialect wants its details back unchanged")
        self.assertIn(SIGNATURE, str(entry["body"]))
        holder.turn("gpt-sim-text", "four")
        holder.turn("claude-sim-text", "five")
        for entry in self.upstream_log(5)[-2:]:
            self.assert_accepted([entry])
            self.assertEqual([], places_of([ENCRYPTED, SIGNATURE], str(entry["body"]).encode()), entry["protocol"])

    def test_encrypted_reasoning_that_the_client_sends_back(self):
        """The client echoes the details as the dialect's documentation says: they reach their owner as they are, and nobody else."""
        holder = HOLDERS["openai"](self.client_tap.url, stream=False)
        self.dialect_answer(holder)
        details = holder.replies[-1].record.choices[0].message.model_dump()["reasoning_details"]
        self.assertEqual(DIALECT_ANSWER["choices"][0]["message"]["reasoning_details"], details)
        holder.history[-1]["reasoning_details"] = details
        holder.turn("dialect-sim-reasoning-content", "two")
        entry = self.upstream_log(2)[-1]
        echoed = [m for m in entry["body"]["messages"] if m["role"] == "assistant"][0]
        self.assertEqual(details, echoed["reasoning_details"])
        holder.turn("claude-sim-text", "three")
        entry = self.upstream_log(3)[-1]
        self.assert_accepted([entry])
        self.assertEqual([], places_of([ENCRYPTED, SIGNATURE], str(entry["body"]).encode()))

    def test_refusals_tell_no_secret(self):
        """Errors of the upstream, failed keys and broken bodies leave no credential in answers or logs."""
        self.secrets = [*KEYS.values(), CLIENT_KEY]
        headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        for protocol in ("openai-chat", "anthropic-messages"):
            for model in ("gpt-sim-401", "claude-sim-401", "gpt-sim-500", "claude-sim-cut:3", "nobody"):
                answer = self.gateway.ask(protocol, model, [{"role": "user", "content": "x"}], headers=headers)
                self.assertGreaterEqual(answer.status, 400)
                self.assertEqual([], places_of(self.secrets, answer.body))
        self.assert_nothing_in_clear("after errors")


if __name__ == "__main__":
    unittest.main()
