"""The processes under test: the simulator (one for all tests) and a gateway with its own data directory for each test."""

import hashlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import wire
from journal import Journal
from tap import Tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIMULATOR = ROOT.parent / "shared" / "acceptance" / "provider_sim.py"
BINARY = os.environ.get("THROUGHLINE_BIN", "")
READY_SECONDS = 20
KEEP_FOLDERS = False
_shared = {}
_started = []  # every process of this run

# Credentials of the upstream accounts. New ones for each run, so that a leak cannot hide behind an old file.
KEYS = {
    "E2E_CHAT_KEY": "sk-chat-" + secrets.token_hex(24),
    "E2E_DIALECT_KEY": "sk-dialect-" + secrets.token_hex(24),
    "E2E_ANTHROPIC_KEY": "sk-ant-" + secrets.token_hex(24),
    "E2E_GEMINI_KEY": "AIza" + secrets.token_hex(18),
    "E2E_GOOGLE_TOKEN": "ya29." + secrets.token_hex(24),
}
# What a client sends although the gateway asks for nothing: an SDK cannot do without a key.
CLIENT_KEY = "sk-client-" + secrets.token_hex(24)


def key_hash(key):
    """The simulator's name for a key in its log."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def configuration(chat_url, anthropic_url, attempts=1, auth=False, dialect="deepseek", extra=""):
    """A throughline.toml with three accounts: OpenAI chat, a compatible server of a dialect, Anthropic.

    The model name decides who is asked, and goes on as it is: `claude-sim-think` reaches Anthropic, and `sim-think` in it
    tells the simulator what to do.
    """
    retry = f'retry = {{ attempts = {attempts}, max_wait = "5s" }}'
    return f"""
[auth]
required = {str(auth).lower()}

[providers.chat]
kind = "openai"
api = "chat"
base_url = "{chat_url}/v1"
api_key_env = "E2E_CHAT_KEY"
{retry}

[providers.dialect]
kind = "openai-compatible"
dialect = "{dialect}"
base_url = "{chat_url}/v1"
api_key_env = "E2E_DIALECT_KEY"
{retry}

[providers.anthropic]
kind = "anthropic"
base_url = "{anthropic_url}"
api_key_env = "E2E_ANTHROPIC_KEY"
{retry}

[[routes]]
match = "gpt-sim-*"
provider = "chat"

[[routes]]
match = "dialect-sim-*"
provider = "dialect"

[[routes]]
match = "claude-sim-*"
provider = "anthropic"

[[routes]]
match = "house-model"
provider = "anthropic"
model = "claude-sim-text"
{extra}"""


def google_accounts(url):
    """More of a throughline.toml: an account of each kind of the Gemini family, and OpenAI's Responses, each with a route."""
    accounts = {
        "gemini": 'kind = "gemini"\napi_key_env = "E2E_GEMINI_KEY"',
        "older": 'kind = "gemini"\napi = "v1"\napi_key_env = "E2E_GEMINI_KEY"',
        "vertex": 'kind = "vertex"\nproject = "e2e-project"\nlocation = "global"\naccess_token_env = "E2E_GOOGLE_TOKEN"',
        "antigravity": 'kind = "antigravity"\nproject = "e2e-project"\naccess_token_env = "E2E_GOOGLE_TOKEN"',
        "interactions": 'kind = "interactions"\napi_key_env = "E2E_GEMINI_KEY"',
        "responses": 'kind = "openai"\nbase_url = "{url}/v1"\napi_key_env = "E2E_CHAT_KEY"',
    }
    text = ""
    for name, account in accounts.items():
        base = "" if "base_url" in account else f'\nbase_url = "{url}"'
        text += f'\n[providers.{name}]\n{account.replace("{url}", url)}{base}\nretry = {{ attempts = 1 }}\n'
        text += f'\n[[routes]]\nmatch = "{name}-*"\nprovider = "{name}"\n'
    return text


def wait_for(question, seconds=READY_SECONDS, what="it"):
    """The first true answer to the question."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


class Simulator:
    """The running simulator. Strict, it refuses what a careful client would not send; else only what the provider refuses."""

    def __init__(self, folder, strict=True):
        ready = folder / "simulator.json"
        self._output = open(folder / "simulator.log", "wb")
        command = [sys.executable, str(SIMULATOR), "--ready-file", str(ready), "--log", str(folder / "simulator.jsonl")]
        if strict:
            command.append("--strict")
        self.process = started(subprocess.Popen(command, stdout=self._output, stderr=self._output))
        wait_for(lambda: ready.exists() or self.process.poll() is not None, what="the start of the simulator")
        info = json.loads(ready.read_text())
        self.url, self.host, self.port = info["url"], info["host"], info["port"]

    def log(self, after=0):
        """Log entries after a number, in the order in which the requests ended."""
        return wire.request(self.url, "GET", f"/_sim/log?after={after}").json()["entries"]

    def mark(self):
        """Number of the last entry."""
        return wire.request(self.url, "GET", "/_sim/health").json()["requests"]

    def reset(self):
        """Forgets prompt caches and queued answers; signatures stay valid."""
        wire.request(self.url, "POST", "/_sim/reset")

    def answer_next(self, protocol, body=None, sse=None):
        """The next request of this protocol gets the given answer: a body, or for one that streams the text of its events."""
        given = {"body": body} if sse is None else {"sse": sse}
        wire.request(self.url, "POST", "/_sim/answer", {"protocol": protocol, **given})

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self._output.close()


def simulator(strict=True):
    """The one simulator of this run, strict or not."""
    if strict not in _shared:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="throughline-e2e-sim-"))
        _shared[strict] = (folder, Simulator(folder, strict))
    return _shared[strict][1]


def started(process):
    _started.append(process)
    return process


def stop_all():
    """The end of the run, however it came: nothing is left behind."""
    for folder, running in _shared.values():
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)
    _shared.clear()
    for process in _started:
        if process.poll() is None:
            process.kill()


def environment(folder, **more):
    """Nothing of the developer's own environment reaches the gateway."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_COLOR": "1", **KEYS, **more}


class Gateway:
    """A `throughline serve` process; start it again on the same data directory as often as you like."""

    def __init__(self, folder, config=None, options=(), env=None):
        self.folder, self.data_dir, self.options = folder, folder / "data", list(options)
        self.env = environment(folder, **(env or {}))
        self.starts = 0
        self.process = self.url = None
        if config is not None:
            self.write_config(config)

    def write_config(self, text):
        (self.folder / "throughline.toml").write_text(text)

    def command(self):
        config = self.folder / "throughline.toml"
        named = ["--config", str(config)] if config.exists() else []
        return [BINARY, "serve", *named, "--data-dir", str(self.data_dir), "--listen", "127.0.0.1:0", *self.options]

    def start(self):
        self.starts += 1
        ready = self.folder / f"ready-{self.starts}.json"
        with open(self.stdout_path(), "wb") as out, open(self.stderr_path(), "wb") as err:
            command = [*self.command(), "--ready-file", str(ready)]
            self.process = started(subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=self.env, cwd=self.folder))
        wait_for(lambda: ready.exists() or self.process.poll() is not None, what="the start of the gateway")
        if not ready.exists():
            raise AssertionError(f"the gateway did not start (exit {self.process.returncode}):\n{self.stderr_path().read_text()}")
        self.ready = json.loads(ready.read_text())
        self.url = self.ready["url"]
        return self

    def stdout_path(self):
        return self.folder / f"stdout-{self.starts}.log"

    def stderr_path(self):
        return self.folder / f"stderr-{self.starts}.log"

    def kill(self):
        """kill -9"""
        self.process.kill()
        self.process.wait(10)

    def stop(self):
        """SIGTERM; gives the exit code."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("the gateway did not stop within 30 s of SIGTERM") from None
        return self.process and self.process.returncode

    def log_tail(self, lines=25):
        path = self.stderr_path()
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def journal(self):
        return Journal(self.data_dir)

    # raw requests

    def get(self, path, **headers):
        return wire.request(self.url, "GET", path, headers=dashed(headers))

    def post(self, path, body=None, **headers):
        return wire.request(self.url, "POST", path, body, headers=dashed(headers))

    def chat(self, model, messages, stream=False, headers=None, **fields):
        """POST /v1/chat/completions: the whole answer, or the open stream."""
        body = {"model": model, "messages": messages, "stream": stream, **fields}
        call = wire.Stream if stream else wire.request
        return call(self.url, "POST", "/v1/chat/completions", body, headers=headers)

    def messages(self, model, messages, stream=False, headers=None, **fields):
        """POST /v1/messages: the whole answer, or the open stream."""
        body = {"model": model, "max_tokens": 4000, "messages": messages, "stream": stream, **fields}
        call = wire.Stream if stream else wire.request
        return call(self.url, "POST", "/v1/messages", body, headers={"anthropic-version": "2023-06-01", **(headers or {})})

    def ask(self, protocol, model, messages, stream=False, headers=None, **fields):
        """`chat` or `messages` by the name of the client protocol."""
        call = {"openai-chat": self.chat, "anthropic-messages": self.messages}[protocol]
        return call(model, messages, stream, headers, **fields)

    def events(self, operation_id, query="", headers=None):
        """The open event stream of an operation."""
        return wire.Stream(self.url, "GET", f"/unified/v2/operations/{operation_id}/events{query}", headers=headers)

    def cancel(self, operation_id, body=None, headers=None):
        return wire.request(self.url, "POST", f"/unified/v2/operations/{operation_id}/cancel", body, headers=headers)


def dashed(headers):
    return {name.replace("_", "-"): value for name, value in headers.items()}


class GatewayTest(unittest.TestCase):
    """A test with the shared simulator, a fresh data directory and a gateway of its own. A failure shows the gateway's log."""

    config_options = {}
    gateway_env = {}
    with_taps = False
    with_google = False
    maxDiff = 4000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"throughline-e2e-{self._testMethodName[:40]}-"))
        self.addCleanup(self.leave)
        self.sim = simulator()
        self.sim.reset()
        self.log_start = self.sim.mark()
        chat = anthropic = self.sim.url
        if self.with_taps:
            self.chat_tap, self.anthropic_tap = self.tap(self.sim.host, self.sim.port), self.tap(self.sim.host, self.sim.port)
            chat, anthropic = self.chat_tap.url, self.anthropic_tap.url
        config = configuration(chat, anthropic, **self.config_options)
        if self.with_google:
            config += google_accounts(self.sim.url)
        self.gateway = Gateway(self.folder, config, env=self.gateway_env)
        self.addCleanup(self.gateway.stop)
        self.prepare()
        self.gateway.start()
        if self.with_taps:
            self.client_tap = self.tap(self.gateway.ready["host"], self.gateway.ready["port"])

    def prepare(self):
        """What has to happen in the data directory before the gateway starts."""

    def tap(self, host, port):
        tap = Tap(host, port)
        self.addCleanup(tap.close)
        return tap

    def leave(self):
        if KEEP_FOLDERS:
            print(f"\n    {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _callTestMethod(self, method):
        try:
            method()
        except unittest.SkipTest:
            raise
        except BaseException as error:
            error.add_note("the gateway's log ends with:\n" + self.gateway.log_tail())
            raise

    # what the upstream saw

    def upstream_log(self, count=None):
        """The simulator's entries of this test; waits for `count` of them."""
        if count is not None:
            wait_for(lambda: self.sim.mark() - self.log_start >= count, 10, f"request {count} at the upstream")
        entries = self.sim.log(self.log_start)
        self.assertEqual([], [e["simulator_fault"] for e in entries if "simulator_fault" in e])
        return entries

    def assert_accepted(self, entries):
        """Nothing that a careful client would not send, and nothing refused."""
        wrong = [(e["n"], e["protocol"], e.get("violations"), e.get("error")) for e in entries if e.get("violations") or e["verdict"] != "accepted"]
        self.assertEqual([], wrong, "the upstream found fault with what the gateway sent")

    # what the client saw

    def assert_events_whole(self, frames, first=1):
        """Unified events: dense from `first` on, each frame in the contract's form, the last one the end of the stream."""
        self.assertTrue(frames, "no events at all")
        events = [frame.json() for frame in frames]
        self.assertEqual(list(range(first, first + len(events))), [e["sequence"] for e in events], "sequences must be dense")
        for frame, event in zip(frames, events, strict=True):
            self.assertEqual(["id", "event", "data"], [line.split(":")[0] for line in frame.lines])
            self.assertEqual(event["kind"], frame.event)
            self.assertEqual("2.0", event["schemaVersion"])
            self.assertEqual(json.dumps(event, ensure_ascii=False, separators=(",", ":")), frame.data, "data must be compact JSON")
        self.assertEqual("stream.completed", events[-1]["kind"])
        return events


def texts_in(record):
    """Every text part anywhere in a record, joined."""
    if isinstance(record, dict):
        own = record["text"] if record.get("kind") == "text" and isinstance(record.get("text"), str) else ""
        return own + "".join(texts_in(value) for value in record.values())
    return "".join(texts_in(value) for value in record) if isinstance(record, list) else ""


def text_of(events):
    """The text that the events add up to."""
    return "".join(e["text"] for e in events if e["kind"] == "text.delta")
