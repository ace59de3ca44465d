"""The real Codex CLI does a task with tools through the gateway, over models that other providers serve.

It speaks OpenAI's Responses, whatever answers. What counts: the command ran, its output came back to the model, the model's last word
reached the user, and the provider, which is strict here, found no fault with any request.
"""

import json
import unittest

import suite  # noqa: F401  (it finds the harness)
from programs import PROGRAMS

import harness  # noqa: E402

TASK = "Write the greeting into a file and tell me."
COMMAND = "printf 'from %s' the-tool > greeting.txt && cat greeting.txt"
TOOL, ARGUMENTS = "exec_command", json.dumps({"cmd": COMMAND})


class CodexThroughTheGateway(harness.GatewayTest):
    def check(self, model, protocol, first):
        """The first answer is two calls at once, the second is the simulator's own."""
        program = PROGRAMS["codex"](self.folder / "codex", self.gateway.url)
        self.sim.answer_next(protocol, sse=first)
        done = program.ask(TASK, model=model)
        entries = self.upstream_log()
        self.assert_accepted(entries)
        self.assertEqual(0, done.code, done)
        self.assertEqual([protocol] * 2, [entry["protocol"] for entry in entries])
        self.assertEqual("from the-tool", (program.cwd / "greeting.txt").read_text())
        last = entries[-1]
        self.assertEqual((2, 2), (last["digest"]["calls"], last["digest"]["results"]))
        self.assertIn("from the-tool", json.dumps(last["body"]))
        said = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
        items = [event["item"] for event in said if event["type"] == "item.completed"]
        self.assertEqual(["from the-tool"] * 2, [item["aggregated_output"] for item in items if item["type"] == "command_execution"])
        self.assertIn('"calls":2', [item["text"] for item in items if item["type"] == "agent_message"][-1])
        self.assertEqual("turn.completed", said[-1]["type"])
        self.assertGreater(said[-1]["usage"]["input_tokens"], 0)

    def test_over_anthropic(self):
        usage = {"input_tokens": 10, "output_tokens": 5}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sim-text", "content": [], "stop_reason": None, "stop_sequence": None}
        events = [{"type": "message_start", "message": {**head, "usage": usage}}]
        text = ({"type": "text", "text": ""}, {"type": "text_delta", "text": "I do it."})
        calls = [({"type": "tool_use", "id": f"toolu_{n}", "name": TOOL, "input": {}}, {"type": "input_json_delta", "partial_json": ARGUMENTS}) for n in (1, 2)]
        for index, (block, delta) in enumerate([text, *calls]):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage})
        events.append({"type": "message_stop"})
        sse = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.check("claude-sim-text", "anthropic-messages", sse)

    def test_over_openai_chat(self):
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-sim-text"}
        calls = [{"index": n, "id": f"call_{n}", "type": "function", "function": {"name": TOOL, "arguments": ARGUMENTS}} for n in (0, 1)]
        deltas = [{"role": "assistant", "content": "I do it."}, *({"tool_calls": [call]} for call in calls), {}]
        chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls"}]} for delta in deltas]
        chunks.append({**head, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
        sse = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.check("gpt-sim-text", "openai-chat", sse)

    def test_thinking_goes_back_to_its_owner(self):
        program = PROGRAMS["codex"](self.folder / "codex", self.gateway.url)
        done = program.ask(TASK, model="claude-sim-think-tools")
        entries = self.upstream_log()
        self.assert_accepted(entries)
        self.assertEqual(0, done.code, done)
        self.assertEqual([(0, 0), (1, 1)], [(entry["digest"]["results"], entry["digest"]["signed"]) for entry in entries])


if __name__ == "__main__":
    unittest.main()
