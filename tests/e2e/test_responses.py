"""The official `openai` SDK with the Responses API, over an Anthropic and a chat upstream: text, tools, reasoning, streamed and not."""

import json

import openai
from clients import WEATHER
from harness import CLIENT_KEY, GatewayTest

TOOL = {"type": "function", "name": "get_weather", "description": "Weather of a city.", "parameters": WEATHER, "strict": True}


class Responses(GatewayTest):
    def ask(self, model, history, stream):
        client = openai.OpenAI(base_url=f"{self.gateway.url}/v1", api_key=CLIENT_KEY, max_retries=0)
        fields = {"model": model, "input": history, "tools": [TOOL], "store": False}
        if not stream:
            return client.responses.create(**fields)
        with client.responses.stream(**fields) as events:
            numbers = [event.sequence_number for event in events]
            self.assertEqual(sorted(set(numbers)), numbers, "sequence numbers rise")
            return events.get_final_response()

    def task(self, model, stream):
        """Asks, answers every call, and asks again until the model is done."""
        history = [{"role": "user", "content": "What is the weather in Лиссабон?"}]
        for round_number in range(1, 4):
            answer = self.ask(model, history, stream)
            self.assertEqual("completed", answer.status)
            history += [json.loads(item.model_dump_json(exclude_none=True)) for item in answer.output]
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                self.assertGreater(round_number, 1, "the model calls its tool first")
                return answer
            for call in calls:
                self.assertEqual({"city", "days"}, set(json.loads(call.arguments)))
                history.append({"type": "function_call_output", "call_id": call.call_id, "output": "19 °C, “fine”"})
        self.fail("the task has no end")

    def test_a_task_with_tools(self):
        requests = 0
        for model, upstream in [("claude-sim-tools", "anthropic-messages"), ("gpt-sim-tools", "openai-chat")]:
            for stream in (False, True):
                with self.subTest(model=model, stream=stream):
                    answer = self.task(model, stream)
                    self.assertTrue(answer.output_text.startswith("SIM{"), answer.output_text[:200])
                    self.assertGreater(answer.usage.total_tokens, 0)
                    entries = self.upstream_log(requests + 2)[requests:]
                    requests += 2
                    self.assert_accepted(entries)
                    self.assertEqual({upstream}, {entry["protocol"] for entry in entries})
                    self.assertEqual((1, 1), (entries[-1]["digest"]["calls"], entries[-1]["digest"]["results"]))

    def test_a_refusal_has_the_shape_of_the_protocol(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.ask("nobody-has-this", "hi", False)
        self.assertIn("no route takes the model", str(caught.exception))
