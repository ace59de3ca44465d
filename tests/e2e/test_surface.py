"""What else is there to see from outside: health, model lists, demo mode, and two principals that must not meet."""

import json
import re
import subprocess
import unittest

import anthropic
import harness
import keys
import openai
from clients import HOLDERS
from harness import Gateway, GatewayTest

ASK = [{"role": "user", "content": "mine"}]


class Surface(GatewayTest):
    def test_health(self):
        answer = self.gateway.get("/healthz")
        self.assertEqual((200, "ok"), (answer.status, answer.json()["status"]))
        self.assertEqual(self.gateway.ready["version"], answer.json()["version"])
        self.assertEqual(200, self.gateway.get("/readyz").status)

    def test_models_in_both_shapes(self):
        listed = self.gateway.get("/v1/models").json()
        self.assertEqual("list", listed["object"])
        self.assertIn(("house-model", "model"), {(m["id"], m["object"]) for m in listed["data"]})
        listed = self.gateway.get("/v1/models", anthropic_version="2023-06-01").json()
        self.assertIn(("house-model", "model"), {(m["id"], m["type"]) for m in listed["data"]})
        self.assertIs(False, listed["has_more"])
        self.assertEqual((listed["data"][0]["id"], listed["data"][-1]["id"]), (listed["first_id"], listed["last_id"]))
        for client in (HOLDERS[sdk](self.gateway.url, stream=False).sdk for sdk in HOLDERS):
            self.assertIn("house-model", [m.id for m in client.models.list()])

    def test_route_renames_the_model(self):
        for protocol in ("openai-chat", "anthropic-messages"):
            answer = self.gateway.ask(protocol, "house-model", ASK)
            self.assertEqual(200, answer.status, answer)
            self.assertEqual("claude-sim-text", self.upstream_log()[-1]["body"]["model"])

    def test_headers_on_every_answer(self):
        for protocol in ("openai-chat", "anthropic-messages"):
            for stream in (False, True):
                answer = self.gateway.ask(protocol, "gpt-sim-text", ASK, stream=stream)
                named = {name: answer.headers.get(f"throughline-{name}", "") for name in ("conversation", "operation", "cursor", "loss", "request")}
                for name, prefix in (("conversation", "conv_"), ("operation", "op_"), ("request", "req_")):
                    self.assertRegex(named[name], rf"^{prefix}[0-9a-hjkmnp-tv-z]{{26}}$")
                self.assertIn(named["loss"], ("lossless", "degraded"))
                self.assertTrue(named["cursor"])


class TwoPrincipals(GatewayTest):
    config_options = {"auth": True}

    def prepare(self):
        self.ann, self.bob = ({"authorization": f"Bearer {keys.new_client_key(self.gateway, name)}"} for name in ("ann", "bob"))

    def test_they_never_meet(self):
        with self.gateway.chat("gpt-sim-long:30+slow:20", ASK, stream=True, headers=self.ann) as stream:
            operation, conversation = stream.headers["throughline-operation"], stream.headers["throughline-conversation"]
            cursor = stream.headers["throughline-cursor"]
            unknown = self.gateway.get("/unified/v2/operations/op_0123456789abcdefghjkmnpqrs/events", **self.bob)
            for path, headers in (("", {}), ("/events", {}), ("/events", {"Last-Event-ID": cursor}), ("/events?after=1", {})):
                answer = self.gateway.get(f"/unified/v2/operations/{operation}{path}", **self.bob, **headers)
                self.assertEqual((404, "not-found.resource"), (answer.status, answer.json()["error"]["code"]))
                self.assertEqual(unknown.json()["error"]["message"], answer.json()["error"]["message"], "as if it were absent")
            self.assertEqual(404, self.gateway.cancel(operation, headers=self.bob).status)
            frames = stream.rest()
            self.assertEqual("[DONE]", frames[-1].data, "Bob could not stop it")
        answer = self.gateway.chat("gpt-sim-text", ASK, headers={**self.bob, "throughline-conversation": conversation})
        self.assertEqual(404, answer.status, answer)
        answer = self.gateway.messages("gpt-sim-text", ASK, headers={**self.bob, "throughline-conversation": conversation})
        self.assertEqual((404, "not_found_error"), (answer.status, answer.json()["error"]["type"]))
        with self.gateway.events(operation, headers=self.ann) as events:
            self.assert_events_whole(events.rest())

    def test_equal_histories_of_two_principals_are_two_conversations(self):
        first = self.gateway.chat("claude-sim-text", ASK, headers=self.ann)
        history = [*ASK, {"role": "assistant", "content": first.json()["choices"][0]["message"]["content"]}, {"role": "user", "content": "more"}]
        ann, bob = (self.gateway.chat("claude-sim-text", history, headers=who) for who in (self.ann, self.bob))
        self.assertEqual(first.headers["throughline-conversation"], ann.headers["throughline-conversation"])
        self.assertNotEqual(ann.headers["throughline-conversation"], bob.headers["throughline-conversation"])

    def test_signatures_of_one_do_not_work_for_the_other(self):
        """Bob presents a thinking block that was issued to Ann: it is nobody's state, and does not go upstream."""
        ask = {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024}}
        thought = self.gateway.messages("claude-sim-think", ASK, headers=self.ann, **ask).json()["content"]
        self.assertEqual("thinking", thought[0]["type"])
        history = [*ASK, {"role": "assistant", "content": thought}, {"role": "user", "content": "more"}]
        for who, signed in ((self.ann, 1), (self.bob, 0)):
            answer = self.gateway.messages("claude-sim-think", history, headers=who, **ask)
            self.assertEqual(200, answer.status, answer)
            self.assertEqual(signed, self.upstream_log()[-1]["digest"]["signed"])


class Demo(GatewayTest):
    """`serve --demo` needs no key, no network and no file."""

    def setUp(self):
        super().setUp()
        self.gateway.stop()
        folder = self.folder / "demo"
        folder.mkdir()
        self.gateway = Gateway(folder, options=["--demo"])
        self.gateway.env = {k: v for k, v in self.gateway.env.items() if k not in harness.KEYS}
        self.addCleanup(self.gateway.stop)
        self.gateway.start()

    def test_both_models_in_both_clients(self):
        for model in ("demo-openai", "demo-anthropic"):
            for stream in (False, True):
                for sdk in HOLDERS:
                    with self.subTest(f"{sdk} {model} {stream}"):
                        holder = HOLDERS[sdk](self.gateway.url, stream, thinking=False)
                        holder.add_user("Hello!")
                        self.assertTrue(holder.ask(model).text)

    def test_curl_line(self):
        text = self.gateway.stderr_path().read_text()
        command = re.search(r"^\s*(curl (?:.*\\\n)*.*)$", text, re.M)
        self.assertTrue(command, text)
        self.assertIn(self.gateway.url, command[1])
        done = subprocess.run(["bash", "-c", command[1]], capture_output=True, text=True, timeout=30)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("data: [DONE]", done.stdout, "the line streams an answer when it is pasted into a shell")

    def test_lists_its_models(self):
        self.assertLessEqual({"demo-openai", "demo-anthropic"}, {m["id"] for m in self.gateway.get("/v1/models").json()["data"]})

    def test_switch_keeps_the_conversation(self):
        first = self.gateway.chat("demo-openai", ASK)
        said = first.json()["choices"][0]["message"]["content"]
        second = self.gateway.chat("demo-anthropic", [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": "go on"}])
        self.assertEqual(first.headers["throughline-conversation"], second.headers["throughline-conversation"])

    def test_unknown_model_raises(self):
        with self.assertRaises(openai.NotFoundError):
            HOLDERS["openai"](self.gateway.url, stream=False).turn("nobody", "x")
        with self.assertRaises(anthropic.NotFoundError):
            HOLDERS["anthropic"](self.gateway.url, stream=False).turn("nobody", "x")
        self.assertTrue(json.loads(self.gateway.get("/healthz").body))


if __name__ == "__main__":
    unittest.main()
