"""Checks the `#include`s of a source tree against its table of arrows.

usage: check_arrows.py TABLE [ROOT]

The table (docs/folders.txt) explains its format. Prints every include without an
arrow as `file:line: message`, every arrow without an include, and one cycle of
folders if there is any. Exits with 1 if it prints anything.
"""

import os
import re
import sys

INCLUDE = re.compile(r'\s*(?:#\s*)?include\s+"([^"]+)"')
SUFFIXES = (".h", ".cpp", ".td")


def read_table(path):
    """Returns the table's arrows as {(from, to): line}."""
    arrows = {}
    with open(path) as table:
        for number, line in enumerate(table, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            source, arrow, targets = line.partition("->")
            if not arrow or not targets.split():
                sys.exit("%s:%d: expected `FOLDER -> FOLDER ...`" % (path, number))
            for target in targets.split():
                arrows[source.strip(), target] = number
    return arrows


def unit(path, root):
    """Returns the folder that a file counts for. A public header counts for the
    folder of its stage: include/heddle/Cost/Work.h for lib/Cost."""
    folder, name = os.path.split(path)
    if folder == "include/heddle":
        stage = "lib/" + os.path.splitext(name)[0]
        return stage if os.path.isdir(os.path.join(root, stage)) else "include"
    if folder.startswith("include/heddle/"):
        return "lib/" + folder[len("include/heddle/") :]
    return folder


def find_cycle(edges):
    """Returns a cycle as a list of folders, each of which includes the next, with
    the first one again at the end. Returns None if there is no cycle."""
    done = set()

    def visit(folder, path):
        if folder in path:
            return path[path.index(folder) :] + [folder]
        if folder in done:
            return None
        for target in sorted(edges.get(folder, ())):
            cycle = visit(target, path + [folder])
            if cycle:
                return cycle
        done.add(folder)
        return None

    for folder in sorted(edges):
        cycle = visit(folder, [])
        if cycle:
            return cycle
    return None


def is_below(folder, parent):
    return folder == parent or folder.startswith(parent + "/")


def find_files(root):
    for top in ("dialects", "include", "lib", "runtime", "tools"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def bases(path):
    """Yields the folders that an include of the file may be relative to: its own,
    those around it, and the public ones."""
    folder = os.path.dirname(path)
    while folder:
        yield folder
        folder = os.path.dirname(folder)
    yield from ("", "include", "runtime/include")


def main(table, root="."):
    arrows = read_table(table)
    sources = {source for source, _ in arrows}

    def stage(folder):
        """Returns the outermost folder of the table that contains `folder`."""
        parents = [source for source in sources if is_below(folder, source)]
        return min(parents, key=len, default=folder)

    files = sorted(find_files(root))
    known = set(files)
    used = set()
    edges = {}
    errors = []
    for path in files:
        source = unit(path, root)
        with open(os.path.join(root, path)) as text:
            lines = text.readlines()
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            for base in bases(path):
                included = os.path.normpath(os.path.join(base, match.group(1)))
                if included in known:
                    break
            else:
                continue
            target = unit(included, root)
            if source == target:
                continue
            edges.setdefault(source, set()).add(target)
            if is_below(source, target):
                continue
            within = stage(source) if stage(source) == stage(target) else None
            allowed = [
                (a, b)
                for a, b in arrows
                if is_below(source, a)
                and is_below(target, b)
                and (within is None or is_below(b, within))
            ]
            used.update(allowed)
            if not allowed:
                errors.append(
                    "%s:%d: %s must not include %s of %s: expected an arrow "
                    "'%s -> %s' in %s" % (path, number, source, match.group(1), target, source, target, table)
                )
    for arrow in sorted(set(arrows) - used, key=lambda arrow: arrows[arrow]):
        errors.append(
            "%s:%d: no file of %s includes one of %s: remove the arrow"
            % (table, arrows[arrow], *arrow)
        )
    cycle = find_cycle(edges)
    if cycle:
        errors.append("folders include each other: " + " -> ".join(cycle))
    print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
