"""The upstream fails in the middle of an answer: the client hears of it in its own protocol, and the journal goes on."""

import unittest

import anthropic
import openai
from clients import HOLDERS
from harness import GatewayTest, text_of, texts_in
from journal import kinds
from test_resume import shown_text
from transcript import facts, of_texts

ROUTES = ("gpt-", "claude-")
# an error frame of the provider after some text, a connection that breaks after some text, and one in the middle of a call
BREAKS = ("long:30+error-mid:12", "long:30+cut:12")


def user(text):
    return {"role": "user", "content": text}


class BrokenStream(GatewayTest):
    def check(self, protocol, route, how):
        first = self.gateway.chat("gpt-sim-text", [user(f"{protocol} {route}")])
        said = first.json()["choices"][0]["message"]["content"]
        history = [user(f"{protocol} {route}"), {"role": "assistant", "content": said}, user("and?")]
        conversation = first.headers["throughline-conversation"]
        mark = len(self.upstream_log())
        with self.gateway.ask(protocol, f"{route}sim-{how}", history, stream=True) as stream:
            self.assertEqual(200, stream.status)
            operation = stream.headers["throughline-operation"]
            frames = stream.rest()
            self.assertFalse(stream.is_broken, "the client's stream ends in order, after the error")
        self.assert_error_frame(protocol, frames)
        with self.gateway.events(operation) as events_stream:
            events = self.assert_events_whole(events_stream.rest())
        self.assertEqual("operation.failed", events[-2]["kind"])
        category = events[-2]["error"]["category"]
        self.assertIn(category, ("interrupted", "network") if "cut" in how else ("server", "overloaded"))
        self.assertTrue(text_of(events))
        self.assertEqual(shown_text(protocol, [f for f in frames if f.event != "error" and '"error"' not in f.data]), text_of(events))

        # what came is kept, marked as incomplete, and the question can be asked again
        record = self.gateway.get(f"/unified/v2/operations/{operation}").json()
        self.assertEqual("failed", record["state"])
        self.assertEqual(text_of(events), texts_in(record["result"]["output"]))
        again = self.gateway.ask(protocol, f"{route}sim-text", history)
        self.assertEqual((200, conversation), (again.status, again.headers["throughline-conversation"]))
        entry = self.upstream_log(mark + 2)[-1]
        self.assert_accepted([entry])
        self.assertEqual(of_texts(*((m["role"], m["content"]) for m in history)), facts(entry["digest"]))

    def assert_error_frame(self, protocol, frames):
        if protocol == "anthropic-messages":
            last = frames[-1]
            self.assertEqual(("error", "error"), (last.event, last.json()["type"]))
            self.assertTrue(last.json()["error"]["type"] and last.json()["error"]["message"])
            self.assertNotIn("message_stop", [f.event for f in frames])
        else:
            errors = [f.json()["error"] for f in frames if f.data != "[DONE]" and "error" in f.json()]
            self.assertEqual(1, len(errors), frames[-2:])
            self.assertTrue(errors[0]["message"])
            finished = [c["finish_reason"] for f in frames if f.data != "[DONE]" for c in f.json().get("choices") or [] if c.get("finish_reason")]
            self.assertEqual([], finished, "an answer that broke off does not claim to be finished")

    def test_openai_client(self):
        for route in ROUTES:
            for how in BREAKS:
                with self.subTest(route + how):
                    self.check("openai-chat", route, how)

    def test_anthropic_client(self):
        for route in ROUTES:
            for how in BREAKS:
                with self.subTest(route + how):
                    self.check("anthropic-messages", route, how)

    def test_sdks_raise(self):
        for route in ROUTES:
            for how in BREAKS:
                with self.subTest(route + how):
                    with self.assertRaises(openai.APIError):
                        HOLDERS["openai"](self.gateway.url, stream=True).turn(f"{route}sim-{how}", "x")
                    with self.assertRaises(anthropic.APIError):
                        HOLDERS["anthropic"](self.gateway.url, stream=True).turn(f"{route}sim-{how}", "x")


class BrokenInsideACall(GatewayTest):
    def test_half_a_call_does_not_block_the_conversation(self):
        """The connection breaks inside the arguments of a call. The conversation goes on, and no provider sees half a call."""
        tools = HOLDERS["openai"](self.gateway.url, stream=True).tools
        for route, frames, other in (("gpt-", 9, "claude-"), ("claude-", 13, "gpt-")):
            for target in (route, other):
                with self.subTest(route + target):
                    first = f"{route} {target} weather?"
                    with self.gateway.chat(f"{route}sim-tools+cut:{frames}", [user(first)], stream=True, tools=tools) as stream:
                        heard = stream.rest()
                    self.assertIn("get_weather", str(heard), "the call had begun")
                    named = {"throughline-conversation": stream.headers["throughline-conversation"]}
                    answer = self.gateway.chat(f"{target}sim-text", [user("never mind")], headers=named, tools=tools)
                    self.assertEqual(200, answer.status, answer)
                    entry = self.upstream_log()[-1]
                    self.assert_accepted([entry])
                    expected = of_texts(("user", first), ("assistant", "Let me use a tool."), ("user", "never mind"))
                    self.assertEqual(expected["sha"], entry["digest"]["sha"])
                    self.assertEqual(entry["digest"]["calls"], entry["digest"]["results"])


class BrokenAnswer(GatewayTest):
    def test_unstreamed(self):
        for route in ROUTES:
            for how in ("cut:1", "error-mid:3"):
                with self.subTest(route + how):
                    answer = self.gateway.messages(f"{route}sim-{how}", [user("x")])
                    self.assertGreaterEqual(answer.status, 500, answer)
                    self.assertEqual("error", answer.json()["type"])
                    answer = self.gateway.chat(f"{route}sim-{how}", [user("x")])
                    self.assertGreaterEqual(answer.status, 500, answer)
                    self.assertTrue(answer.json()["error"]["message"])
        self.assertEqual({"failed"}, set(self.gateway.journal().operation_states()))

    def test_odd_but_legal_streams(self):
        """CRLF, comments, no end mark, text of all kinds, no content at all: none of it is an error."""
        for route in ROUTES:
            for words in ("crlf", "comments", "nodone", "unicode", "crlf+comments+unicode+long:30", "empty", "refusal", "length", "filter", "citations"):
                for protocol in ("openai-chat", "anthropic-messages"):
                    with self.subTest(f"{protocol} {route}{words}"):
                        ask = [user(f"{protocol} {route} {words}")]
                        with self.gateway.ask(protocol, f"{route}sim-{words}", ask, stream=True) as stream:
                            frames = stream.rest()
                            self.assertFalse(stream.is_broken)
                        whole = self.gateway.ask(protocol, f"{route}sim-{words}", ask).json()
                        if words == "refusal":
                            continue
                        if protocol == "openai-chat":
                            text = whole["choices"][0]["message"]["content"] or ""
                            self.assertEqual("[DONE]", frames[-1].data)
                        else:
                            text = "".join(block.get("text", "") for block in whole["content"])
                            self.assertEqual("message_stop", frames[-1].event)
                        self.assertEqual(text, shown_text(protocol, frames))
                        self.assertEqual(words == "empty", text == "")
        self.assertEqual({"completed"}, set(self.gateway.journal().operation_states()))
        items = [i for c in self.gateway.journal().conversations() for i in self.gateway.journal().items(c)]
        self.assertEqual(0, kinds(items).get("error", 0))


if __name__ == "__main__":
    unittest.main()
