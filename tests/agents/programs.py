"""The real clients: each with a home of its own, the simulator (or the gateway) as its only provider, and no other network."""

import json
import os
import pathlib
import subprocess
import threading

# Names and versions are those that `run` installs.
MODULES = pathlib.Path(os.environ.get("THROUGHLINE_AGENTS", "")) / "node_modules"
SECONDS = 120


class Program:
    """A client in its own home. `model` is what it asks for."""

    name = ""
    protocol = ""
    model = ""

    def __init__(self, folder, url):
        self.home, self.cwd, self.url = folder / "home", folder / "work", url
        self.home.mkdir(parents=True)
        self.cwd.mkdir()
        self.settings()

    def settings(self):
        """Files that the client reads."""

    def environment(self):
        return {}

    def env(self):
        """Nothing of the developer's own environment reaches a client."""
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8"}
        return {**own, **self.environment()}

    def run(self, command, given=b"", seconds=SECONDS):
        """Runs a command of the client. A client that does not end is stopped: what counts is what the upstream received."""
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env(), cwd=self.cwd)
        try:
            out, err = process.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        return Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def session_of(self, done):
        """The ID of the session that the client began, as it prints it."""
        for line in [done.out, *done.out.splitlines()]:
            try:
                printed = json.loads(line)
            except ValueError:
                continue
            for key in ("session_id", "thread_id", "sessionID"):
                if key in printed:
                    return printed[key]
        raise AssertionError(f"no session was begun: {done}")

    def plan(self, session):
        """How a session of its own goes on."""
        return {"command": [*self.resumes, session]}

    def take(self, plan):
        """The command that `throughline session resume` says comes first, if it says one."""
        assert "import" not in plan, plan
        return None

    def go_on(self, plan, prompt, model=""):
        """The command that it says goes on, with what a test needs besides, and the prompt alone."""
        raise NotImplementedError


class Done:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit {self.code}\n{self.out[-3000:]}\n{self.err[-3000:]}"


class ClaudeCode(Program):
    name, protocol, model = "claude-code", "anthropic-messages", "claude-sonnet-4-5"
    resumes = ["claude", "--resume"]
    binary = MODULES / "@anthropic-ai/claude-code-linux-x64/claude"

    def environment(self):
        quiet = ("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-ant-e2e", **dict.fromkeys(quiet, "1")}

    def ask(self, prompt, *options, model=""):
        tools = ["--tools", "Read", "--allowedTools", "Read"]
        return self.run([self.binary, "-p", prompt, "--output-format", "json", "--model", model or self.model, *tools, *options])

    def go_on(self, plan, prompt, model=""):
        assert plan["command"][0] == "claude", plan
        return self.ask(prompt, *plan["command"][1:], model=model)


class Codex(Program):
    name, protocol, model = "codex", "openai-responses", "gpt-5"
    resumes = ["codex", "exec", "resume"]
    binary = MODULES / ".bin/codex"

    def settings(self):
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f"""model = "{self.model}"
model_provider = "e2e"
check_for_update_on_startup = false
tool_output_token_limit = 100000
model_reasoning_effort = "high"
model_reasoning_summary = "auto"
model_supports_reasoning_summaries = true
[analytics]
enabled = false
[model_providers.e2e]
name = "E2E"
base_url = "{self.url}/v1"
env_key = "E2E_CODEX_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
        )

    def environment(self):
        return {"E2E_CODEX_KEY": "sk-codex-e2e"}

    def command(self, *words, model=""):
        chosen = ["-m", model] if model else []
        return [self.binary, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *chosen, *words]

    def ask(self, prompt, model=""):
        return self.run(self.command(prompt, model=model))

    def go_on(self, plan, prompt, model=""):
        assert plan["command"][:3] == ["codex", "exec", "resume"], plan
        return self.run(self.command("resume", *plan["command"][3:], prompt, model=model))

    def app_server(self, method, items, *prompts):
        """Goes on with a list of items, given to the server in one of the two ways that it knows; then one prompt after the other."""
        process = subprocess.Popen([self.binary, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env(), cwd=self.cwd, text=True)
        watch = threading.Timer(SECONDS, process.kill)
        watch.start()
        seen = []

        def tell(message):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

        def wait(is_it):
            for line in process.stdout:
                seen.append(line)
                message = json.loads(line)
                if is_it(message):
                    return message
            raise AssertionError("the app server ended:\n" + "".join(seen)[-3000:])

        def ask(number, method, **params):
            tell({"id": number, "method": method, "params": params})
            answer = wait(lambda message: message.get("id") == number)
            assert "result" in answer, answer
            return answer["result"]

        try:
            ask(1, "initialize", clientInfo={"name": "e2e", "version": "1"}, capabilities={"experimentalApi": True})
            tell({"method": "initialized"})
            if method == "thread/resume":
                thread = ask(2, method, threadId="00000000-0000-7000-8000-000000000000", history=items)["thread"]["id"]
            else:
                thread = ask(2, "thread/start")["thread"]["id"]
                ask(3, method, threadId=thread, items=items)
            for number, prompt in enumerate(prompts, 4):
                ask(number, "turn/start", threadId=thread, input=[{"type": "text", "text": prompt}])
                wait(lambda message: message.get("method") == "turn/completed")
        finally:
            watch.cancel()
            process.kill()
            process.wait()
        return Done(0, "".join(seen), "")


class OpenCode(Program):
    name, protocol, model = "opencode", "anthropic-messages", "e2e/claude-sonnet-4-5"
    binary = MODULES / "opencode-linux-x64/bin/opencode"

    def settings(self):
        images = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
        model = {"name": "E2E", "limit": {"context": 200000, "output": 8000}, "tool_call": True, "reasoning": True, **images}
        options = {"baseURL": self.url + "/v1", "apiKey": "sk-e2e"}
        models = {"claude-sonnet-4-5": model, "sim-think-tools": model, "sim-tools": model}
        provider = {"npm": "@ai-sdk/anthropic", "name": "E2E", "options": options, "models": models}
        config = {
            **{"$schema": "https://opencode.ai/config.json", "autoupdate": False, "share": "disabled"},
            **{"model": self.model, "small_model": self.model, "enabled_providers": ["e2e"], "permission": {"bash": "allow", "edit": "allow"}},
            "provider": {"e2e": provider},
        }
        (self.cwd / "opencode.json").write_text(json.dumps(config))

    def environment(self):
        return dict.fromkeys(
            ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_DEFAULT_PLUGINS"), "1"
        )

    resumes = ["opencode", "run", "--session"]

    def take(self, plan):
        assert plan["import"][:2] == ["opencode", "import"], plan
        return self.run([self.binary, *plan["import"][1:]])

    def go_on(self, plan, prompt, model=""):
        assert plan["command"][:2] == ["opencode", "run"], plan
        return self.ask(*plan["command"][2:], prompt, model=model)

    def ask(self, *words, model="", given=""):
        return self.run([self.binary, "run", "--format", "json", "-m", model or self.model, *words], given.encode())

    def ask_in_writing(self, prompt):
        """Puts a prompt as it is, which the command line would put into quotes."""
        return self.ask(given=prompt)


class GeminiCli(Program):
    name, protocol, model = "gemini-cli", "gemini-generate-content", "gemini-2.5-flash"
    resumes = ["gemini", "--resume"]
    binary = MODULES / "@google/gemini-cli/bundle/gemini.js"

    def settings(self):
        folder = self.home / ".gemini"
        folder.mkdir()
        quiet = {"telemetry": {"enabled": False}, "privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "ide": {"enabled": False}, **quiet}
        (folder / "settings.json").write_text(json.dumps(settings))

    def environment(self):
        return {"GEMINI_API_KEY": "AIzaE2E", "GOOGLE_GEMINI_BASE_URL": self.url}

    def go_on(self, plan, prompt, model=""):
        assert plan["command"][0] == "gemini", plan
        return self.ask(prompt, *plan["command"][1:], model=model)

    def ask(self, prompt, *options, model=""):
        known = ["--skip-trust", "--yolo", "-m", model or self.model, "--output-format", "json"]
        return self.run(["node", self.binary, *known, *options, "-p", prompt], seconds=60)


PROGRAMS = {program.name: program for program in (ClaudeCode, Codex, OpenCode, GeminiCli)}

