"""Sessions that the clients wrote themselves: tools that really ran, thinking with the signatures of a provider.

Each goes on elsewhere with all that its own client told its provider, and as a copy at its own client with its private state too.
"""

import json
import unittest

import received
from story import PROMPT
from suite import ALL, AgentTest, quoted
from test_sessions import in_order, once

RUNTIMES = ["claude-code", "codex", "opencode", "gemini-cli"]
LOOK, THEN = "[[sim-think+tools]] Look around here.", "And then?"


class Recorded(AgentTest):
    def record(self, name):
        """A client with a session of two turns, the first of them with a tool: (client, ID, what its provider heard last)."""
        program = self.program(name)
        session = program.session_of(program.ask(LOOK))
        heard = self.heard(program, lambda: program.go_on(program.plan(session), THEN), THEN)
        self.assertIn("call", [event[0] for event in heard], "no tool was called")
        return program, session, once(name, heard)

    def goes_on(self, program, plan, heard):
        """The client goes on, and its provider hears the same, the answer, and the prompt."""
        again = self.go_on(program, plan, PROMPT)
        before, after = (comparable(program.name, events) for events in (heard, again))
        self.assertEqual(before, after[: len(before)])
        self.assertEqual(["assistant", "user"], [event[0] for event in after[len(before) :]])
        self.assertEqual(("user", quoted(program, PROMPT)), again[-1])
        return again

    def copies(self, name):
        """A copy for the same client, with its thinking: the provider refuses a signature that is not its own, or altered."""
        program, session, heard = self.record(name)
        plan = self.throughline(program, "session", "resume", session, "--from", name, "--to", name)
        self.assertNotEqual(session, plan["id"], "the original is left alone")
        done = program.take(plan)
        self.assertTrue(done is None or done.code == 0, f"the client refuses the copy: {done}")
        again = self.goes_on(program, plan, heard)
        thoughts = [event for event in heard if event[0] == "thinking"]
        self.assertEqual(thoughts, [event for event in again if event[0] == "thinking"][: len(thoughts)])
        return thoughts

    def crosses(self, source, target):
        program, session, heard = self.record(source)
        other = self.program(target)
        file = self.throughline(program, "session", "list", "--from", source)["sessions"][0]["path"]
        self.goes_on(other, self.resume(other, file, "--from", source), heard)


def comparable(target, events):
    """Without thinking, which stays with its owner, and for Codex without what it has no word for: that a result is an error."""
    events = received.joined([event for event in events if event[0] != "thinking"])
    if target == "codex":
        events = [(*event[:2], False) if event[0] == "result" else event for event in events]
    return once(target, in_order(target, events))


def add(name, check, *words):
    setattr(Recorded, f"test_{name}".replace("-", "_"), lambda self: getattr(self, check)(*words))


for runtime in RUNTIMES if ALL else ["claude-code"]:
    add(f"{runtime}_as_a_copy", "copies", runtime)
for source, target in [(s, t) for s in RUNTIMES for t in RUNTIMES if s != t and ALL]:
    add(f"recorded_{target}_from_{source}", "crosses", source, target)


if __name__ == "__main__":
    unittest.main()
