"""What kernels computed, kept as files, so that the same code can be compared on two GPUs.

PHANTORA_KERNELS=FOLDER keeps compiled modules (FOLDER/cubins/KEY.cubin) and, a line per launch, what each launch was
given and left (FOLDER/launches.jsonl). PHANTORA_CUBINS=FOLDER takes modules from there instead of compiling them:
so a real GPU runs the very code that an emulated one ran, whatever compiler its machine has.
"""

import base64
import hashlib
import json
import os
import zlib

import numpy as np

FOLDER = os.environ.get("PHANTORA_KERNELS")
CUBINS = os.environ.get("PHANTORA_CUBINS")
MOST_BYTES = 1 << 18  # of an array that is kept whole; of larger ones a digest is
case = "?"  # which the harness sets


def key_of(source, options):
    return hashlib.sha256("\0".join([source, *options]).encode()).hexdigest()[:24]


def given(key):
    """The module of a key from PHANTORA_CUBINS, or None if modules are to be compiled."""
    if not CUBINS:
        return None
    with open(os.path.join(CUBINS, key + ".cubin"), "rb") as file:
        return file.read()


def keep_module(key, cubin):
    if FOLDER:
        os.makedirs(os.path.join(FOLDER, "cubins"), exist_ok=True)
        with open(os.path.join(FOLDER, "cubins", key + ".cubin"), "wb") as file:
            file.write(cubin)


def line_of(launch):
    """A launch of launches.jsonl as a line of real_h100.txt: case, kernel, digests of what it was given and left."""
    given_to = hashlib.sha256(" ".join([launch["module"], *launch["inputs"]]).encode()).hexdigest()[:12]
    left = " ".join(output["digest"] for output in launch["outputs"])
    return f"{launch['case']} {launch['kernel']} {given_to}", hashlib.sha256(left.encode()).hexdigest()[:12]


def compare(folder, path):
    """What the launches of a folder left beside what a real GPU left: how many were compared, and those that differ."""
    with open(path, encoding="utf-8") as file:
        real = dict(line.rstrip("\n").rsplit(" ", 1) for line in file if line[0] != "#")
    compared, different = 0, []
    with open(os.path.join(folder, "launches.jsonl"), encoding="utf-8") as file:
        for line in file:
            title, left = line_of(json.loads(line))
            if title in real:
                compared += 1
                if real[title] != left:
                    different.append(title)
    return compared, different


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def keep_launch(key, kernel, inputs, arrays):
    """`inputs`: digests before the launch; `arrays`: what the program got back."""
    outputs = []
    for before, array in zip(inputs, arrays):
        after = digest(array)
        if after == before:
            continue
        data = np.ascontiguousarray(array).tobytes()
        output = {"dtype": str(array.dtype), "count": int(array.size), "digest": after}
        if len(data) <= MOST_BYTES:
            output["data"] = base64.b85encode(zlib.compress(data, 6)).decode()
        outputs.append(output)
    line = {"case": case, "module": key, "kernel": kernel, "inputs": inputs, "outputs": outputs}
    # One write: the lines of processes do not mix.
    file = os.open(os.path.join(FOLDER, "launches.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, (json.dumps(line) + "\n").encode())
    os.close(file)
