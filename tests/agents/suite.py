"""What the tests of this folder share: a client in its home, the simulator, and what `throughline session` does in between."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import received
from programs import PROGRAMS

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402

# Every pair of runtimes, where the short selection has one for each target.
ALL = os.environ.get("THROUGHLINE_AGENTS_ALL") == "true"


class AgentTest(unittest.TestCase):
    """A test with the simulator, which refuses what the provider would refuse, and a folder of its own."""

    maxDiff = 6000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="throughline-agents-"))
        self.addCleanup(self.leave)
        self.sim = harness.simulator(strict=False)

    def leave(self):
        if harness.KEEP_FOLDERS:
            print(f"\n    {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name, url=None, place=None):
        """A client in a home of its own."""
        return PROGRAMS[name](self.folder / (place or name), url or self.sim.url)

    def throughline(self, program, *words):
        """A command of Throughline in the home of a client, which gives JSON."""
        done = subprocess.run([harness.BINARY, *words], env=program.env(), cwd=program.cwd, capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def source(self, name, writer):
        """A session of another runtime as a file."""
        path = self.folder / "source" / name
        path.mkdir(parents=True)
        file, text = writer()
        (path / file).write_text(text)
        return path / file

    def requests(self, program, after, prompt):
        """What the upstream received since then that asks for the answer to this prompt, tools and all."""
        found = [entry for entry in self.sim.log(after) if entry["protocol"] == program.protocol and asks(entry, prompt)]
        if harness.KEEP_FOLDERS and found:
            (self.folder / f"request-{found[-1]['n']}.json").write_text(json.dumps(found[-1]["body"], indent=1, ensure_ascii=False))
        for entry in found:
            self.assertNotIn("simulator_fault", entry)
            self.assertEqual(("accepted", None), (entry["verdict"], entry.get("error")))
        return found

    def heard(self, program, act, prompt):
        """The events of the last request that came while the client did something."""
        after = self.sim.mark()
        done = act()
        found = self.requests(program, after, prompt)
        self.assertTrue(found, f"the client sent nothing: {done}")
        return received.events(found[-1])

    def go_on(self, program, plan, prompt, **options):
        """What the upstream hears when the client goes on."""
        return self.heard(program, lambda: program.go_on(plan, prompt, **options), prompt)

    def resume(self, program, *words):
        """Writes a session where the client looks for it."""
        plan = self.throughline(program, "session", "resume", *words, "--to", program.name, "--cwd", str(program.cwd))
        done = program.take(plan)
        self.assertTrue(done is None or done.code == 0, f"the client refuses the session: {done}")
        return plan


def asks(entry, prompt):
    """Whether a request offers tools and holds the prompt: titles and the like are asked for without."""
    return bool(entry["body"].get("tools")) and json.dumps(prompt)[1:-1] in json.dumps(entry["body"])


def quoted(program, prompt):
    """The prompt as the client sends it."""
    return f'"{prompt}"' if program.name == "opencode" else prompt
