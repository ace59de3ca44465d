"""Clients that hold a history, each with its official SDK: they know nothing of the gateway but its address.

`turn` plays one whole turn: it asks, answers every tool call, and asks again until the model is done. Beside its own wire
history each keeps a `Transcript`, and before each request it notes in `expected` what the upstream must see.
"""

import copy
import json

import anthropic
import harness
import openai
from google import genai
from google.genai import types
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


class GeminiHolder(HistoryHolder):
    """The `google-genai` SDK; sends every part back as it came, signatures included."""

    protocol = "gemini-generate-content"

    def __init__(self, url, stream, thinking=True):
        super().__init__(url, stream)
        self.sdk = gemini(url)
        self.history = []
        self.tools = [
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(name=name, description=text, parameters_json_schema=schema) for name, text, schema in TOOLS
                ]
            )
        ]
        self.config = types.GenerateContentConfig(
            system_instruction=SYSTEM,
            tools=self.tools,
            thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH") if thinking else None,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        self.names = {}

    def add_user(self, text):
        self.history.append(types.Content(role="user", parts=[types.Part(text=text)]))

    def add_results(self, results):
        response = lambda call_id, text: types.FunctionResponse(id=call_id, name=self.names[call_id], response={"result": text})  # noqa: E731
        parts = [types.Part(function_response=response(call_id, text)) for call_id, text in results]
        self.history.append(types.Content(role="user", parts=parts))

    def request(self, model):
        ask = dict(model=model, contents=self.history, config=self.config)
        answers = list(self.sdk.models.generate_content_stream(**ask)) if self.stream else [self.sdk.models.generate_content(**ask)]
        candidates = [candidate for answer in answers for candidate in answer.candidates or []]
        parts = [part for candidate in candidates for part in (candidate.content and candidate.content.parts) or []]
        self.history.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        self.names.update({call.id: call.name for call in calls})
        return Reply(
            "".join(part.text or "" for part in parts if not part.thought),
            [Call(call.id, call.name, json.dumps(call.args)) for call in calls],
            "".join(part.text or "" for part in parts if part.thought),
            [part.thought_signature for part in parts if part.thought_signature],
            answers[-1].usage_metadata and answers[-1].usage_metadata.cached_content_token_count,
            answers[-1],
        )


def gemini(url):
    """The `google-genai` SDK at a gateway, which asks once."""
    options = types.HttpOptions(base_url=url, timeout=30_000, retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(api_key=harness.CLIENT_KEY, http_options=options)


HOLDERS = {"anthropic": AnthropicHolder, "openai": OpenAiHolder}
