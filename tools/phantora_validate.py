#!/usr/bin/env python3
"""phantora-validate: runs programs under phantora-run, reads numbers from what they print, and compares
them with numbers that were measured and published.

  phantora-validate                      all cases of test/validation that are not slow
  phantora-validate CASE...              case files, folders of them, or names of cases
  phantora-validate --list               names the cases and their numbers, runs nothing
  phantora-validate --real               also runs those of one GPU on this machine's, if it has one
  phantora-validate --serving --only "qwen3 1024-128 tp2"
                                         measured servers of test/validation/serving: those points with all of these
                                         words in their names (CAMPAIGN PROMPT-ANSWER-cINFLIGHT-tpGPUS); each takes
                                         minutes, and needs tools/setup.sh framework vllm-0.12.0
  phantora-validate --update docs/ACCURACY.md
                                         also writes the tables of that file and of test/validation

Exit status: 0 if all numbers are within tolerance, or known to miss, with a reason; 1 if others miss or a
command failed; 2 if a case or an option is wrong. test/validation/README.md says how cases are written.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys

from validation import cases as case_files
from validation import results as outcomes
from validation import serving
from validation import tables
from validation.runner import Runner, RunError, gpu_here, personality

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = ROOT / "test/validation"
# What a program was run from, when Bazel started this.
WHERE = pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))


def parse_args():
    parser = argparse.ArgumentParser(prog="phantora-validate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", metavar="CASE", nargs="*", help="a case file, a folder of them, or a case's name")
    parser.add_argument("--list", action="store_true", help="print the cases and run nothing")
    parser.add_argument("--serving", action="store_true",
                        help="run servers' measured points instead, and keep what comes out beside them")
    parser.add_argument("--only", metavar="WORDS", default="",
                        help="only cases with all of these words in their name, description, GPU or cluster")
    parser.add_argument("--slow", action="store_true", help="also slow cases, which otherwise need to be named")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="cases at a time (default 1)")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="of each command, in the place of the case's")
    parser.add_argument("--real", action="store_true",
                        help="also run cases of one GPU natively on this machine's, and compare; those of other GPUs "
                             "are simulated as this one")
    parser.add_argument("--recorded", action="store_true",
                        help="run nothing: take the values of test/validation/results.json")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables here (default: standard output)")
    parser.add_argument("--json", metavar="FILE", help="write results as JSON")
    parser.add_argument("--update", metavar="FILE",
                        help=f"replace what is between {tables.BEGIN} and {tables.END} in this file, and write "
                             "test/validation/results.md and .json; cases that were not run keep their results there")
    parser.add_argument("--built", metavar="DIR", help="where Bazel's programs are (default: bazel-bin)")
    parser.add_argument("--python", metavar="FILE", help="of the programs (default: that of tools/setup.sh)")
    options = parser.parse_intermixed_args()
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    if options.real and options.recorded:
        parser.error("--recorded runs nothing, also not with --real")
    if options.serving and (options.cases or options.list or options.real or options.update):
        parser.error("--serving goes with --only, --recorded, --timeout and --built alone")
    return options


def fail(message):
    print(f"phantora-validate: {message}", file=sys.stderr)
    sys.exit(2)


def say(message):
    print(message, file=sys.stderr, flush=True)


def shown(path):
    """A path as messages and tables show it: that of a file of the repository from there."""
    path = path.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def read_folder(folder):
    return [case for file in sorted(folder.glob("*.toml")) for case in case_files.read_file(file, shown(file))]


def chosen_cases(options):
    """Raises CaseError."""
    known = None
    chosen = []
    for word in options.cases:
        path = WHERE / word
        if path.is_dir():
            chosen += [case for case in read_folder(path) if options.slow or not case.slow]
        elif word.endswith(".toml"):
            chosen += [case for case in case_files.read_file(path, shown(path)) if options.slow or not case.slow]
        else:
            known = read_folder(CASES) if known is None else known
            named = [case for case in known if case.name == word]
            if not named:
                raise case_files.CaseError(f"{word}: neither a file that ends in .toml, nor a folder, nor a case of "
                                           f"{shown(CASES)} (--list names them)")
            chosen += named
    if not options.cases:
        chosen = [case for case in read_folder(CASES) if options.slow or options.recorded or not case.slow]
    chosen = list({id(case): case for case in chosen}.values())
    case_files.check_names(chosen)
    words = options.only.lower().split()
    return [case for case in chosen
            if all(word in f"{case.name} {case.what} {case.gpu} {case.cluster}".lower() for word in words)]


def print_list(cases):
    for case in cases:
        print(f"{case.name}{' (slow)' if case.slow else ''}: {case.what} [{case.gpu or case.cluster}; {case.file}]")
        for row in case.rows:
            print(f"    {row.name}: {row.expected:g} {row.unit}, {100 * row.tolerance:g} %"
                  + (f"; misses: {row.miss}" if row.miss else ""))


def version():
    """Of the repository that is run."""
    try:
        return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+", "--exclude=*"], text=True,
                              capture_output=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def planned(cases, card):
    """Results to be filled in. With a card of this machine, the cases that another GPU's numbers are for
    are simulated as the card, each command once."""
    plan = [outcomes.Result(case, prices) for case in cases for prices in case.prices]
    if card is None:
        return plan
    own = {tuple(case.command) for case in cases if case.single_gpu() and case.gpu == card}
    for case in cases:
        if case.single_gpu() and case.gpu != card and tuple(case.command) not in own:
            own.add(tuple(case.command))
            plan.append(outcomes.Result(dataclasses.replace(case, prices=["rows"]), "rows", gpu=card))
    return plan


def run(result, runner, card):
    """Fills the result in; tells what happens."""
    case = result.case
    name = case.name + (f" ({tables.PRICES[result.prices]})" if len(case.prices) > 1 else "")
    name += f" as {result.gpu}" if result.gpu else ""
    try:
        result.simulated, seconds = runner.simulate(case, result.prices, result.gpu)
    except RunError as error:
        result.failure = str(error)
        say(f"{name}: failed: {error}")
        return
    if card is not None and case.single_gpu() and (result.gpu or case.gpu) == card and result.prices == "rows":
        try:
            result.measured = runner.measure(case)
        except RunError as error:
            result.real_failure = str(error)
            say(f"{name}: failed on this machine's GPU: {error}")
    rows = result.rows()
    say(f"{name}: {sum(verdict == outcomes.OK for _, verdict in rows)} of {len(rows)} within tolerance "
        f"({seconds:.0f} s)")


def verdict(results):
    """Says what missed; the exit status."""
    for result in results:
        if result.failure:
            say(f"FAILED  {result.case.name}: {result.failure.splitlines()[0]}")
        if result.real_failure:
            say(f"FAILED  {result.case.name}, on this machine's GPU: {result.real_failure.splitlines()[0]}")
        for row, what in result.rows():
            if what == outcomes.NO_VALUE:
                say(f"MISSES  {result.case.name}: {row.name}: not in the output "
                    f"({'JSON key ' + repr(row.json) if row.json else 'regular expression ' + repr(row.regex)})")
            elif what == outcomes.MISS:
                say(f"MISSES  {result.case.name}: {row.name}: {tables.number(result.simulated[row.name])} {row.unit} "
                    f"for {tables.number(row.expected)}: {tables.percent(result.error(row))}, where "
                    f"{100 * row.tolerance:g} % is allowed")
            elif what == outcomes.OK and row.miss and len(result.case.prices) == 1:
                say(f"note    {result.case.name}: {row.name}: is known to miss, but is within tolerance")
    passed = sum(result.passed() for result in results)
    say(f"{passed} of {len(results)} runs as they should be")
    return 0 if passed == len(results) else 1


def write(name, text):
    try:
        (WHERE / name).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{name}: {error.strerror}")


def update(name, results):
    """Writes the tables of the file, and of test/validation."""
    everything = read_folder(CASES)
    order = [case.name for case in everything]
    strangers = {result.case.name for result in results} - set(order)
    if strangers:
        fail(f"--update: not of {shown(CASES)}: {', '.join(sorted(strangers))}")
    merged = sorted(outcomes.merged(recorded(everything), results),
                    key=lambda result: (order.index(result.case.name), result.prices))
    try:
        text = tables.update((WHERE / name).read_text(encoding="utf-8"), merged)
    except (OSError, ValueError) as error:
        fail(f"{name}: {error}")
    write(name, text)
    missing = [case.name for case in everything if case.name not in {result.case.name for result in merged}]
    write(CASES / "results.json", outcomes.to_json(merged))
    write(CASES / "results.md", f"# Simulated beside published\n\nWritten by `tools/phantora_validate.py --update "
          f"docs/ACCURACY.md`. Errors are simulated / published - 1.\n\n{tables.full(merged)}"
          + (f"\nNever run: {', '.join(missing)}.\n" if missing else ""))


def recorded(cases):
    file = CASES / "results.json"
    try:
        return outcomes.from_json(file.read_text(encoding="utf-8"), cases)
    except FileNotFoundError:
        return []
    except ValueError as error:
        fail(f"{shown(file)}: {error}")


def built_programs(options):
    # bazel run starts this among what it built.
    built = WHERE / options.built if options.built else (
        pathlib.Path.cwd() if "BUILD_WORKING_DIRECTORY" in os.environ else ROOT / "bazel-bin")
    if not (built / "tools/phantora-run").exists():
        fail(f"{built}/tools/phantora-run does not exist: bazel build //tools:phantora-validate, or --built DIR")
    return built.resolve()


def cache_folder():
    return pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")


def main():
    options = parse_args()
    if options.serving:
        built = None if options.recorded else built_programs(options)
        try:
            return serving.validate(options, ROOT, built, cache_folder(), CASES / "serving", version(), say)
        except (OSError, ValueError) as error:
            fail(error)
    try:
        cases = chosen_cases(options)
    except case_files.CaseError as error:
        fail(error)
    if not cases:
        fail("no case is left to run")
    if options.list:
        print_list(cases)
        return 0
    if options.recorded:
        results = recorded(cases)
    else:
        runner = Runner(ROOT, built_programs(options), cache_folder(), options.python, options.timeout)
        card = None
        if options.real:
            name = gpu_here()
            card = personality(ROOT, name)
            say("--real: nvidia-smi finds no GPU here: nothing is measured" if name is None else
                f"--real: this machine has an {name}, which profiles/data has not: nothing is measured"
                if card is None else f"--real: measuring on this machine's {name} ({card})")
        results = planned(cases, card)
        now = version()
        for result in results:
            result.version = now
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda result: run(result, runner, card), results))
    text = tables.full(results)
    if options.markdown:
        write(options.markdown, text)
    elif not options.update:
        print(text, end="")
    if options.json:
        write(options.json, outcomes.to_json(results))
    if options.update:
        update(options.update, results)
    return verdict(results)


if __name__ == "__main__":
    sys.exit(main())
