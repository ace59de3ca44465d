"""Live streams: a killed client, cursors, second subscribers, replay, and cancel as a thing of its own."""

import json
import re
import threading
import unittest

import wire
from harness import GatewayTest, text_of, texts_in, wait_for
from transcript import facts, of_texts

LONG = "sim-long:200+slow:5"
ASK = [{"role": "user", "content": "tell me a long story"}]
CLIENTS = [("openai-chat", "gpt-"), ("openai-chat", "claude-"), ("anthropic-messages", "claude-"), ("anthropic-messages", "gpt-")]


def shown_text(protocol, frames):
    """What a client of the protocol has read so far."""
    pieces = []
    for frame in frames:
        if frame.data == "[DONE]":
            continue
        body = frame.json()
        if protocol == "openai-chat":
            pieces += [choice["delta"].get("content") or "" for choice in body.get("choices", [])]
        elif body["type"] == "content_block_delta" and body["delta"]["type"] == "text_delta":
            pieces.append(body["delta"]["text"])
    return "".join(pieces)


class Streams(GatewayTest):
    def assert_long_answer(self, text):
        """The whole text of `sim-long:200`: the digest, then 199 numbered words, each once and in order."""
        head, brace, tail = text.partition("}")
        found = json.loads(head.removeprefix("SIM") + brace)
        self.assertEqual(of_texts(("user", ASK[0]["content"])), facts(found))
        self.assertEqual([str(n) for n in range(199)], re.findall(r" [a-z]+(\d+)", tail))
        self.assertEqual("", re.sub(r" [a-z]+\d+", "", tail), "something stands between the words")


class KilledClient(Streams):
    def check(self, protocol, route):
        stream = self.gateway.ask(protocol, route + LONG, ASK, stream=True)
        self.assertEqual(200, stream.status)
        operation, cursor = stream.headers["throughline-operation"], stream.headers["throughline-cursor"]
        seen = stream.take(30)
        stream.kill()

        # another connection: from the cursor of the answer's head, and killed once more on the way
        first = self.gateway.events(operation, headers={"Last-Event-ID": cursor})
        self.assertEqual(200, first.status)
        self.assertIn("text/event-stream", first.headers["content-type"])
        begun = first.take(12)
        first.kill()
        with self.gateway.events(operation, headers={"Last-Event-ID": begun[-1].id}) as second:
            rest = second.rest()
            self.assertFalse(second.is_broken)
        events = self.assert_events_whole(begun + rest)
        self.assertEqual("operation.created", events[0]["kind"])
        self.assertEqual("operation.completed", events[-2]["kind"])
        text = text_of(events)
        self.assert_long_answer(text)
        self.assertTrue(text.startswith(shown_text(protocol, seen)), "what the killed client read is the beginning of the answer")
        self.assertTrue(shown_text(protocol, seen))

        # nobody told the upstream to stop
        entry = self.upstream_log(1)[-1]
        self.assertEqual(("complete", True), (entry["ended"], entry["stream"]))

    def test_openai_client_of_openai(self):
        self.check(*CLIENTS[0])

    def test_openai_client_of_anthropic(self):
        self.check(*CLIENTS[1])

    def test_anthropic_client_of_anthropic(self):
        self.check(*CLIENTS[2])

    def test_anthropic_client_of_openai(self):
        self.check(*CLIENTS[3])

    def test_unstreamed_client_gone_before_the_answer(self):
        """Without a stream there is no operation ID to resume by, but the answer is in the journal all the same."""
        connection = wire.connect(self.gateway.url, 10)
        wire.send(connection, "POST", "/v1/chat/completions", {"model": "gpt-sim-text+slow:700", "messages": ASK}, {})
        wait_for(lambda: "running" in self.states(), what="the operation")
        connection.close()
        wait_for(lambda: self.states() == ["completed"], what="the end of the operation")

    def states(self):
        return self.gateway.journal().operation_states() if self.gateway.journal().path.exists() else []


class Subscribers(Streams):
    def test_second_subscriber_and_replay_see_the_same_bytes(self):
        with self.gateway.chat("gpt-" + LONG, ASK, stream=True) as client:
            operation = client.headers["throughline-operation"]
            heard = {}

            def listen(name):
                with self.gateway.events(operation) as stream:
                    heard[name] = stream.rest()

            threads = [threading.Thread(target=listen, args=(name,)) for name in ("live one", "live two")]
            threads[0].start()
            shown = client.take(60)
            threads[1].start()
            shown += client.rest()
            for thread in threads:
                thread.join(20)
        with self.gateway.events(operation) as stream:
            heard["replay"] = stream.rest()
        self.assertEqual("[DONE]", shown[-1].data)
        events = self.assert_events_whole(heard["live one"])
        self.assert_long_answer(text_of(events))
        self.assertEqual(shown_text("openai-chat", shown), text_of(events))
        lines = {name: [(f.event, f.data) for f in frames] for name, frames in heard.items()}
        self.assertEqual(lines["live one"], lines["live two"])
        self.assertEqual(lines["live one"], lines["replay"])
        self.assertEqual(1, len(self.upstream_log(1)), "subscribers cause no request upstream")

    def test_client_streams_of_one_operation_end_as_their_protocols_demand(self):
        for protocol, route, last in (("openai-chat", "claude-", "[DONE]"), ("anthropic-messages", "gpt-", '"message_stop"')):
            with self.subTest(protocol), self.gateway.ask(protocol, route + "sim-text", ASK, stream=True) as stream:
                frames = stream.rest()
                self.assertFalse(stream.is_broken)
                self.assertIn(last, frames[-1].data)


class Cursors(Streams):
    def setUp(self):
        super().setUp()
        with self.gateway.chat("gpt-sim-text", ASK, stream=True) as stream:
            stream.rest()
            self.operation, self.start = stream.headers["throughline-operation"], stream.headers["throughline-cursor"]
        with self.gateway.events(self.operation) as stream:
            self.frames = stream.rest()
        self.events = self.assert_events_whole(self.frames)

    def data_after(self, query="", headers=None):
        with self.gateway.events(self.operation, query, headers) as stream:
            self.assertEqual(200, stream.status)
            return [frame.data for frame in stream.rest()]

    def test_every_form_of_start(self):
        every = [frame.data for frame in self.frames]
        third = self.frames[2].id
        for name, data, expected in (
            ("cursor of the answer's head", self.data_after(headers={"Last-Event-ID": self.start}), every),
            ("Last-Event-ID", self.data_after(headers={"Last-Event-ID": third}), every[3:]),
            ("?cursor=", self.data_after(f"?cursor={third}"), every[3:]),
            ("?after=", self.data_after("?after=5"), every[5:]),
            ("the header wins", self.data_after(f"?cursor={third}", {"Last-Event-ID": self.frames[4].id}), every[5:]),
            ("the end", self.data_after(headers={"Last-Event-ID": self.frames[-1].id}), []),
        ):
            self.assertEqual(expected, data, name)

    def test_bad_cursors_are_refused_with_one_text(self):
        with self.gateway.chat("gpt-sim-text", [{"role": "user", "content": "another"}], stream=True) as stream:
            stream.rest()
            foreign = stream.headers["throughline-cursor"]
        good = self.frames[2].id
        middle = len(good) // 2
        altered = good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :]
        answers = []
        for cursor in (altered, foreign, good[:-4], "nonsense", "5"):
            for query, headers in ((f"?cursor={cursor}", {}), ("", {"Last-Event-ID": cursor})):
                answer = self.gateway.get(f"/unified/v2/operations/{self.operation}/events{query}", **headers)
                self.assertEqual(400, answer.status, answer)
                answers.append(answer.json()["error"])
        self.assertEqual({"invalid-request.cursor"}, {error["code"] for error in answers})
        self.assertEqual(1, len({error["message"] for error in answers}))

    def test_ahead_of_the_head(self):
        answer = self.gateway.get(f"/unified/v2/operations/{self.operation}/events?after=100000")
        self.assertEqual((409, "conflict.cursor-ahead"), (answer.status, answer.json()["error"]["code"]))
        head = answer.json()["error"].get("cursor") or answer.json().get("cursor")
        self.assertEqual([], self.data_after(headers={"Last-Event-ID": head}), "the cursor of the head comes with the refusal")

    def test_one_page_as_json(self):
        answer = self.gateway.get(f"/unified/v2/operations/{self.operation}/events?after=1", Accept="application/json")
        self.assertEqual(200, answer.status, answer)
        page = answer.json()
        self.assertEqual(self.events[1:], page["data"])
        self.assertFalse(page["hasMore"])
        self.assertEqual([], self.data_after(f"?cursor={page['cursor']}"))

    def test_unknown_operation(self):
        for name in ("op_0123456789abcdefghjkmnpqrs", "no%20id"):
            answer = self.gateway.get(f"/unified/v2/operations/{name}/events")
            self.assertEqual((404, "not-found.resource"), (answer.status, answer.json()["error"]["code"]))

    def test_operation_record(self):
        answer = self.gateway.get(f"/unified/v2/operations/{self.operation}")
        self.assertEqual(200, answer.status, answer)
        record = answer.json()
        self.assertEqual(("completed", self.events[-1]["sequence"]), (record["state"], record["lastSequence"]))
        self.assertNotIn("principalRef", record)
        self.assertEqual(text_of(self.events), texts_in(record["result"]["output"]))


class Cancel(Streams):
    def test_cancel_is_separate_from_going_away(self):
        stream = self.gateway.chat("gpt-sim-long:400+slow:25", ASK, stream=True)
        operation = stream.headers["throughline-operation"]
        stream.take(5)
        with self.gateway.events(operation) as events:
            begun = events.take(8)
            answer = self.gateway.cancel(operation, {"reason": "the user pressed stop"})
            self.assertEqual(202, answer.status, answer)
            self.assertEqual(operation, answer.json()["operationId"])
            frames = begun + events.rest()
        ended = self.assert_events_whole(frames)
        self.assertEqual("operation.cancelled", ended[-2]["kind"])
        self.assertIn("cancelled", json.dumps(ended[-1]["status"]))
        self.assertLess(len(ended), 300)
        stream.rest()
        stream.close()
        entry = wait_for(lambda: self.upstream_log(), what="the end of the upstream request")[-1]
        self.assertEqual("client-gone", entry["ended"], "the upstream was told by the end of the connection")

        again = self.gateway.cancel(operation)
        self.assertEqual((200, "cancelled"), (again.status, again.json()["state"]))
        with self.gateway.events(operation) as events:
            self.assertEqual([f.data for f in frames], [f.data for f in events.rest()], "a second cancel changes nothing")
        self.assertEqual(["cancelled"], self.gateway.journal().operation_states())

    def test_cancel_of_a_finished_one_changes_nothing(self):
        answer = self.gateway.chat("gpt-sim-text", ASK)
        late = self.gateway.cancel(answer.headers["throughline-operation"])
        self.assertEqual((200, "completed"), (late.status, late.json()["state"]))

    def test_conversation_goes_on_after_a_cancel(self):
        first = self.gateway.chat("gpt-sim-text", ASK)
        said = first.json()["choices"][0]["message"]["content"]
        history = [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": "more"}]
        with self.gateway.chat("claude-sim-long:400+slow:25", history, stream=True) as stream:
            stream.take(6)
            self.gateway.cancel(stream.headers["throughline-operation"])
            stream.rest()
        wait_for(lambda: self.gateway.journal().operation_states()[-1] == "cancelled", what="the end of the cancelled operation")
        retry = self.gateway.chat("claude-sim-text", history)
        self.assertEqual(200, retry.status, retry)
        self.assertEqual(first.headers["throughline-conversation"], retry.headers["throughline-conversation"])
        expected = of_texts(("user", ASK[0]["content"]), ("assistant", said), ("user", "more"))
        self.assertEqual(expected, facts(self.upstream_log(3)[-1]["digest"]))


if __name__ == "__main__":
    unittest.main()
