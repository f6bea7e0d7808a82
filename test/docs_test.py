#!/usr/bin/env python3
"""The documents name files that are there, and link to them.

usage: docs_test.py DOCUMENT...
"""

import os
import re
import sys
import unittest

DOCUMENTS = [os.path.realpath(path) for path in sys.argv[1:]]
ROOT = os.path.dirname(next(path for path in DOCUMENTS if os.path.basename(path) == "README.md"))
NAMED = re.compile(r"`((?:clock|docs|examples|fabric|profiles|test|tools|trap|uvm_model)/[\w./-]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
TARGET = re.compile(r"bazel (build|run|test) //([\w/.-]+)(?::([\w.-]+))?")
# A name without its ending is that of a library.
ENDINGS = ("", ".h", ".cc", ".py", ".sh", "_test.cc", "_test.py")


class DocumentsTest(unittest.TestCase):
    def test_what_they_name_is_there(self):
        missing = []
        for document in DOCUMENTS:
            with open(document, encoding="utf-8") as file:
                text = file.read()
            named = [os.path.join(ROOT, path) for path in NAMED.findall(text)]
            linked = [os.path.join(os.path.dirname(document), path) for path in LINK.findall(text) if "://" not in path]
            self.assertTrue(named or linked or os.path.basename(document) in ("CHANGELOG.md", "system_calls.md",
                                                                             "cluster_schema.md", "report_schema.md", "COMMAND_LINE.md"))
            missing += [(os.path.relpath(document, ROOT), os.path.relpath(path, ROOT)) for path in named
                        if not any(os.path.exists(path + ending) for ending in ENDINGS)]
            missing += [(os.path.relpath(document, ROOT), os.path.relpath(path, ROOT)) for path in linked
                        if not os.path.exists(path)]
        self.assertEqual(missing, [])

    def test_targets_that_they_name_are_there(self):
        missing, found = [], 0
        for document in DOCUMENTS:
            with open(document, encoding="utf-8") as file:
                text = file.read()
            for verb, package, target in TARGET.findall(text):
                if package.endswith("..."):
                    continue
                path = os.path.join(ROOT, package, "BUILD")
                rules = ""
                if os.path.exists(path):
                    with open(path, encoding="utf-8") as file:
                        rules = file.read()
                # Many tests have names that loops make.
                wanted = target or os.path.basename(package)
                good = f'name = "{wanted}"' in rules if verb != "test" else bool(rules)
                found += good
                if not good:
                    missing.append((os.path.relpath(document, ROOT), f"//{package}:{wanted}"))
        self.assertEqual(missing, [])
        self.assertGreater(found, 10)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
