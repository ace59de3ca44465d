"""The process goes down: kill -9 in the middle of an answer, a clean stop, a second process on the same data."""

import json
import pathlib
import subprocess
import unittest

from harness import BINARY, GatewayTest, text_of, wait_for
from test_resume import shown_text
from transcript import facts, of_texts

SLOW = "sim-long:400+slow:25"


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


class Killed(GatewayTest):
    def kill_in_the_middle(self, protocol, route):
        """A finished turn, then one that the gateway does not survive. Remembers what everybody saw."""
        first = self.gateway.ask(protocol, route + "sim-text", [user("one")])
        self.assertEqual(200, first.status, first)
        body = first.json()
        said = body["choices"][0]["message"]["content"] if protocol == "openai-chat" else body["content"][0]["text"]
        self.conversation = first.headers["throughline-conversation"]
        self.history = [user("one"), assistant(said), user("two")]
        client = self.gateway.ask(protocol, route + SLOW, self.history, stream=True)
        self.operation = client.headers["throughline-operation"]
        self.assertEqual(self.conversation, client.headers["throughline-conversation"])
        watcher = self.gateway.events(self.operation)
        seen = client.take(25)
        self.watched = watcher.take(20)
        self.gateway.kill()
        seen += client.rest()
        self.watched += watcher.rest()
        self.shown = shown_text(protocol, seen)
        self.assertTrue(self.shown)
        wait_for(lambda: self.upstream_log(2)[-1]["ended"] == "client-gone", what="the end at the upstream")
        self.gateway.start()

    def assert_interrupted(self):
        """Everything committed can be read again, and the operation has an end."""
        with self.gateway.events(self.operation) as stream:
            replay = stream.rest()
        events = self.assert_events_whole(replay)
        self.assertGreaterEqual(len(self.watched), 20)
        self.assertEqual([f.data for f in self.watched], [f.data for f in replay][: len(self.watched)], "what was delivered is still there, byte for byte")
        text = text_of(events)
        self.assertTrue(text.startswith(self.shown), f"the client read {self.shown[-80:]!r}, the journal has {text[-80:]!r}")
        self.assertEqual("operation.failed", events[-2]["kind"])
        self.assertEqual("interrupted", events[-2]["error"]["category"])
        self.assertIn("interrupted", json.dumps(events[-1]["status"]))
        record = self.gateway.get(f"/unified/v2/operations/{self.operation}").json()
        self.assertEqual(("failed", "interrupted"), (record["state"], record["error"]["category"]))
        self.assertEqual(["completed", "failed"], self.gateway.journal().operation_states())
        self.assertEqual("ok", self.gateway.journal().check())

    def assert_goes_on(self, protocol, model, headers=None):
        """The next request of the conversation has its full history. The client asks the lost question again."""
        answer = self.gateway.ask(protocol, model, self.history, headers=headers)
        self.assertEqual(200, answer.status, answer)
        self.assertEqual(self.conversation, answer.headers["throughline-conversation"])
        entry = self.upstream_log(3)[-1]
        self.assert_accepted([entry])
        expected = of_texts(*((m["role"], m["content"]) for m in self.history))
        self.assertEqual(expected, facts(entry["digest"]))
        self.assertEqual([self.conversation], self.gateway.journal().conversations())
        self.assertEqual("completed", self.gateway.journal().operation_states()[-1])

    def test_openai_client_goes_on_by_header(self):
        self.kill_in_the_middle("openai-chat", "gpt-")
        self.assert_interrupted()
        self.assert_goes_on("openai-chat", "gpt-sim-text", {"throughline-conversation": self.conversation})

    def test_openai_client_goes_on_by_lineage_elsewhere(self):
        self.kill_in_the_middle("openai-chat", "gpt-")
        self.assert_interrupted()
        self.assert_goes_on("openai-chat", "claude-sim-text")

    def test_anthropic_client_goes_on_by_lineage(self):
        self.kill_in_the_middle("anthropic-messages", "claude-")
        self.assert_interrupted()
        self.assert_goes_on("anthropic-messages", "claude-sim-text")

    def test_anthropic_client_keeps_the_torn_answer(self):
        """An agent that shows the half answer and goes on from it: the upstream sees exactly that."""
        self.kill_in_the_middle("anthropic-messages", "gpt-")
        self.history += [assistant(self.shown), user("go on")]
        self.assert_goes_on("anthropic-messages", "gpt-sim-text")

    def test_killed_twice(self):
        """Recovery itself may be killed; the next start ends what is left, once."""
        self.kill_in_the_middle("openai-chat", "gpt-")
        self.gateway.kill()
        self.gateway.start()
        self.assert_interrupted()
        with self.gateway.events(self.operation) as stream:
            kinds = [f.event for f in stream.rest()]
        self.assertEqual((1, 1), (kinds.count("operation.failed"), kinds.count("stream.completed")))


class Stopped(GatewayTest):
    def test_replay_and_lineage_survive_a_clean_restart(self):
        with self.gateway.chat("gpt-sim-long:20", [user("one")], stream=True) as stream:
            said = shown_text("openai-chat", stream.rest())
            operation, conversation = stream.headers["throughline-operation"], stream.headers["throughline-conversation"]
        with self.gateway.events(operation) as stream:
            before = stream.rest()
        self.assertEqual(0, self.gateway.stop(), "exit after SIGTERM")
        self.assertEqual([f"throughline ready {self.gateway.url}"], self.gateway.stdout_path().read_text().splitlines())
        self.gateway.start()
        with self.gateway.events(operation, headers={"Last-Event-ID": before[3].id}) as stream:
            after = stream.rest()
        self.assertEqual([f.data for f in before[4:]], [f.data for f in after], "a cursor outlives a clean restart")
        answer = self.gateway.chat("claude-sim-text", [user("one"), assistant(said), user("two")])
        self.assertEqual((200, conversation), (answer.status, answer.headers["throughline-conversation"]))
        self.assertEqual(1, len(self.gateway.journal().branches(conversation)))

    def test_stop_waits_for_a_running_answer(self):
        stream = self.gateway.chat("gpt-sim-long:40+slow:20", [user("one")], stream=True)
        stream.take(3)
        self.assertEqual(0, self.gateway.stop())
        self.assertEqual("[DONE]", stream.rest()[-1].data)
        self.assertEqual(["completed"], self.gateway.journal().operation_states())

    def test_second_process_is_refused(self):
        done = subprocess.run(self.gateway.command(), capture_output=True, text=True, timeout=30, env=self.gateway.env, cwd=self.folder)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("storage.locked", done.stderr)
        self.assertEqual("", done.stdout)
        self.assertEqual(200, self.gateway.get("/healthz").status, "the first one goes on")

    def test_files_are_private_and_named_as_documented(self):
        self.gateway.chat("gpt-sim-text", [user("one")])
        root = self.gateway.data_dir
        self.assertEqual(0o700, root.stat().st_mode & 0o777)
        for name in ("throughline.db", "lock", "keys/keyring.json"):
            self.assertEqual(0o600, (root / name).stat().st_mode & 0o777, name)
        self.assertEqual(str(self.gateway.process.pid), (root / "lock").read_text().strip())
        self.assertEqual(root.resolve(), pathlib.Path(self.gateway.ready["dataDir"]).resolve())
        self.assertEqual(self.gateway.process.pid, self.gateway.ready["pid"])

    def test_check_reads_the_configuration_only(self):
        command = [BINARY, "serve", "--config", str(self.folder / "throughline.toml"), "--check"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=self.gateway.env, cwd=self.folder)
        self.assertEqual(0, done.returncode, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((True, 3, 4), (found["ok"], found["providers"], found["routes"]))
        text = (self.folder / "throughline.toml").read_text()
        bad = self.folder / "bad.toml"
        bad.write_text(text.replace('api_key_env = "E2E_CHAT_KEY"', 'api_key = "sk-123"'))
        command[3] = str(bad)
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=self.gateway.env, cwd=self.folder)
        self.assertEqual(2, done.returncode)
        line = 1 + bad.read_text().splitlines().index('api_key = "sk-123"')
        self.assertIn(f"bad.toml:{line}: providers.chat.api_key", done.stdout + done.stderr)
        self.assertNotIn("sk-123", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
