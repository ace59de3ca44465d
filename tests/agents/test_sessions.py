"""Real clients go on with sessions that Throughline wrote from another runtime's file.

A client that cannot read a part of a session mostly leaves it out in silence and exits with 0. So what counts is what the
upstream hears: the whole history, texts, calls, results and pictures in their order, and then the new words.
"""

import json
import unittest

import received
from sources import COMPACTED, SUMMARY, WRITERS
from story import ODD, PROMPT, STORY, told
from suite import ALL, AgentTest, quoted

# Target and source. The first ones are the short selection: each target once, each source once.
SHORT = [("claude-code", "codex"), ("codex", "opencode"), ("opencode", "gemini-cli"), ("gemini-cli", "claude-code")]
PAIRS = [(target, source) for target in WRITERS for source in WRITERS if target != source]
NEXT, LAST = "And one more thing.", "And the last one."


def expected(target, source):
    """What the upstream of a target must hear of the story in a source."""
    events = told(
        STORY,
        errors="codex" not in (source, target),  # Codex has no word for failed results
        media_of_errors=source != "opencode",  # nor OpenCode for pictures in them
        commands=source != "gemini-cli",  # Gemini CLI itself sends no model what begins like a command
    )
    return in_order(target, received.joined(events))


def once(target, events):
    """What a client says again when it goes on once more: Gemini CLI repeats results then, of whatever session."""
    if target != "gemini-cli":
        return events
    out, seen = [], set()
    for event in events:
        if event[0] not in ("result", "image"):
            seen.clear()
        if event not in seen:
            out.append(event)
        seen.add(event)
    return out


def in_order(target, events):
    return received.texts_first(events) if target in ("claude-code", "opencode") else events


class Sessions(AgentTest):
    def check(self, target, source):
        """The whole story, then the prompt; and on the next turn, to which the client gets the next words alone, all of that again."""
        program = self.program(target)
        file = self.source(source, WRITERS[source])
        plan = self.resume(program, str(file), "--from", source)
        first = self.imports(program, plan)
        whole = expected(target, source)
        heard = in_order(target, self.go_on(program, plan, PROMPT))
        self.assertEqual([*whole, ("user", quoted(program, PROMPT))], heard)
        again = once(target, in_order(target, self.go_on(program, plan, NEXT)))
        self.assertEqual(heard, again[: len(heard)])
        self.assertEqual(["assistant", "user"], [event[0] for event in again[len(heard) :]])
        self.assertEqual(quoted(program, NEXT), again[-1][1])
        # Asked once more, Throughline leaves the conversation that the client has going alone.
        live = self.resume(program, str(file), "--from", source)
        self.assertEqual(plan["command"], live["command"])
        third = once(target, in_order(target, self.go_on(program, live, LAST)))
        self.assertEqual(again, third[: len(again)])
        self.assertEqual(["assistant", "user"], [event[0] for event in third[len(again) :]])
        # What the client wrote since is all that an import adds.
        last = self.imports(program, plan)
        if first:
            self.assertEqual(first["added"], last["skipped"])
            self.assertGreaterEqual(last["added"], 6)

    def imports(self, program, plan):
        """Takes the session into a store, where it is a file that the client appends to."""
        if program.name not in ("claude-code", "codex"):
            return None
        sessions = self.throughline(program, "session", "import", "--from", program.name, plan["file"])["sessions"]
        self.assertEqual([None], [session.get("error") for session in sessions])
        return sessions[0]


def add(target, source):
    name = f"test_{target}_from_{source}".replace("-", "_")
    setattr(Sessions, name, lambda self: self.check(target, source))


for pair in PAIRS if ALL else SHORT:
    add(*pair)


@unittest.skipUnless(ALL, "with --all only")
class OddHistories(AgentTest):
    """What a client does with them is its own; but nothing that was said may be missing, and its provider takes what it sends."""

    def check(self, target):
        for source in [source for source in WRITERS if source != target]:
            for name, story in ODD.items():
                with self.subTest(source=source, story=name):
                    program = self.program(target, place=f"{target}-{source}-{name}".replace(" ", "-"))
                    file = self.source(program.home.parent.name, lambda: WRITERS[source](story))  # noqa: B023
                    plan = self.resume(program, str(file), "--from", source)
                    heard = once(target, self.go_on(program, plan, PROMPT))
                    words = "\n".join(event[1] for event in heard if event[0] in ("user", "assistant"))
                    at = 0
                    for event in told(story):
                        if event[0] in ("user", "assistant"):
                            at = words.find(event[1], at)
                            self.assertGreaterEqual(at, 0, f"{event} is missing in {heard}")
                    done = lambda events, kind: [event[:2] for event in events if event[0] == kind]  # noqa: E731
                    self.assertEqual(done(told(story), "call"), done(heard, "call"))
                    self.assertEqual(len(done(heard, "call")), len(done(heard, "result")), "each call has one result, if only a stand-in")
                    real = [result for result in done(heard, "result") if result in done(told(story), "result")]
                    self.assertEqual(done(told(story), "result"), real)

    def test_claude_code_odd(self):
        self.check("claude-code")

    def test_codex_odd(self):
        self.check("codex")

    def test_gemini_cli_odd(self):
        self.check("gemini-cli")

    def test_opencode_odd(self):
        self.check("opencode")


class Compacted(AgentTest):
    """What was summed up is told as its summary, whatever form the client has for one."""

    def check(self, target, source):
        program = self.program(target)
        file = self.source(source, COMPACTED[source])
        plan = self.resume(program, str(file), "--from", source)
        heard = self.go_on(program, plan, PROMPT)
        whole = "\n".join(str(event[1]) for event in heard)
        places = [whole.find(words) for words in (SUMMARY, "After it.", "Yes, after it.", PROMPT)]
        self.assertNotIn(-1, places, heard)
        self.assertEqual(sorted(places), places, heard)
        self.assertNotIn("Long ago.", whole)


class OtherForms(AgentTest):
    def convert(self, program, form):
        file = self.source("claude-code", WRITERS["claude-code"])
        report = self.throughline(program, "session", "convert", "--from", "claude-code", "--to", program.name, "--form", form, str(file))
        return report["files"][0]["content"]

    def test_codex_app_server_resumes_from_a_list_of_items(self):
        program = self.program("codex")
        items = json.loads(self.convert(program, "response-items"))
        for method in ("thread/resume", "thread/inject_items"):
            with self.subTest(method):
                heard = self.heard(program, lambda: program.app_server(method, items, PROMPT), PROMPT)  # noqa: B023
                self.assertEqual([*expected("codex", "claude-code"), ("user", PROMPT)], heard)

    def test_a_running_session_gets_the_next_message_alone(self):
        program = self.program("codex")
        items = json.loads(self.convert(program, "response-items"))
        after = self.sim.mark()
        done = program.app_server("thread/resume", items, PROMPT, NEXT, LAST)
        bodies = [entry["body"] for entry in self.requests(program, after, PROMPT)]
        self.assertEqual(3, len(bodies))
        # All that was told before is told again byte for byte, under the key that the runtime chose: its provider has it cached.
        for earlier, later in zip(bodies, bodies[1:]):
            self.assertEqual(earlier["input"], later["input"][: len(earlier["input"])])
            self.assertEqual(["assistant", "user"], [item["role"] for item in later["input"][len(earlier["input"]) :]])
            self.assertEqual(earlier["prompt_cache_key"], later["prompt_cache_key"])
        usage = [json.loads(line)["params"]["tokenUsage"]["last"] for line in done.out.splitlines() if '"thread/tokenUsage/updated"' in line]
        self.assertEqual([0, usage[0]["inputTokens"]], [told["cachedInputTokens"] for told in usage[:2]])

    def test_opencode_takes_the_prelude_as_a_prompt(self):
        program = self.program("opencode")
        prelude = json.loads(self.convert(program, "prelude"))["prelude"]
        heard = self.heard(program, lambda: program.ask_in_writing(prelude + PROMPT), PROMPT)
        self.assertEqual(["user"], [event[0] for event in heard])
        at = 0
        for event in told(STORY):
            if event[0] != "image":
                at = heard[0][1].find(event[1], at)
                self.assertGreaterEqual(at, 0, f"{event} is not told, or not in its place")


for target, source in [(t, s) for t in WRITERS for s in COMPACTED if t != s]:
    if ALL or (target, source) == ("claude-code", "codex"):
        name = f"test_{target}_from_compacted_{source}".replace("-", "_")
        setattr(Compacted, name, lambda self, target=target, source=source: self.check(target, source))


if __name__ == "__main__":
    unittest.main()
