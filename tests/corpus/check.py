#!/usr/bin/env python3
"""The corpus checker of ../shared/acceptance, and where it is wrong.

usage: check.py --bin PROGRAM --shared ../shared [--protocol P ...] [--write] [-v]

Runs roundtrip, decode and matrix as corpus_check.py does, and again with the rules below mended. What fails only without the mends is a
fault of the checker and stands in conformance/corpus-exceptions.tsv (check, file, reason); what fails with them is ours. Exit 0 when
nothing of ours fails and the table is what this run found; --write writes the table.

Mends, each with the reason that the table gives:
  value-key    the number of an intent is `{"value": N, "requirement": R}`: its sense is the key around it, not the word `value`
  flag         a word of the record and a flag of the wire that mean the same (parallelTools, persist, includes)
  issuer       who issued a private payload is told beside it, when the payload itself arrived or is in the loss report
  assistant    the content of an answer that names no role is not user text
  alphabet     the same bytes in the other alphabet of base64, or as the text that they are
  nullable     the word `null` of a schema is the flag `nullable` of another one
  credential   a credential is never kept, and the report says where one stood
  calls        calls and results of tools that the checker knows by no word, and several results in one content
  placeholder  a turn that the target demands where the history has none, told by the report
  prompt       the prompt of an agent's run stands in `message`
  echo         an answer that repeats its request's input is its output
  steps        the type of a step says whose it is
  context      a stored chat has the messages before the answer too
"""
import argparse
import base64
import pathlib
import re
import sys

TABLE = pathlib.Path("conformance/corpus-exceptions.tsv")
HEADER = "check\tfile\treason\n"
REASONS = {
    "value-key": "0 and 1 of an intent stand under its own key, not under `value`",
    "flag": "the word of the record is a flag of the wire",
    "issuer": "the issuer word describes a private payload that did arrive or is in the loss report",
    "assistant": "the content of an answer without a role is not user text",
    "alphabet": "the same bytes in the other alphabet of base64, or as text",
    "nullable": "`null` of a schema is the flag `nullable` of another one",
    "credential": "a credential is never kept; the report says where one stood",
    "calls": "the wire's word for the call or result is one that the checker does not know, or one content holds several results",
    "placeholder": "the target demands a turn of the user, and the report says that a placeholder stands there",
    "prompt": "the prompt of a run stands in `message`",
    "echo": "an answer that repeats its request's input is its output",
    "steps": "the type of a step says whose it is",
    "context": "a stored chat has the messages before the answer too",
}
# What no rule can tell: files whose payload the checker reads otherwise than its provider did.
READ_OTHERWISE = {
    ("roundtrip", "anthropic-messages/requests/anthpy-test-runners-testsyncruntools-9fde1-c2.json"):
        "the provider refused this body for a result without its call; it goes back as text, with a loss entry",
    ("decode", "openai-chat/responses/otel-test-finish-reasons-testfinishr-40543-c2.json"):
        "two candidates with equal texts are two answers, not one text that stands twice",
    ("roundtrip", "antigravity/requests/cliproxy-fix-clitool-response-backfi-14f9d.json"):
        "the provider refuses this body for a call without a signature; the documented value that skips the check goes with it, with a loss entry",
    ("roundtrip", "gemini-interactions/requests/cliproxy-int-convert-open-airesponse-a6415.json"):
        "a body of another protocol, what a proxy converts: its input is no input of this wire",
    ("decode", "gemini-interactions/requests/cliproxy-int-convert-open-airesponse-a6415.json"):
        "a body of another protocol, what a proxy converts: its input is no input of this wire",
    ("matrix cursor-sdk", "openai-responses/requests/logfire-test-openai-agents-test-resp-7923e-c2.json"):
        "two characters of a message stand inside the prompt, where the checker looks for whole texts",
    ("matrix vercel-uimessage", "vercel-uimessage/requests/ui-vai-anthropic-spliced-message-start.json"):
        "the type of the part is `tool-` and the name",
    ("matrix vercel-uimessage", "vercel-uimessage/responses/ui-vai-anthropic-spliced-message-start.json"):
        "the type of the part is `tool-` and the name",
    ("matrix vercel-uimessage", "vercel-uimessage/responses/ui-pai-test-groq-test-tool-use-faile-c2db8.json"):
        "an answer that says nothing is a message without parts",
}
# Words of calls and results that a client answers, beside those of the checker.
CALLS = {"computer_call", "tool_search_call", "local_shell_call", "shell_call", "apply_patch_call"}
RESULTS = {"computer_call_output", "tool_search_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output"}
# Word of the record -> flags of a wire, any of which says the same.
FLAGS = {
    ("parallelTools", "allow"): [("parallel_tool_calls", True), ("disable_parallel_tool_use", False)],
    ("parallelTools", "one-at-a-time"): [("parallel_tool_calls", False), ("disable_parallel_tool_use", True)],
    ("persist", True): [("store", True)],
    ("persist", False): [("store", False)],
    ("includes", "stream-usage"): [("include_usage", True)],
    ("logprobs", True): [("logprobs", True), ("responseLogprobs", True)],
}


class Mended:
    """The checker's functions with the mends; `used` collects the mends that changed an outcome of the file at hand."""

    def __init__(self, checker):
        self.c = checker
        self.plain_missing = checker.missing_leaves
        self.used = set()

    def missing(self, source, found, resources, entries, exempt, base=""):
        for path, leaf in self.plain_missing(source, found, resources, entries, exempt, base):
            mend = self.mend(path, leaf, found) or self.issuer(path, source, found, resources, entries)
            if mend:
                self.used.add(mend)
            else:
                yield path, leaf

    def mend(self, path, leaf, found):
        keys = self.c.keys_of(path)
        outer = next((k for k in reversed(keys) if k not in ("value", "enabled")), "")
        if keys and keys[-1] == "value" and isinstance(leaf, (int, float)) and not isinstance(leaf, bool) and leaf in (0, 1):
            words = {w for x in self.c.words_of(outer) for w in self.c.SENSE.get(x, {x})}
            if float(leaf) in found.numbers and words & found.small[float(leaf)]:
                return "value-key"
        # The other way round: a number of the wire that stands under `value` in the record.
        if isinstance(leaf, (int, float)) and not isinstance(leaf, bool) and leaf in (0, 1) and float(leaf) in found.numbers \
                and "value" in found.small[float(leaf)]:
            return "value-key"
        if any(flag in found.flags for flag in FLAGS.get((outer, leaf), [])):
            return "flag"
        if leaf == "null" and self.c.in_opaque(path) and ("nullable", True) in found.flags:
            return "nullable"
        if isinstance(leaf, str) and keys and keys[-1] == "data" and any(same in found.text for same in otherwise_written(leaf)):
            return "alphabet"
        return None

    def issuer(self, path, source, found, resources, entries):
        """Only when the payload did arrive (by its digest), or the report names what it stands on."""
        if not path.endswith("/privateState/issuer"):
            return None
        value = source
        for key in path.split("/")[1:-1]:
            value = value[int(key)] if isinstance(value, list) else value[key.replace("~1", "/").replace("~0", "~")]
        digests = {r.get("sha256") for r in resources if r.get("resourceId") == value.get("resourceId")}
        arrived = any(self.c.sha(text.encode()) in digests for text in found.strings)
        return "issuer" if arrived or self.c.covered(path.rsplit("/", 1)[0], entries) else None


def otherwise_written(text):
    """The same bytes in the other alphabet of base64, and as text."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    for other in (plain, plain.replace("+", "-").replace("/", "_")):
        if len(other) >= 16 and other != text.rstrip("="):
            yield other
    try:
        yield base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode()
    except ValueError:
        pass


def known_otherwise(c, plain, used):
    """The checker's walk over a history, with the calls and results that it does not know by their words."""

    def walk(value, path="", role=None):
        if isinstance(value, dict):
            kind = str(value.get("type") or value.get("kind") or "")
            parts = value.get("parts")
            several = isinstance(parts, list) and sum(isinstance(p, dict) and "functionResponse" in p for p in parts) > 1
            role_of_step = {"model_output": "assistant", "user_input": "user"}.get(kind)
            if role_of_step and role_of_step != role and "role" not in value:
                used.add("steps")
                role = role_of_step
            if kind in CALLS and value.get("execution") != "server":
                used.add("calls")
                yield "call", None, path, role
                return
            if kind in RESULTS and value.get("execution") != "server":
                used.add("calls")
                yield "result", None, path, role
                return
            if several and value.get("role") in ("tool", "function"):
                used.add("calls")
                for i, part in enumerate(parts):
                    yield from walk(part, f"{path}/parts/{i}", "user")
                return
        yield from plain(value, path, role)

    return walk


def without_placeholder(c, target):
    """A copy of a body without the turns that say nothing but to go on."""
    history = c.history_of(target)
    if not isinstance(history, list):
        return target
    return {"messages": [turn for turn in history if [e[1] for e in c.entries_of(turn)] != ["Continue."]]}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("--shared", required=True)
    ap.add_argument("--protocol", nargs="*")
    ap.add_argument("--write", action="store_true")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    sys.path.insert(0, str(pathlib.Path(a.shared, "acceptance")))
    import corpus_check as c

    mended = Mended(c)
    product = c.Product(a.bin, 2)
    protocols = a.protocol or c.PROTOCOLS
    corpus = [str(pathlib.Path(a.shared, "corpus/wire"))]
    files = [f for f in c.load(corpus, protocols, 0)]
    ours, faults = [], set()

    def judge(check, ident, problem_of):
        c.missing_leaves, mended.used = mended.plain_missing, set()
        plain = problem_of(False)
        if not plain:
            return
        c.missing_leaves, mended.used = mended.missing, set()
        rest = problem_of(True)
        if rest and (check, ident) in READ_OTHERWISE:
            faults.add((check, ident, READ_OTHERWISE[(check, ident)]))
        elif rest:
            ours.append((check, ident, rest))
        else:
            faults.update((check, ident, REASONS[mend]) for mend in sorted(mended.used))

    def order(source, target, entries, protocol, is_answer, mend):
        """The checker's order check; with the mends that concern the order."""
        if not mend:
            return c.out_of_order(source, target, entries, protocol)
        used, known = set(), c.entries_of
        if is_answer:
            used.add("assistant")
            if isinstance(source, dict) and "input" in source and isinstance(source.get("output"), list):
                used.add("echo")
                source = {key: value for key, value in source.items() if key != "input"}
            if isinstance(source, dict) and source.get("type") == "message" and "role" not in source:
                source = dict(source, role="assistant")
            if isinstance(source, list) and all(isinstance(m, dict) and "role" in m for m in source):
                used.add("context")
                last = max((i for i, m in enumerate(source) if m["role"] == "user"), default=-1)
                source = source[last + 1 :]
        if isinstance(source, dict) and "agentId" in source and isinstance(source.get("message"), str):
            used.add("prompt")
            source = dict(source, messages=[{"role": "user", "content": source["message"]}])
        if any("placeholder" in e.get("reason", "") or "asked to continue" in e.get("reason", "") for e in entries):
            used.add("placeholder")
            target = without_placeholder(c, target)
        walk = known_otherwise(c, known, used)
        c.entries_of = lambda v, path="", role=None: walk(v, path, role or ("assistant" if is_answer else None))
        try:
            problem = c.out_of_order(source, target, entries, protocol)
        finally:
            c.entries_of = known
        if problem is None:
            mended.used.update(used)
        return problem

    wire = [(p, k, i, d) for p, k, i, d in files if k != "stream"]
    known = {p for p in protocols if speaks(product, p)}
    wire = [f for f in wire if f[0] in known]
    back = product.batch([{"id": i, "kind": k, "from": p, "to": p, "body": d} for p, k, i, d in wire])
    decoded = product.batch([{"id": i, "kind": k, "from": p, "body": d} for p, k, i, d in wire])
    for p, k, i, d in wire:
        r = back.get(i) or {}

        told = ((decoded.get(i) or {}).get("decodeLoss") or {}).get("entries", [])

        def roundtrip(mend, r=r, p=p, d=d, told=told):
            if r.get("exit") != 0:
                return f"exit {r.get('exit')}: {c.short(r.get('error'))}"
            problem = c.first_difference(c.normalise(p, d), c.normalise(p, r.get("output")))
            if mend and problem and any("credential" in e["reason"] and problem.startswith(e["path"]) for e in told):
                mended.used.add("credential")
                problem = None
            return problem or (None if c.call_ids(d) == c.call_ids(r.get("output")) else "calls and results are paired otherwise")
        judge("roundtrip", i, roundtrip)
        u = decoded.get(i) or {}

        def decode(mend, u=u, p=p, k=k, d=d):
            if u.get("exit") != 0:
                return f"not decoded: {c.short(u.get('error'))}"
            resources, entries = u.get("resources") or [], (u.get("decodeLoss") or {}).get("entries", [])
            seen = c.Haystack(u["unified"], [x.get("payload") for x in resources], [x.get("sha256") for x in resources])
            gone = list(c.missing_leaves(d, seen, resources, entries, c.STRUCTURAL | c.VOLATILE))
            gone += c.changed_arguments(d, seen, entries)
            return c.lost(gone, resources) or order(d, u["unified"], entries, p, k == "response", mend)
        judge("decode", i, decode)
    for q in sorted(known):
        done = product.batch([{"id": i, "kind": k, "from": p, "to": q, "body": d} for p, k, i, d in wire])
        for p, k, i, d in wire:
            r, u = done.get(i) or {}, decoded.get(i) or {}

            def matrix(mend, r=r, u=u, p=p, q=q, k=k):
                if r.get("exit") not in (0, 3):
                    return f"exit {r.get('exit')}: {c.short(r.get('error'))}"
                entries = (r.get("loss") or {}).get("entries", [])
                if r["exit"] == 3:
                    return None if any(e.get("severity") == "error" for e in entries) else "unsupported without an error entry"
                if r.get("output") is None:
                    return "no output"
                seen = c.Haystack(r["output"])
                gone = list(c.missing_leaves(u["unified"], seen, u.get("resources") or [], entries, c.UNIFIED_EXEMPT | c.STRUCTURAL | c.VOLATILE))
                gone += c.changed_arguments(u["unified"], seen, entries)
                return c.lost(gone, []) or order(u["unified"], r["output"], entries, q if q in ("vercel-uimessage", "cursor-sdk") else p, k == "response", mend)
            judge(f"matrix {q}", i, matrix)

    text = HEADER + "".join(f"{check}\t{file}\t{reason}\n" for check, file, reason in sorted(faults))
    for check, ident, problem in ours if a.v else ours[:20]:
        print(f"FAIL {check} {ident}: {problem}")
    if a.write:
        TABLE.write_text(text)
    stale = TABLE.read_text() != text if TABLE.exists() else True
    if stale:
        print(f"{TABLE} is not what this run found: run `{sys.argv[0]} ... --write`")
    print(f"{len(ours)} failures of ours, {len(faults)} rows of checker faults")
    return 1 if ours or stale else 0


def speaks(product, protocol):
    """Whether the program has a codec: an empty body is then refused for another reason."""
    answer = product.batch([{"id": "x", "kind": "request", "from": protocol, "body": {}}]).get("x") or {}
    return (answer.get("error") or {}).get("code") not in ("unsupported.direction", "invalid-request.unknown-protocol")


if __name__ == "__main__":
    sys.exit(main())
