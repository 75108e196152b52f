"""`python3 -m tests.runner COMMAND`: what the Makefile calls, after packaging/bootstrap found an interpreter.

    test [PYTEST ARGUMENTS]   every layer and a summary; with arguments one selection
    check                     lint and types alone
    venv                      the development environment, .venv
    lab [ARGUMENTS]           a shell or a command in a booted system; tests/booted/lab
    run MODULE [ARGUMENTS]    `python -m MODULE` (or a .py file) in .venv
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.runner import env, lanes, layers
from tests.runner.env import CHECKOUT, TroubleError, say
from tests.runner.lanes import Job
from tests.runner.node import with_node
from tests.runner.place import Place, Run, newer_interpreter
from tests.runner.report import closing, summary
from tests.runner.supervise import Supervisor


def main(arguments: list[str]) -> int:
    command, *rest = arguments or ["help"]
    # A CI's stop ends like Ctrl-C does: what was made is removed. A background job of a shell starts with
    # Ctrl-C ignored, which every test would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        match command:
            case "test":
                return test(rest)
            case "check":
                (CHECKOUT / "build").mkdir(exist_ok=True)
                return inside(["-m", "pytest", "-q", f"--basetemp={CHECKOUT / 'build' / 'check'}", "tests/lint", *rest])
            case "venv":
                say(f"ready: {env.development().parent.relative_to(CHECKOUT)}/")
                return 0
            case "lab":
                _prerequisites([layer for layer in layers.LAYERS if layer.name == "booted"])
                return inside(["-m", "tests.booted.lab", *rest])
            case "run":
                module, *more = rest
                return inside([*([] if module.endswith(".py") else ["-m"]), module, *more])
    except TroubleError as trouble:
        print(trouble, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(__doc__, file=sys.stderr)
    return 2


def inside(arguments: list[str]) -> int:
    """Run Python in .venv, in place of this process."""
    python = env.development()
    os.environ["PATH"] = f"{python.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    os.chdir(CHECKOUT)
    os.execv(python, [str(python), *arguments])


def test(selection: list[str]) -> int:
    """All layers, or what `selection` (arguments of pytest) selects; 0 only if everything that ran passed."""
    run = Run()
    try:
        known = layers.present(CHECKOUT / "tests")
        # A selection names what it is about; only that layer's needs are worth an installation.
        chosen = [layer for layer in known if any(f"tests/{layer.name}" in word for word in selection)]
        absent = _prerequisites(chosen if selection else known)
        place = with_node(run.place())
        if selection:
            return _selection(run, place, selection)
        own = [
            Job(place, layer.name, ["-m", "not root", f"tests/{layer.name}"], layer.seconds)
            for layer in known
            if not layer.root_only and not any(layer in without for without in absent.values())
        ]
        not_run = [
            f"{layer.name}: missing {' '.join(package for package, some in absent.items() if layer in some)}"
            for layer in known
            if any(layer in some for some in absent.values())
        ]
        second, unavailable = _second(run, place, known)
        own += second
        not_run += unavailable
        of_root = []
        for name, seconds, arguments in _of_root(place, known):
            if os.geteuid() == 0:
                of_root.append(Job(run.as_root(place), name, arguments, seconds))
            else:
                not_run.append(f"{name}: needs root (sudo make test)")
                not_run += [f"  {test}" for test in Supervisor().names(place, arguments)]
        # What root runs waits for booted systems most of the time; the other layers keep a processor busy.
        results = lanes.run([own, of_root], run.directory / "lanes")
        say(summary(results, not_run, _caches(run, place)))
        say(closing(results))
        return 1 if any(result.bad for result in results) else 0
    finally:
        run.close()


def _prerequisites(known: list[layers.Layer]) -> dict[str, list[layers.Layer]]:
    """Install what layers miss, as root; otherwise say what to install. Answers what is still missing."""
    absent = layers.missing(known)
    if not absent:
        return {}
    packages = sorted(absent)
    if os.geteuid() != 0:
        say(f"missing: {' '.join(packages)}; install with: sudo apt-get install {' '.join(packages)}")
        return absent
    say(f"installing Debian packages: {' '.join(packages)}")
    trouble = layers.install(packages)
    if trouble is not None:
        raise TroubleError(f"apt-get could not install {' '.join(packages)}:\n{trouble}")
    return {}


def _of_root(place: Place, known: list[layers.Layer]) -> list[tuple[str, int, list[str]]]:
    """What root runs: name, seconds and arguments of each. A layer of its own is not collected a second time."""
    own = [layer for layer in known if layer.root_only]
    runs = [(layer.name, layer.seconds, [f"tests/{layer.name}"]) for layer in own]
    if layers.has_root_tests(place.source / "tests"):
        apart = [f"--ignore=tests/{layer.name}" for layer in own]
        runs.insert(0, ("root", 600, ["-m", "root", *apart, "tests"]))
    return runs


def _second(run: Run, place: Place, known: list[layers.Layer]) -> tuple[list[Job], list[str]]:
    """The layers nearest to the interpreter once more, with the newest other one of this machine."""
    chosen = [layer for layer in known if layer.second_interpreter]
    names = " ".join(layer.name for layer in chosen)
    interpreter = newer_interpreter()
    if interpreter is None or not chosen:
        return [], [f"{names} with a newer Python: none found on this machine"] if chosen else []
    try:
        other = run.second(place, interpreter)
    except TroubleError as trouble:
        return [], [f"{names} with {interpreter}: {trouble}"]
    label = Path(interpreter).name
    arguments = ["-m", "not root", *(f"tests/{layer.name}" for layer in chosen)]
    return [Job(other, f"{label}: {names}", arguments, 900)], []


def _selection(run: Run, place: Place, selection: list[str]) -> int:
    """One selection: as the account, and as root what is marked so. No test at all is a failure."""
    supervisor = Supervisor()
    try:
        results = [supervisor.pytest(place, "selection", ["-m", "not root", *selection], 1800)]
        if os.geteuid() == 0 and layers.has_root_tests(place.source / "tests"):
            results.append(supervisor.pytest(run.as_root(place), "root", ["-m", "root", *selection], 1800))
    finally:
        supervisor.end_leftovers()
    ran = [result for result in results if not result.empty]
    return 0 if ran and not any(result.bad for result in ran) else 1


def _caches(run: Run, place: Place) -> list[str]:
    outside = [str(run.base)] if os.geteuid() == 0 else []
    return [*outside, *(str(path) for path in (place.cache,) if path.parent != run.base), "~/.cache/pip"]


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
