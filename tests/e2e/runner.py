"""Runs the end-to-end tests and prints how long each took. Usage: see `run`."""

import argparse
import pathlib
import signal
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402


class TimedResult(unittest.TextTestResult):
    """One line per test, with its time."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.stream.writeln(f"ok ({time.monotonic() - self.began:.1f} s)")
        self.stream.flush()

    def getDescription(self, test):
        return test.id()


def main():
    parser = argparse.ArgumentParser(prog="tests/e2e/run", description="End-to-end tests.")
    parser.add_argument("files", nargs="*", help="test files, with or without .py; default: all")
    parser.add_argument("-k", action="append", metavar="WORD", help="only tests whose name contains the word")
    parser.add_argument("-f", "--failfast", action="store_true", help="stop at the first failure")
    parser.add_argument("--keep", action="store_true", help="leave data directories and logs behind")
    parser.add_argument("--in", dest="folder", type=pathlib.Path, default=HERE, help="folder of the tests")
    args = parser.parse_args()
    sys.path.insert(0, str(args.folder.resolve()))
    harness.KEEP_FOLDERS = args.keep
    loader = unittest.TestLoader()
    if args.k:
        loader.testNamePatterns = [f"*{word}*" for word in args.k]
    names = [pathlib.Path(name).stem for name in args.files] or sorted(path.stem for path in args.folder.glob("test_*.py"))
    suite = unittest.TestSuite(loader.loadTestsFromName(name) for name in names)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    runner = unittest.TextTestRunner(verbosity=2, failfast=args.failfast, resultclass=TimedResult)
    try:
        result = runner.run(suite)
    finally:
        harness.stop_all()
    bad = len({getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors})
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped in {time.monotonic() - began:.0f} s")
    if result.testsRun == 0:
        print("no test has such a name", file=sys.stderr)
        return 2
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
