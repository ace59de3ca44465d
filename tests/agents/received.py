"""What an upstream received, in the neutral events of `story`: one reader for each wire.

What a client puts in by itself (reminders, its environment) is left out, and nothing else: a text that is missing, doubled or
changed shows as a difference.
"""

import json
import re

from story import canonical, image_name

# How the texts begin that a client adds to a conversation.
# The last are words of the exporter, before what Gemini CLI would take for a command.
PUT_IN = ("<system-reminder>", "<environment_context>", "<session_context>", "# AGENTS.md instructions", "The user says: ")


def events(entry):
    """The events of a log entry of the simulator."""
    read = {
        "anthropic-messages": anthropic,
        "openai-responses": responses,
        "openai-chat": chat,
        "gemini-generate-content": gemini,
    }[entry["protocol"]]
    return joined(read(entry["body"]))


def joined(found):
    """Neighbouring texts of one speaker as one: where a message ends is the client's own business."""
    out = []
    for event in found:
        if event[0] in ("user", "assistant") and out and out[-1][0] == event[0]:
            out[-1] = (event[0], out[-1][1] + "\n" + event[1])
        else:
            out.append(event)
    return out


def texts_first(found):
    """The texts of an answer before its calls: clients of Anthropic's wire put them in that order."""
    out, calls = [], []
    for event in found:
        if event[0] == "call":
            calls.append(event)
            continue
        if event[0] not in ("assistant", "thinking"):
            out += calls
            calls = []
        out.append(event)
    return joined(out + calls)


def said(role, text):
    return [] if not text or text.lstrip().startswith(PUT_IN) else [(role, text)]


def data_of(url):
    assert url.startswith("data:"), f"an image by reference: {url[:80]}"
    return url.split(",", 1)[1]


def blocks_of(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def anthropic(body):
    out = []
    for message in body["messages"]:
        if message["role"] == "system":
            continue
        for block in blocks_of(message["content"]):
            match block["type"]:
                case "text":
                    out += said(message["role"], block["text"])
                case "image":
                    out.append(("image", image_name(block["source"]["data"])))
                case "tool_use":
                    out.append(("call", block["name"], canonical(block["input"])))
                case "thinking" | "redacted_thinking":
                    out.append(("thinking", block.get("thinking", ""), bool(block.get("signature") or block.get("data"))))
                case "tool_result":
                    out += result(blocks_of(block.get("content", [])), block.get("is_error", False), lambda part: part["source"]["data"])
                case other:
                    out.append(("unknown", other))
    return out


def result(parts, is_error, data):
    """A result and its images; `data` takes the base64 text out of an image."""
    texts = [part["text"] for part in parts if "text" in part]
    images = [("image", image_name(data(part))) for part in parts if "image" in part["type"]]
    # Claude Code puts reminders behind results when it sends them.
    text = re.sub(r"\s*<system-reminder>.*</system-reminder>\s*$", "", "\n".join(texts), flags=re.DOTALL)
    return [("result", text, is_error), *images]


def responses(body):
    out = []
    for item in body["input"]:
        match item.get("type", "message"):
            case "message":
                if item["role"] in ("developer", "system"):
                    continue
                for part in blocks_of(item["content"]):
                    if part["type"] == "input_image":
                        out.append(("image", image_name(data_of(part["image_url"]))))
                    else:
                        out += said(item["role"], part["text"])
            case "function_call":
                out.append(("call", item["name"], canonical(json.loads(item["arguments"]))))
            case "custom_tool_call":
                out.append(("call", item["name"], canonical(item["input"])))
            case "function_call_output" | "custom_tool_call_output":
                out += result(blocks_of(item["output"]), False, lambda part: data_of(part["image_url"]))
            case "reasoning":
                text = "".join(part["text"] for part in item["summary"])
                out.append(("thinking", text, bool(item.get("encrypted_content"))))
            case other:
                out.append(("unknown", other))
    return out


def chat(body):
    out = []
    for message in body["messages"]:
        role = message["role"]
        if role == "tool":
            out.append(("result", message["content"], False))
            continue
        if role in ("system", "developer"):
            continue
        for part in blocks_of(message.get("content") or []):
            if part["type"] == "image_url":
                out.append(("image", image_name(data_of(part["image_url"]["url"]))))
            else:
                out += said(role, part["text"])
        for call in message.get("tool_calls", []):
            out.append(("call", call["function"]["name"], canonical(json.loads(call["function"]["arguments"]))))
    return out


def gemini(body):
    out = []
    for content in body["contents"]:
        role = "assistant" if content["role"] == "model" else "user"
        for part in content["parts"]:
            if part.get("thought"):
                out.append(("thinking", part.get("text", ""), "thoughtSignature" in part))
            elif "text" in part:
                out += said(role, part["text"])
            elif "inlineData" in part:
                out.append(("image", image_name(part["inlineData"]["data"])))
            elif "functionCall" in part:
                out.append(("call", part["functionCall"]["name"], canonical(part["functionCall"].get("args", {}))))
            elif "functionResponse" in part:
                answer = part["functionResponse"]
                is_error = "error" in answer["response"]
                out.append(("result", answer["response"]["error" if is_error else "output"], is_error))
                out += [("image", image_name(inner["inlineData"]["data"])) for inner in answer.get("parts", [])]
            else:
                out.append(("unknown", sorted(part)))
    return out
