"""The story as the file of each runtime: what the runtime itself would have written, without the records that no model sees."""

import datetime
import json

from story import STORY, Answer, User

CWD = "/nowhere/project"
MILLIS = 1_788_000_000_000


class Times:
    """Strictly increasing times."""

    def __init__(self):
        self.at = MILLIS

    def millis(self):
        self.at += 1000
        return self.at

    def text(self):
        seconds, millis = divmod(self.millis(), 1000)
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{millis:03d}Z"


def lines(records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def ended(turn):
    return [call for call in turn.calls if call.result is not None]


def url(image):
    return "data:image/png;base64," + image


def claude_code(story=STORY):
    times, records = Times(), []

    def line(kind, message):
        uuid = f"00000000-0000-4000-8000-{len(records):012d}"
        records.append(
            {
                "parentUuid": records[-1]["uuid"] if records else None,
                "isSidechain": False,
                "userType": "external",
                "cwd": CWD,
                "sessionId": "5e551011-0000-4000-8000-00000000c1a0",
                "version": "2.1.332",
                "type": kind,
                "message": message,
                "uuid": uuid,
                "timestamp": times.text(),
            }
        )

    image = lambda data: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}  # noqa: E731
    for number, turn in enumerate(story):
        if isinstance(turn, User):
            content = [{"type": "text", "text": turn.text}] + ([image(turn.image)] if turn.image else [])
            line("user", {"role": "user", "content": content})
            continue
        blocks = [{"type": "thinking", "thinking": turn.thinking, "signature": "c2lnbmVk"}] if turn.thinking else []
        blocks += [{"type": "text", "text": turn.text}] if turn.text else []
        blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in turn.calls]
        blocks += [{"type": "text", "text": turn.after}] if turn.after else []
        for block in blocks:
            head = {"id": f"msg_{number:03d}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
            line("assistant", {**head, "content": [block], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 5}})
        for call in ended(turn):
            content = [{"type": "text", "text": call.result}, image(call.image)] if call.image else call.result
            result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
            line("user", {"role": "user", "content": [{**result, "is_error": True} if call.is_error else result]})
    return "5e551011-0000-4000-8000-00000000c1a0.jsonl", lines(records)


def codex(story=STORY):
    times, records = Times(), []
    thread = "01a22d28-9792-7f33-9265-66ef11526b8b"

    def line(kind, payload):
        records.append({"timestamp": times.text(), "type": kind, "payload": payload})

    item = lambda **payload: line("response_item", payload)  # noqa: E731
    line("session_meta", {"id": thread, "timestamp": "2026-08-29T10:40:00.000Z", "cwd": CWD, "originator": "codex_exec", "cli_version": "0.171.0", "source": "exec"})
    line("turn_context", {"cwd": CWD, "model": "gpt-5.4", "approval_policy": "never", "sandbox_policy": {"type": "read-only"}, "summary": "auto"})
    item(type="message", role="developer", content=[{"type": "input_text", "text": "<permissions instructions>Never.</permissions instructions>"}])
    item(type="message", role="user", content=[{"type": "input_text", "text": "<environment_context>\n  <cwd>/nowhere/project</cwd>\n</environment_context>"}])
    image = lambda data: {"type": "input_image", "image_url": url(data)}  # noqa: E731
    for turn in story:
        if isinstance(turn, User):
            content = [{"type": "input_text", "text": turn.text}] + ([image(turn.image)] if turn.image else [])
            item(type="message", role="user", content=content)
            continue
        if turn.thinking:
            item(type="reasoning", summary=[{"type": "summary_text", "text": turn.thinking}], encrypted_content="Z0FBQUFB")
        if turn.text:
            item(type="message", role="assistant", content=[{"type": "output_text", "text": turn.text}])
        for call in turn.calls:
            item(type="function_call", name=call.name, arguments=json.dumps(call.input), call_id=call.id)
        if turn.after:
            item(type="message", role="assistant", content=[{"type": "output_text", "text": turn.after}])
        for call in ended(turn):
            output = [{"type": "input_text", "text": call.result}, image(call.image)] if call.image else call.result
            item(type="function_call_output", call_id=call.id, output=output)
    return f"rollout-2026-08-29T10-40-00-{thread}.jsonl", lines(records)


def opencode(story=STORY):
    times, messages = Times(), []
    session = "ses_dd2c9747effe4N2YjGY0MTUsOt"
    count = iter(range(1, 1000))
    made = lambda kind: f"{kind}_22d368{next(count):06x}00000000000000"  # noqa: E731
    user = ""
    for turn in story:
        message, now, parts = made("msg"), times.millis(), []

        def part(**members):
            parts.append({"id": made("prt"), "sessionID": session, "messageID": message, **members})  # noqa: B023

        if isinstance(turn, User):
            user = message
            info = {"id": message, "sessionID": session, "role": "user", "time": {"created": now}, "agent": "build", "model": {"providerID": "openai", "modelID": "gpt-5.4"}}
            part(type="text", text=turn.text)
            if turn.image:
                part(type="file", mime="image/png", filename="red.png", url=url(turn.image))
        else:
            tokens = {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
            info = {
                **{"id": message, "sessionID": session, "role": "assistant", "time": {"created": now, "completed": now}, "parentID": user},
                **{"modelID": "gpt-5.4", "providerID": "openai", "mode": "build", "agent": "build", "path": {"cwd": CWD, "root": CWD}},
                **{"cost": 0, "tokens": tokens, "finish": "tool-calls" if turn.calls else "stop"},
            }
            part(type="step-start")
            time = {"start": now, "end": now}
            if turn.thinking:
                part(type="reasoning", text=turn.thinking, time=time, metadata={"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "Z0FBQUFB"}})
            if turn.text:
                part(type="text", text=turn.text, time=time)
            for call in turn.calls:
                state = {"status": "completed", "input": call.input, "output": call.result, "title": call.name, "metadata": {}, "time": time}
                if call.result is None:
                    state = {"status": "running", "input": call.input, "time": {"start": now}}
                elif call.is_error:
                    state = {"status": "error", "input": call.input, "error": call.result, "time": time}
                if call.image:
                    file = {"id": made("prt"), "sessionID": session, "messageID": message, "type": "file", "mime": "image/png", "url": url(call.image)}
                    state["attachments"] = [file]
                part(type="tool", callID=call.id, tool=call.name, state=state)
            if turn.after:
                part(type="text", text=turn.after, time=time)
            part(type="step-finish", reason=info["finish"], cost=0, tokens=tokens)
        messages.append({"info": info, "parts": parts})
    info = {"id": session, "slug": "misty-moon", "projectID": "global", "directory": CWD, "title": "Files", "version": "1.18.33"}
    document = {"info": {**info, "time": {"created": MILLIS, "updated": times.at}}, "messages": messages}
    return f"{session}.json", json.dumps(document, ensure_ascii=False)


def gemini_cli(story=STORY):
    times, session = Times(), "1a2a8944-1797-4bb4-8b32-bb4580db92ce"
    records = [{"sessionId": session, "projectHash": "ec81574c24dbb843", "startTime": times.text(), "lastUpdated": times.text(), "kind": "main"}]
    inline = lambda data: {"inlineData": {"mimeType": "image/png", "data": data}}  # noqa: E731
    context = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
    records.append({"id": "context", "timestamp": times.text(), "type": "user", "content": [{"text": context}]})
    for number, turn in enumerate(story):
        head = {"id": f"message-{number}", "timestamp": times.text()}
        if isinstance(turn, User):
            records.append({**head, "type": "user", "content": [{"text": turn.text}] + ([inline(turn.image)] if turn.image else [])})
            continue
        record = {**head, "type": "gemini", "content": turn.text, "thoughts": [], "model": "gemini-2.5-flash"}
        if turn.thinking:
            record["thoughts"] = [{"subject": "Plan", "description": turn.thinking, "timestamp": head["timestamp"]}]
        if turn.calls:
            record["toolCalls"] = [gemini_call(call, inline, head["timestamp"]) for call in turn.calls]
        if turn.after:
            calls = [{"functionCall": {"id": call.id, "name": call.name, "args": call.input}} for call in turn.calls]
            record["content"] = [{"text": turn.text}, *calls, {"text": turn.after}]
        records.append(record)
    return f"session-2026-08-29T10-40-{session[:8]}.jsonl", lines(records)


def gemini_call(call, inline, time):
    response = {"error" if call.is_error else "output": call.result}
    result = [{"functionResponse": {"id": call.id, "name": call.name, "response": response}}] + ([inline(call.image)] if call.image else [])
    status = "error" if call.is_error else "success"
    if call.result is None:
        return {"id": call.id, "name": call.name, "args": call.input, "status": "executing", "timestamp": time, "displayName": call.name}
    return {"id": call.id, "name": call.name, "args": call.input, "result": result, "status": status, "timestamp": time, "displayName": call.name}


WRITERS = {"claude-code": claude_code, "codex": codex, "opencode": opencode, "gemini-cli": gemini_cli}
SUMMARY = "Summary: it was long ago, and nothing came of it."


def compacted_claude_code():
    """The boundary with the summary behind it, as `/compact` leaves them."""
    name, text = claude_code([User("Long ago."), Answer("It was."), User("After it."), Answer("Yes, after it.")])
    first, second, third, last = text.splitlines()
    told, follows = json.loads(second), json.loads(third)
    meta = {"trigger": "manual", "preTokens": 100}
    common = {key: told[key] for key in ("isSidechain", "userType", "cwd", "sessionId", "version", "timestamp")}
    boundary = {**common, "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "uuid": "00000000-0000-4000-8000-00000000b000"}
    boundary |= {"parentUuid": None, "logicalParentUuid": told["uuid"], "compactMetadata": meta}
    summary = {**common, "type": "user", "uuid": "00000000-0000-4000-8000-00000000b001", "parentUuid": boundary["uuid"]}
    summary |= {"isCompactSummary": True, "isVisibleInTranscriptOnly": True, "message": {"role": "user", "content": SUMMARY}}
    follows["parentUuid"] = summary["uuid"]
    return name, "\n".join([first, second]) + "\n" + lines([boundary, summary, follows]) + last + "\n"


def compacted_codex():
    """A line that says what the history is from now on."""
    name, text = codex([User("Long ago."), Answer("It was."), User("After it."), Answer("Yes, after it.")])
    records = [json.loads(line) for line in text.splitlines()]
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SUMMARY}]}
    replaced = {"timestamp": records[-3]["timestamp"], "type": "compacted", "payload": {"message": SUMMARY, "replacement_history": [message]}}
    return name, lines([*records[:-2], replaced, *records[-2:]])


COMPACTED = {"claude-code": compacted_claude_code, "codex": compacted_codex}
