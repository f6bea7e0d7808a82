"""What there is to measure: operations by key. catalogue.py fills OPS."""

import json

VERSION = 1  # of the file that is written
OPS = {}  # by key, in the order of definition


def torch():
    import torch as module  # pylint: disable=import-outside-toplevel
    return module


class Op:
    """One operation. `make` gets the parameters and returns a function that submits it once. With
    `host`, it returns the seconds that each of some calls took instead."""

    def __init__(self, family, name, level, make, parameters, l2="warm", host=False):
        self.family, self.name, self.level, self.make = family, name, level, make
        self.parameters, self.l2, self.host = parameters, l2, host

    @property
    def key(self):
        return key_of({"op": self.name, "parameters": self.parameters, "l2": self.l2})


def key_of(line):
    return json.dumps([line["op"], line["parameters"], line["l2"]], sort_keys=True)


def define(family, name, level, make, l2="warm", host=False, **parameters):
    """Level 0 is measured before 1, before 2. What is already there keeps its level."""
    op = Op(family, name, level, make, parameters, l2, host)
    OPS.setdefault(op.key, op)
