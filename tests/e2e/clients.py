"""Clients that hold a history, each with its official SDK: they know nothing of the gateway but its address.

`turn` plays one whole turn: it asks, answers every tool call, and asks again until the model is done. Beside its own wire
history each keeps a `Transcript`, and before each request it notes in `expected` what the upstream must see.
"""

import copy
import json

import anthropic
import harness
import openai
from transcript import Transcript

SYSTEM = "You are terse. Olá, 北京."
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
PLACE = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": False}
TOOLS = [("get_weather", "Weather of a city.", WEATHER), ("find_place", "Finds a place.", PLACE)]


class Call:
    def __init__(self, call_id, name, arguments):
        self.id, self.name, self.arguments = call_id, name, arguments


class Reply:
    """One answer in neutral words. `record` is the SDK's own record of it."""

    def __init__(self, text, calls, reasoning, signatures, cached, record):
        self.text, self.calls, self.reasoning, self.signatures, self.cached, self.record = text, calls, reasoning, signatures, cached, record


class HistoryHolder:
    """What the two clients share."""

    protocol = ""

    def __init__(self, url, stream):
        self.url, self.stream = url, stream
        self.transcript = Transcript(SYSTEM)
        self.expected, self.models, self.replies = [], [], []
        self.result_count = 0

    def turn(self, model, text):
        """One turn with all its tool rounds; the last reply."""
        self.add_user(text)
        self.transcript.say("user", text)
        reply = self.ask(model)
        while reply.calls:
            self.answer_calls(reply)
            reply = self.ask(model)
        return reply

    def ask(self, model):
        self.expected.append(copy.deepcopy(self.transcript.digest()))
        self.models.append(model)
        reply = self.request(model)
        self.replies.append(reply)
        self.transcript.say("assistant", reply.text)
        for call in reply.calls:
            self.transcript.call(call.name, json.loads(call.arguments))
        return reply

    def answer_calls(self, reply):
        results = []
        for call in reply.calls:
            self.result_count += 1
            results.append((call.id, f"{call.name} says: {19 + self.result_count} °C, “fine”"))
            self.transcript.result(results[-1][1])
        self.add_results(results)


class AnthropicHolder(HistoryHolder):
    """The `anthropic` SDK; echoes thinking with its signature, as its documentation demands."""

    protocol = "anthropic-messages"

    def __init__(self, url, stream, thinking=True):
        super().__init__(url, stream)
        self.sdk = anthropic.Anthropic(api_key=harness.CLIENT_KEY, base_url=url, max_retries=0, timeout=30)
        self.history = []
        self.thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if thinking else {}
        self.tools = [{"name": name, "description": text, "input_schema": schema} for name, text, schema in TOOLS]

    def add_user(self, text):
        self.history.append({"role": "user", "content": text})

    def add_results(self, results):
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in results]
        self.history.append({"role": "user", "content": blocks})

    def request(self, model):
        ask = dict(model=model, max_tokens=4000, system=SYSTEM, messages=self.history, tools=self.tools, **self.thinking)
        if self.stream:
            with self.sdk.messages.stream(**ask) as stream:
                message = stream.get_final_message()
        else:
            message = self.sdk.messages.create(**ask)
        self.history.append({"role": "assistant", "content": [self.echo(block) for block in message.content]})
        of_type = lambda *types: [b for b in message.content if b.type in types]  # noqa: E731
        return Reply(
            "".join(b.text for b in of_type("text")),
            [Call(b.id, b.name, json.dumps(b.input)) for b in of_type("tool_use")],
            "".join(b.thinking for b in of_type("thinking")),
            [b.signature if b.type == "thinking" else b.data for b in of_type("thinking", "redacted_thinking")],
            message.usage.cache_read_input_tokens,
            message,
        )

    @staticmethod
    def echo(block):
        """The block as the documentation says to send it back."""
        fields = {"text": ("text",), "thinking": ("thinking", "signature"), "redacted_thinking": ("data",), "tool_use": ("id", "name", "input")}
        return {"type": block.type, **{name: getattr(block, name) for name in fields[block.type]}}


class OpenAiHolder(HistoryHolder):
    """The `openai` SDK with Chat Completions; like most programs it sends back texts and calls, and no reasoning."""

    protocol = "openai-chat"

    def __init__(self, url, stream, thinking=True):
        super().__init__(url, stream)
        self.sdk = openai.OpenAI(api_key=harness.CLIENT_KEY, base_url=url + "/v1", max_retries=0, timeout=30)
        self.history = [{"role": "system", "content": SYSTEM}]
        self.thinking = {"reasoning_effort": "high"} if thinking else {}
        self.tools = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": schema, "strict": True}} for name, text, schema in TOOLS
        ]

    def add_user(self, text):
        self.history.append({"role": "user", "content": text})

    def add_results(self, results):
        self.history += [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]

    def request(self, model):
        ask = dict(model=model, messages=self.history, tools=self.tools, **self.thinking)
        if self.stream:
            with self.sdk.chat.completions.stream(**ask, stream_options={"include_usage": True}) as stream:
                for _ in stream:
                    pass
                completion = stream.get_final_completion()
        else:
            completion = self.sdk.chat.completions.create(**ask)
        message = completion.choices[0].message
        echo = {"role": "assistant", "content": message.content}
        calls = message.tool_calls or []
        if calls:
            echo["tool_calls"] = [{"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}} for c in calls]
        self.history.append(echo)
        details = completion.usage and completion.usage.prompt_tokens_details
        return Reply(
            message.content or "",
            [Call(c.id, c.function.name, c.function.arguments) for c in calls],
            getattr(message, "reasoning_content", None) or "",
            [],
            details and details.cached_tokens,
            completion,
        )


HOLDERS = {"anthropic": AnthropicHolder, "openai": OpenAiHolder}
