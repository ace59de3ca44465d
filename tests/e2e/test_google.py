"""The Gemini family: the official `google-genai` SDK over every upstream, and the other SDKs over the upstreams of the family."""

import json
import unittest

from clients import HOLDERS, WEATHER, GeminiHolder, gemini
from google.genai import errors, types
from harness import KEYS, GatewayTest, key_hash
from transcript import facts

# Begin of the model's name -> protocol of its upstream, how its credential travels, which.
UPSTREAMS = {
    "claude": ("anthropic-messages", "x-api-key", "E2E_ANTHROPIC_KEY"),
    "gpt": ("openai-chat", "bearer", "E2E_CHAT_KEY"),
    "responses": ("openai-responses", "bearer", "E2E_CHAT_KEY"),
    "gemini": ("gemini-generate-content", "x-goog-api-key", "E2E_GEMINI_KEY"),
    "vertex": ("vertex-gemini", "bearer", "E2E_GOOGLE_TOKEN"),
    "antigravity": ("antigravity", "bearer", "E2E_GOOGLE_TOKEN"),
    "interactions": ("gemini-interactions", "x-goog-api-key", "E2E_GEMINI_KEY"),
}
FAMILY = ("gemini", "vertex", "antigravity", "interactions")
# Results are objects on these wires and texts elsewhere, so their hashes differ.
COMPARED = ("runs", "sha", "calls", "results", "system_sha")


class Conversations(GatewayTest):
    with_google = True

    def assert_seen(self, holder, name, entries):
        protocol, kind, key = UPSTREAMS[name]
        self.assert_accepted(entries)
        self.assertEqual(len(holder.expected), len(entries), "requests at the upstream")
        for entry, expected in zip(entries, holder.expected, strict=True):
            self.assertEqual(protocol, entry["protocol"])
            self.assertEqual({kind: key_hash(KEYS[key])}, entry["auth"], "the key of the account and no other")
            seen = facts(entry["digest"])
            self.assertEqual({k: expected[k] for k in COMPARED}, {k: seen[k] for k in COMPARED})

    def converse(self, make, name, stream):
        before = len(self.upstream_log())
        holder = make(self.gateway.url, stream)
        for word, text in [("think-tools", "Weather in Лиссабон?"), ("text", "Why — “really”?"), ("think+tools", "And 北京? [[sim-think+parallel-tools:2]]")]:
            reply = holder.turn(f"{name}-sim-{word}", text)
            self.assertTrue(reply.text.startswith("SIM{"), reply.text[:200])
        self.assertEqual(3, sum(len(reply.calls) for reply in holder.replies))
        self.assert_seen(holder, name, self.upstream_log(before + len(holder.expected))[before:])
        return holder

    def test_the_google_sdk_over_every_upstream(self):
        for name in UPSTREAMS:
            for stream in (False, True):
                with self.subTest(upstream=name, stream=stream):
                    holder = self.converse(GeminiHolder, name, stream)
                    if name != "gpt":
                        self.assertTrue(holder.replies[0].reasoning, "thoughts arrive as thoughts")
                    self.assertEqual("STOP", holder.replies[-1].record.candidates[-1].finish_reason.name)
                    self.assertGreater(holder.replies[-1].record.usage_metadata.total_token_count, 0)

    def test_the_other_sdks_over_the_family(self):
        for sdk, make in HOLDERS.items():
            for name in FAMILY:
                for stream in (False, True):
                    with self.subTest(sdk=sdk, upstream=name, stream=stream):
                        self.converse(make, name, stream)

    def test_a_history_goes_through_every_provider_and_each_signature_home(self):
        holder = GeminiHolder(self.gateway.url, stream=True)
        turns = ["gemini", "claude", "vertex", "responses", "gemini", "antigravity", "gpt", "interactions", "gemini"]
        for name in turns:
            holder.turn(f"{name}-sim-think-tools", f"now {name}")
        entries = self.upstream_log(len(holder.expected))
        self.assert_accepted(entries)
        for entry, expected in zip(entries, holder.expected, strict=True):
            seen = facts(entry["digest"])
            self.assertEqual({k: expected[k] for k in COMPARED}, {k: seen[k] for k in COMPARED}, entry["protocol"])
        last = [e for e in entries if e["protocol"] == "gemini-generate-content"][-1]
        self.assertGreater(last["digest"]["signed"], 2, "what Gemini signed in its former turns came back to it")
        self.assertEqual(1, len(self.gateway.journal().conversations()))

    def test_project_and_location_stand_where_the_service_wants_them(self):
        for name in ("vertex", "antigravity"):
            GeminiHolder(self.gateway.url, stream=False).turn(f"{name}-sim-text", "hi")
        vertex, antigravity = self.upstream_log(2)
        self.assertEqual("/v1/projects/e2e-project/locations/global/publishers/google/models/vertex-sim-text:generateContent", vertex["path"])
        self.assertEqual("e2e-project", antigravity["body"]["project"])


class Surface(GatewayTest):
    with_google = True
    ASK = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}

    def test_streams_are_events_or_one_array(self):
        for model in ("claude-sim-tools", "gemini-sim-text", "gpt-sim-empty"):
            for root in ("/v1beta", "/v1"):
                path = f"{root}/models/{model}:streamGenerateContent"
                array = self.gateway.post(path, self.ASK)
                self.assertEqual((200, "application/json"), (array.status, array.headers["content-type"]))
                events = self.gateway.post(f"{path}?alt=sse", self.ASK)
                self.assertTrue(events.headers["content-type"].startswith("text/event-stream"))
                lines = [line for line in events.text().split("\n") if line.startswith("data: ")]
                texts = lambda chunks: "".join(p.get("text", "") for c in chunks for k in c["candidates"] for p in k.get("content", {}).get("parts", []))  # noqa: E731
                self.assertEqual(texts(json.loads(line[6:]) for line in lines), texts(array.json()))
                self.assertEqual("STOP", array.json()[-1]["candidates"][0]["finishReason"])

    def test_an_array_stays_json_when_the_answer_breaks(self):
        chunks = self.gateway.post("/v1beta/models/claude-sim-error-mid:4:streamGenerateContent", self.ASK).json()
        self.assertTrue(chunks[0]["candidates"])
        self.assertEqual("UNAVAILABLE", chunks[-1]["error"]["status"])

    def test_refusals_have_googles_shape(self):
        sdk = gemini(self.gateway.url)
        for model, status, word in [
            ("claude-sim-429:7", 429, "RESOURCE_EXHAUSTED"),
            ("gpt-sim-401", 401, "UNAUTHENTICATED"),
            ("gemini-sim-overloaded", 503, "UNAVAILABLE"),
            ("nobody-has-this", 404, "NOT_FOUND"),
        ]:
            for ask in (sdk.models.generate_content, lambda **kw: list(sdk.models.generate_content_stream(**kw))):
                with self.subTest(model=model), self.assertRaises(errors.APIError) as caught:
                    ask(model=model, contents="hi")
                self.assertEqual((status, word), (caught.exception.code, caught.exception.status))
        for ask in (sdk.models.generate_content, lambda **kw: list(sdk.models.generate_content_stream(**kw))):
            with self.assertRaises(errors.APIError) as caught:
                ask(model="claude-sim-429:7", contents="hi")
            delay = caught.exception.details["error"]["details"][0]
            self.assertEqual(("type.googleapis.com/google.rpc.RetryInfo", "7s"), (delay["@type"], delay["retryDelay"]))
        # Whoever reads an array gets an array, with the same error as its element.
        refused = self.gateway.post("/v1beta/models/claude-sim-429:7:streamGenerateContent", self.ASK)
        self.assertEqual((429, "7s"), (refused.status, refused.json()[0]["error"]["details"][0]["retryDelay"]))
        for path in ("/v1beta/models/m:embedContent", "/v1beta/files", "/v1/models/m:nothing"):
            answer = self.gateway.post(path, {})
            self.assertEqual((404, "NOT_FOUND"), (answer.status, answer.json()["error"]["status"]), path)

    def test_tools_of_the_sdk(self):
        tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="get_weather", description="Weather.", parameters_json_schema=WEATHER)])
        sdk = gemini(self.gateway.url)
        for mode, names, calls in [("ANY", ["get_weather"], 1), ("AUTO", None, 1), ("NONE", None, 0)]:
            choice = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=mode, allowed_function_names=names))
            config = types.GenerateContentConfig(
                tools=[tool], tool_config=choice, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
            )
            for name in ("claude", "gpt", "gemini", "vertex"):
                with self.subTest(mode=mode, upstream=name):
                    answer = sdk.models.generate_content(model=f"{name}-sim-{'tools' if calls else 'text'}", contents="Weather?", config=config)
                    self.assertEqual(calls, len(answer.function_calls or []))

    def test_the_older_version_gets_nothing_that_it_has_not(self):
        tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="get_weather", description="Weather.", parameters_json_schema=WEATHER)])
        config = types.GenerateContentConfig(
            system_instruction="be brief", tools=[tool], thinking_config=types.ThinkingConfig(include_thoughts=True), temperature=0.5
        )
        for stream in (False, True):
            sdk = gemini(self.gateway.url)
            before = len(self.upstream_log())
            ask = dict(model="older-sim-text", contents="hi", config=config)
            answers = list(sdk.models.generate_content_stream(**ask)) if stream else [sdk.models.generate_content(**ask)]
            self.assertTrue("".join(answer.text or "" for answer in answers).startswith("SIM{"))
            entry = self.upstream_log(before + 1)[before]
            self.assert_accepted([entry])
            self.assertTrue(entry["path"].startswith("/v1/models/older-sim-text:"), entry["path"])
            self.assertEqual({"contents", "generationConfig"}, set(entry["body"]))
            self.assertEqual([{"text": "be brief"}, {"text": "hi"}], entry["body"]["contents"][0]["parts"])

    def test_models(self):
        sdk = gemini(self.gateway.url)
        self.assertIn("models/house-model", [m.name for m in sdk.models.list()])
        self.assertEqual("models/gemini-sim-text", sdk.models.get(model="gemini-sim-text").name)
        listed = self.gateway.get("/v1/models", x_goog_api_key="k").json()
        self.assertIn("models/house-model", [m["name"] for m in listed["models"]])


class Keys(GatewayTest):
    with_google = True
    config_options = {"auth": True}

    def prepare(self):
        import keys

        self.key = keys.new_client_key(self.gateway, "ann")

    def test_a_key_comes_in_the_header_or_in_the_query(self):
        path = "/v1beta/models/gpt-sim-text:generateContent"
        for query, headers, status in [
            ("", {"x_goog_api_key": self.key}, 200),
            (f"?key={self.key}", {}, 200),
            ("", {}, 401),
            ("?key=wrong", {}, 401),
        ]:
            answer = self.gateway.post(path + query, Surface.ASK, **headers)
            self.assertEqual(status, answer.status, answer)
        self.assertEqual("UNAUTHENTICATED", answer.json()["error"]["status"])
        self.assertNotIn(self.key, self.gateway.stderr_path().read_text())


class Interactions(GatewayTest):
    with_google = True

    def test_a_task_with_tools(self):
        sdk = gemini(self.gateway.url)
        tool = {"type": "function", "name": "get_weather", "description": "Weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
        for name in UPSTREAMS:
            with self.subTest(upstream=name):
                before = len(self.upstream_log())
                steps = [{"type": "user_input", "content": [{"type": "text", "text": "Weather?"}]}]
                fields = dict(model=f"{name}-sim-tools", tools=[tool], store=False)
                first = sdk.interactions.create(input=steps, **fields)
                self.assertEqual("requires_action", first.status)
                calls = [step for step in first.steps if step.type == "function_call"]
                steps += [step.model_dump(exclude_none=True) for step in first.steps]
                steps += [{"type": "function_result", "call_id": call.id, "name": call.name, "result": "19 °C"} for call in calls]
                events = list(sdk.interactions.create(input=steps, stream=True, **fields))
                self.assertEqual("completed", events[-1].interaction.status)
                text = "".join(e.delta.text for e in events if e.event_type == "step.delta" and e.delta.type == "text")
                self.assertIn("The tool said:", text)
                entries = self.upstream_log(before + 2)[before:]
                self.assert_accepted(entries)
                self.assertEqual((1, 1), (entries[-1]["digest"]["calls"], entries[-1]["digest"]["results"]))

    def test_an_interaction_is_read_again_and_cancelled(self):
        sdk = gemini(self.gateway.url)
        done = sdk.interactions.create(model="claude-sim-text", input="hi")
        again = sdk.interactions.get(done.id)
        self.assertEqual((done.status, done.steps[0].content[0].text), (again.status, again.steps[0].content[0].text))

        events = iter(sdk.interactions.create(model="claude-sim-long:200+slow:20", input="hi", stream=True))
        begin = [next(events) for _ in range(4)]
        running = begin[0].interaction.id
        self.assertEqual("in_progress", sdk.interactions.get(running).status)
        replay = iter(sdk.interactions.get(running, stream=True, last_event_id=begin[1].event_id))
        self.assertEqual([begin[2].event_id, begin[3].event_id], [next(replay).event_id for _ in range(2)])
        self.assertEqual("cancelled", sdk.interactions.cancel(running).status)
        self.assert_gone(lambda: sdk.interactions.get("op_00000000000000000000000000"))

    def assert_gone(self, ask):
        with self.assertRaises(Exception) as caught:
            ask()
        self.assertIn("NOT_FOUND", str(caught.exception))

    def test_a_stream_is_read_again_from_every_place(self):
        sdk = gemini(self.gateway.url)
        for name in ("claude", "gemini", "interactions"):
            with self.subTest(upstream=name):
                events = list(sdk.interactions.create(model=f"{name}-sim-think+text", input="hi", stream=True))
                self.assertEqual("interaction.completed", events[-1].event_type)
                ids = [event.event_id for event in events]
                self.assertEqual(len(ids), len(set(ids)), "every event has an ID of its own")
                for at in range(0, len(ids), max(1, len(ids) // 5)):
                    again = sdk.interactions.get(events[0].interaction.id, stream=True, last_event_id=ids[at])
                    self.assertEqual(ids[at + 1 :], [event.event_id for event in again])

    def test_an_interaction_is_deleted(self):
        sdk = gemini(self.gateway.url)
        for name in ("claude", "interactions"):
            with self.subTest(upstream=name):
                model = f"{name}-sim-text"
                first = sdk.interactions.create(model=model, input="one")
                second = sdk.interactions.create(model=model, input="two", previous_interaction_id=first.id)
                sdk.interactions.delete(first.id)
                self.assert_gone(lambda: sdk.interactions.get(first.id))
                self.assert_gone(lambda: list(sdk.interactions.get(first.id, stream=True)))
                self.assert_gone(lambda: sdk.interactions.cancel(first.id))
                self.assert_gone(lambda: sdk.interactions.delete(first.id))
                self.assert_gone(lambda: sdk.interactions.create(model=model, input="three", previous_interaction_id=first.id))
                # What went on from it is there, and goes on itself.
                self.assertEqual("completed", sdk.interactions.get(second.id).status)
                third = sdk.interactions.create(model=model, input="three", previous_interaction_id=second.id)
                for left in (second, third):
                    sdk.interactions.delete(left.id)
        self.assertEqual([], self.gateway.get("/unified/v2/conversations").json()["data"], "nothing is left of what only they made")

    def test_what_runs_is_cancelled_before_it_is_deleted(self):
        sdk = gemini(self.gateway.url)
        events = iter(sdk.interactions.create(model="claude-sim-long:200+slow:20", input="hi", stream=True))
        running = next(events).interaction.id
        with self.assertRaises(Exception) as caught:
            sdk.interactions.delete(running)
        self.assertIn("ABORTED", str(caught.exception))
        self.assertEqual("cancelled", sdk.interactions.cancel(running).status)
        sdk.interactions.delete(running)
        self.assert_gone(lambda: sdk.interactions.get(running))


if __name__ == "__main__":
    unittest.main()
