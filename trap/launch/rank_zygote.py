# Imports modules once and becomes every rank: what --preload runs in place of the ranks' own program
# (preloader.h). In Python, since it has to run within the interpreter that the ranks are copies of.
#
# argv: descriptors to read the ranks from, to write their process ids to and to read a byte from before
# a rank begins; the modules, with commas; file, module or code, and which; the program's own words.
import os
import sys

# What a package imports by itself, sooner or later, where there is such a module.
LATER = {"torch": ("torch.distributed", "torch._dynamo")}


def uses_gpu():
    """Has an emulated device been opened? Nobody can use a GPU who is forked from one that does."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink("/proc/self/fd/" + descriptor))
        except OSError:
            pass  # the directory's own
    return any("nvidia" in link or "phantora-uvm" in link for link in links)


def main():
    import builtins
    import ctypes
    import gc
    import importlib
    import importlib.machinery
    import pkgutil
    import runpy
    import struct
    import warnings

    plan, pids, go = (int(word) for word in sys.argv[1:4])
    modules, kind, program = sys.argv[4:7]
    arguments = sys.argv[7:]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = {"file": os.path.dirname(os.path.realpath(program)), "module": os.getcwd(), "code": ""}[kind]
    libc = ctypes.CDLL(None)
    for name in modules.split(","):
        importlib.import_module(name)
        for later in LATER.get(name, ()):
            try:
                importlib.import_module(later)
            except ImportError:
                pass  # of another version
        if uses_gpu():
            sys.exit(f"{name} uses a GPU when it is imported: no process with one can be copied, so name other modules")
    with os.fdopen(plan, "rb") as file:
        ranks = [record.split(b"\0") for record in file.read().split(b"\0\0") if record]
    # What a collection would write to is not shared any more.
    gc.collect()
    gc.freeze()
    for number, (head, *environment) in enumerate(ranks):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that libraries have threads, which a copy has not
            child = os.fork()
        if child == 0:
            break
        os.write(pids, struct.pack("i", child))
    else:
        os._exit(0)
    if not os.read(go, 1):
        os._exit(1)  # who starts the ranks is gone
    death_signal, killed = 1, 9  # PR_SET_PDEATHSIG, SIGKILL
    libc.prctl(death_signal, killed)
    rank_starts = 0x46F0  # kRankStarts
    libc.ioctl(-1, rank_starts, ctypes.c_ulong(number))
    for entry in environment:
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    output, errors, reads_input = (int(word) for word in head.split())
    if not reads_input:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    if output >= 0:
        os.dup2(output, 1)
    if errors >= 0:
        os.dup2(errors, 2)
    given = {int(word) for head, *_ in ranks for word in head.split()[:2]} | {pids, go}
    for descriptor in given:
        if descriptor > 2:
            os.close(descriptor)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # Python's own generator is seeded again by fork

    first = {"file": [program], "module": ["-m", program], "code": ["-c", program]}[kind]
    sys.argv = [{"file": program, "module": "-m", "code": "-c"}[kind], *arguments]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [*sys.orig_argv[: sys.orig_argv.index("-c")], *first, *arguments]
    try:
        if kind == "module":
            runpy._run_module_as_main(program)
        elif kind == "file" and (program.endswith(".pyc") or pkgutil.get_importer(program) is not None):
            # Compiled, or a directory or archive with a __main__.py.
            runpy.run_path(program, run_name="__main__")
        else:
            loader, path, source = None, "<string>", program
            if kind == "file":
                path = os.path.abspath(program) if sys.version_info >= (3, 9) else program
                loader = importlib.machinery.SourceFileLoader("__main__", path)
                try:
                    with open(program, "rb") as file:
                        source = file.read()
                except OSError as failure:
                    # As the interpreter says it.
                    why = f"[Errno {failure.errno}] {failure.strerror}"
                    print(f"{sys.executable}: can't open file {path!r}: {why}", file=sys.stderr)
                    sys.exit(2)
            code = compile(source, path, "exec", dont_inherit=True)
            space = sys.modules["__main__"].__dict__
            annotations = {"__annotations__": {}} if "__annotations__" in space else {}
            space.clear()  # of this program's own names, too
            space.update(annotations, __name__="__main__", __doc__=None, __package__=None, __spec__=None, __loader__=loader,
                         __builtins__=builtins)
            if kind == "file":
                space.update(__file__=path, __cached__=None)
            exec(code, space)
    except Exception as failure:
        import sys as system

        # Without the frame of this function.
        trace = failure.__traceback__.tb_next
        system.excepthook(type(failure), failure.with_traceback(trace), trace)
        system.exit(1)


main()
