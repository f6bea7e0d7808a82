#!/usr/bin/env python3
"""Machine code that is executed was understood: accepted words print as nvdisasm prints them.

usage: sass_text_test.py PRINT_WORDS [CUBINS_PER_LIBRARY]

Takes words of PyTorch's own kernels (libtorch_cuda, libtorch_cuda_linalg; no closed library) for sm_80, sm_86
and sm_90, each once. Words that are refused are counted; one that is accepted and prints differently fails.
cuobjdump and nvdisasm are those that Triton brings.
"""

import collections
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

LIBRARIES = ("libtorch_cuda.so", "libtorch_cuda_linalg.so")
ARCHITECTURES = (80, 86, 90)
SCHEDULING = ((1 << 21) - 1) << 41  # of the upper half
# Of words that are not accepted, at most; what they are is printed.
MOST_REFUSED_PERCENT = 1.0
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?);\s*/\* (0x[0-9a-f]{16}) \*/")
UPPER = re.compile(r"^\s*/\* (0x[0-9a-f]{16}) \*/")


def cache():
    return pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")


def packages():
    return next((cache() / "venv/lib").glob("python3*/site-packages"))


def tool(name, *arguments, cwd=None):
    path = packages() / "triton/backends/nvidia/bin" / name
    return subprocess.run([path, *arguments], cwd=cwd, check=True, stdout=subprocess.PIPE,
                          text=True, errors="replace").stdout


def words_of(library, architecture, count):
    """{(lower half, upper half without scheduling): text} of some cubins, evenly taken."""
    names = re.findall(r"\S+\.sm_%d\.cubin" % architecture, tool("cuobjdump", "-lelf", library))
    words = {}
    with tempfile.TemporaryDirectory() as folder:
        for index in range(min(count, len(names))):
            name = names[index * len(names) // min(count, len(names))]
            tool("cuobjdump", "-xelf", name, library, cwd=folder)
        for cubin in pathlib.Path(folder).iterdir():
            found = None
            for line in tool("nvdisasm", "-c", "-hex", str(cubin)).splitlines():
                if match := LINE.search(line):
                    found = match
                elif found and (match := UPPER.match(line)):
                    upper = int(match.group(1), 16) & ~SCHEDULING
                    words.setdefault((int(found.group(3), 16), upper), found.group(2).strip())
                    found = None
    return words


def parts(text):
    """Guard, name and operands of nvdisasm's text, without what changes nothing."""
    text = re.sub(r"\.(no)?reuse\b", "", text)
    guard = ""
    if text.startswith("@"):
        guard, text = text.split(" ", 1)
    name, _, rest = text.strip().partition(" ")
    rest = re.sub(r"`\([^)]*\)", "L", rest.strip())
    rest = re.sub(r"(R\d+|RZ) L", r"\1, L", rest).replace("] [", "][")
    operands = [operand.strip() for operand in rest.split(",")] if rest else []
    # The target of an indirect branch is shown by the label before it.
    if name.startswith("BRX"):
        operands = [operands[0].split(" ")[0], "L"]
    elif name.startswith(("DEPBAR", "CCTL")):
        operands = []  # what is waited for, or which lines: nothing that is carried out
    elif name.startswith("LEPC"):
        operands = operands[:1]
    elif name.startswith(("IMMA", "BMMA")):
        operands = [re.sub(r"\.(ROW|COL)", "", operand) for operand in operands]
    elif name.startswith("IMAD") and not name.startswith(("IMAD.WIDE", "IMAD.HI")):
        name = re.sub(r"\.(MOV|IADD|SHL|U32)", "", name)  # the same operation by another name
    return guard, name, operands


def bits_of(text, size):
    """A floating-point number's bits; None for a NaN, of which the text does not say which."""
    sign, digits = text.startswith("-"), text.lstrip("+-")
    if digits in ("QNAN", "SNAN"):
        return None
    form, infinity = {"h": ("<e", 0x7C00), "f": ("<f", 0x7F800000), "d": ("<d", 0x7FF00000)}[size]
    if digits == "INF":
        bits = infinity
    else:
        packed = struct.pack(form, float(digits))
        bits = int.from_bytes(packed, "little") >> (32 if size == "d" else 0)
    return bits | sign << (15 if size == "h" else 31)


def half_bits(name, text):
    if "BF16" not in name:
        return bits_of(text, "h")
    bits = bits_of(text, "f")
    return None if bits is None else bits >> 16


def agrees(name, theirs, ours):
    """Do nvdisasm's operands say what ours do? Ours consumes two of theirs where it has two halves."""
    theirs = list(theirs)
    for mine in ours:
        if not theirs:
            return False
        its = theirs.pop(0)
        if not mine.startswith("#"):
            if its != mine and not (its == "L" and mine.startswith("L")):
                return False
            continue
        kind, value = mine[1], int(mine[2:], 16)
        try:
            if kind == "i":
                expected = [(int(its, 16) & 0xFFFFFFFF, value)]
            elif kind == "h":
                expected = [(half_bits(name, its), value >> 16),
                            (half_bits(name, theirs.pop(0)), value & 0xFFFF)]
            else:
                # Half a double is given as one.
                size = "d" if re.search(r"RCP64H|RSQ64H", name) else kind
                expected = [(bits_of(its, size), value)]
        except (ValueError, IndexError):
            return False
        if any(it is not None and it != me for it, me in expected):
            return False
    return not theirs


def same(text, printed):
    guard, name, operands = parts(text)
    my_guard, my_name, *my_operands = printed
    if my_name.startswith("IMAD") and name.startswith("IMAD") and not name.startswith(("IMAD.WIDE", "IMAD.HI")):
        my_name = my_name.replace(".U32", "")
    if my_name.startswith("DEPBAR"):
        my_operands = []
    if name.startswith("R2P"):
        operands = [re.sub(r"\.B[123]", "", operand) for operand in operands]
        my_name = my_name[:3]
    return (guard, name) == (my_guard, my_name) and agrees(name, operands, my_operands)


def main():
    print_words, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
    failed = False
    for architecture in ARCHITECTURES:
        words = {}
        for library in LIBRARIES:
            words.update(words_of(str(packages() / "torch/lib" / library), architecture, count))
        # What a relocation fills in is not in the word.
        words = {word: text for word, text in words.items() if "@lo" not in text and "@hi" not in text}
        request = "".join(f"{architecture} {low:x} {high:x} 100000\n" for low, high in words)
        answer = subprocess.run([print_words], input=request, check=True, stdout=subprocess.PIPE,
                                text=True).stdout.splitlines()
        refused, different = collections.Counter(), []
        for ((low, high), text), line in zip(words.items(), answer, strict=True):
            printed = line.split("\t")
            if printed[0] == "?":
                refused[f"{parts(text)[1]}: {printed[1]}"] += 1
            elif not same(text, printed):
                different.append(f"{low:016x} {high:016x}: '{text}', not '{' '.join(printed)}'")
        percent = 100 * refused.total() / max(1, len(words))
        print(f"sm_{architecture}: {len(words)} different words, {len(different)} of those that are accepted "
              f"print differently, {refused.total()} ({percent:.2f} %) are refused", flush=True)
        for line in different[:20]:
            print("  ", line)
        for what, times in refused.most_common(12):
            print(f"   refused {times} x {what}")
        failed |= bool(different) or not words or percent > MOST_REFUSED_PERCENT
    return failed


if __name__ == "__main__":
    sys.exit(main())
