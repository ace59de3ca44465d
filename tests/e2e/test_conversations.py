"""Which conversation a request belongs to: strangers with equal beginnings, edited histories, and twins in parallel."""

import json
import re
import threading
import unittest

from clients import HOLDERS
from harness import GatewayTest
from transcript import facts, of_texts

ASK = [{"role": "user", "content": "mine"}]


class Places(GatewayTest):
    def test_strangers_with_equal_beginnings_stay_apart(self):
        """Two histories that begin alike are two conversations; the answer decides who goes on where."""
        first, second = (self.gateway.chat("gpt-sim-text", ASK) for _ in range(2))
        self.assertNotEqual(first.headers["throughline-conversation"], second.headers["throughline-conversation"])

    def test_edited_history_is_a_branch_of_the_same_conversation(self):
        holder = HOLDERS["openai"](self.gateway.url, stream=False)
        for text in ("one", "two", "three"):
            holder.turn("gpt-sim-text", text)
        # system, first question, first answer, and another second question
        answer = self.gateway.chat("claude-sim-text", [*holder.history[:3], {"role": "user", "content": "two, edited"}])
        self.assertEqual(200, answer.status, answer)
        journal = self.gateway.journal()
        self.assertEqual([answer.headers["throughline-conversation"]], journal.conversations())
        self.assertEqual(2, len(journal.branches(journal.conversations()[0])))
        said = holder.history[2]["content"]
        expected = of_texts(("user", "one"), ("assistant", said), ("user", "two, edited"), system=holder.transcript.system)
        self.assertEqual(expected, facts(self.upstream_log(4)[-1]["digest"]))


class TwinConversations(GatewayTest):
    """The same prompt is asked twice at one time, with the same answers: only the issued call IDs tell the two apart."""

    def step_by_step(self, sdk, model):
        """Two clients in turn, request by request, so that each always finds the other's equal history beside its own."""
        first, second = (HOLDERS[sdk](self.gateway.url, stream=False) for _ in range(2))
        for holder in (first, second):
            holder.add_user("weather?")
            holder.transcript.say("user", "weather?")
        for _ in range(2):
            replies = [(holder, holder.ask(model)) for holder in (first, second)]
            for holder, reply in replies:
                if reply.calls:
                    holder.answer_calls(reply)
        self.assertTrue(all(reply.text.startswith("SIM") for _, reply in replies))
        entries = self.upstream_log(4)
        self.assert_accepted(entries)
        expected = [digest for pair in zip(first.expected, second.expected, strict=True) for digest in pair]
        self.assertEqual(expected, [facts(e["digest"]) for e in entries])
        journal = self.gateway.journal()
        self.assertEqual(2, len(journal.conversations()))
        for conversation in journal.conversations():
            ids = {kind: [i["callId"] for i in journal.items(conversation) if i["kind"] == kind] for kind in ("tool-call", "tool-result")}
            self.assertEqual(1, len(ids["tool-call"]))
            self.assertEqual(ids["tool-call"], ids["tool-result"], "each result is with its own call")

    def test_openai_client(self):
        self.step_by_step("openai", "gpt-sim-tools")

    def test_openai_client_of_anthropic(self):
        self.step_by_step("openai", "claude-sim-think-tools")

    def test_anthropic_client(self):
        self.step_by_step("anthropic", "claude-sim-think-tools")

    def test_anthropic_client_of_openai(self):
        self.step_by_step("anthropic", "gpt-sim-tools")

    def test_many_at_one_time(self):
        """Nobody is refused, and nobody's history is mixed with another's."""
        holders = [HOLDERS[sdk](self.gateway.url, stream) for sdk in HOLDERS for stream in (False, True) for _ in range(4)]
        failures = []

        def play(holder):
            try:
                for model, text in (("claude-sim-think-tools", "one"), ("gpt-sim-text", "two"), ("claude-sim-think", "three")):
                    answer = holder.turn(model, text).text
                    found = json.loads(re.match(r"SIM(\{.*?\})", answer)[1])
                    if facts(found) != holder.expected[-1]:
                        failures.append((model, found, holder.expected[-1]))
            except Exception as error:
                failures.append(repr(error))

        threads = [threading.Thread(target=play, args=(holder,)) for holder in holders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assert_accepted(self.upstream_log(4 * len(holders)))

    def test_parallel_requests_on_one_history(self):
        """Nobody is refused, and every upstream request has exactly the history of its client."""
        said = self.gateway.chat("gpt-sim-text", ASK).json()["choices"][0]["message"]["content"]
        history = [*ASK, {"role": "assistant", "content": said}]
        answers = []

        def ask(question):
            answers.append(self.gateway.chat("gpt-sim-text+slow:30", [*history, {"role": "user", "content": question}]))

        threads = [threading.Thread(target=ask, args=(f"question {number % 4}",)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([200] * 24, [answer.status for answer in answers], {a.body for a in answers if a.status != 200})
        entries = self.upstream_log(25)[1:]
        self.assert_accepted(entries)
        expected = {of_texts(("user", "mine"), ("assistant", said), ("user", f"question {n}"))["sha"] for n in range(4)}
        self.assertEqual(expected, {e["digest"]["sha"] for e in entries})


if __name__ == "__main__":
    unittest.main()
