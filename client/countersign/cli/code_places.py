"""Which places of a command would be read as code: by a shell, an interpreter or a program that
hands its words on to one. Pure.

No list of such programs is whole, so a place inside a word that holds a blank counts in any case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

PLACE = re.compile(r"\{(\w+)\}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _words(
    "ash bash csh dash elvish fish ksh mksh nu oksh osh rbash rksh sh tcsh xonsh yash zsh"
)
PYTHONS = frozenset({"ipython", "pypy", "python", "pythonw"})
INTERPRETERS = _words(
    "bun deno elixir erl ghc groovy guile jruby julia lua luajit node nodejs osascript perl php r"
    " racket raku rscript ruby scala swift tsx ts-node"
)
# they read their words as code or as commands, or join them for a shell, here or elsewhere
READ_ALL = _words(
    "adb ansible awk bmake cmd clush dbclient dsh emacs eval ex expect fab gawk gdb gmake just lldb"
    " m4 make mawk mosh mysql nawk ncat nc nvim parallel parallel-ssh pdsh plink powershell pssh"
    " pwsh rsh runuser salt screen sed socat sqlite sqlite3 ssh su systemd-run tclsh tmux vi view"
    " vim watch wsl xterm"
)
# options whose value is code or a command
CODE_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "docker": re.compile(r"--(entrypoint|health-cmd)"),
    "find": re.compile(r"-(exec|execdir|ok|okdir)"),
    "flock": re.compile(r"-c|--command"),
    "git": re.compile(r"-c|--config-env|--exec|--upload-pack|--receive-pack|-u"),
    "nix": re.compile(r"-c|--command|--run|--expr"),
    "nix-shell": re.compile(r"--command|--run|-E|--expr"),
    "npm": re.compile(r"-c|--call"),
    "npx": re.compile(r"-c|--call"),
    "psql": re.compile(r"-c|--command"),
    "rsync": re.compile(r"-[a-zA-Z]*e|--rsh|--rsync-path"),
    "scp": re.compile(r"-S|-o"),
    "script": re.compile(r"-[a-zA-Z]*c|--command"),
    "sftp": re.compile(r"-S|-o|-b"),
    "tar": re.compile(r"-I|--to-command|--use-compress-program|--checkpoint-action|--rsh-command"),
    "zip": re.compile(r"-TT|--unzip-command"),
}
# they start another command, which stands fixed; and what has them start a shell instead
LAUNCHERS = _words(
    "busybox chroot command doas env exec ionice nice nohup nsenter pkexec setsid stdbuf sudo time"
    " timeout toybox unshare xargs"
)
TO_A_SHELL: Mapping[str, re.Pattern[str]] = {
    "doas": re.compile(r"-[a-zA-Z]*s"),
    "env": re.compile(r"-[a-zA-Z0]*S.*|--split-string.*"),
    "sudo": re.compile(r"-[a-zA-Z]*[si]|--shell|--login"),
}
_OF_SHELLS = re.compile(r"[-+][a-zA-Z]*[oO]|--rcfile|--init-file")  # options with a value
_FROM_LINE = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_OF_PYTHON = re.compile(r"-[WX]")
_CODE = re.compile(r"-[a-zA-Z]*[eErRBFpdIlMjx]|--[a-z-]+")  # of others, also with other values
_SETS = re.compile(r"[A-Za-z_]\w*=")


def read_as_code(words: Sequence[str]) -> Iterator[str]:
    """Yield those words with a place whose value would be read as code, or might be."""
    for number, word in enumerate(words):
        if PLACE.search(word) and (re.search(r"\s", word) or _is_code(words, number)):
            yield word


def program(word: str) -> str:
    """Return which program a word names: without its folder, its version and .exe."""
    plain = os.path.basename(word.replace("\\", "/")).lower().removesuffix(".exe")
    return plain if plain in READ_ALL else re.sub(r"[-.\d]+$", "", plain)


def _is_code(words: Sequence[str], place: int) -> bool:
    """Whether a program before this place reads it as code."""
    names = {_name_of_script(words, at) for at in range(place)}
    return any(
        _reads(program(words[at]), words[at + 1 : place + 1])
        for at in range(place)
        if at not in names
    )


def _name_of_script(words: Sequence[str], shell: int) -> int | None:
    """Where the name stands that a shell's script from the command line is given as $0: it starts
    nothing.
    """
    if program(words[shell]) not in SHELLS:
        return None
    for at in range(shell + 1, len(words)):
        if _is_behind_script(words[shell + 1 : at], _OF_SHELLS):
            options = words[shell + 1 : at - 1]
            return at if any(_FROM_LINE.fullmatch(each) for each in options) else None
    return None


def _reads(name: str, given: Sequence[str]) -> bool:
    """Whether a program reads the last of the words given to it as code; the last has a place."""
    if name in READ_ALL:
        return True
    if name in SHELLS or name in PYTHONS:
        values = _OF_SHELLS if name in SHELLS else _OF_PYTHON
        return not _is_behind_script(given[:-1], values)
    if name in INTERPRETERS:
        return not _is_behind_script(given[:-1], _CODE)
    if name in LAUNCHERS and _is_command(name, given):
        return True
    option = CODE_OPTIONS.get(name)
    if option is None:
        return False
    attached = option.match(PLACE.split(given[-1])[0]) is not None
    return attached or (len(given) > 1 and option.fullmatch(given[-2]) is not None)


def _is_behind_script(before: Sequence[str], values: re.Pattern[str]) -> bool:
    """Whether an interpreter has its script, from these words: all behind that is the script's.

    `values`: its options that have one, which is no script by itself.
    """
    is_value = has_code = False
    for each in before:
        if is_value:
            is_value, has_code = False, True
        elif each == "--" and has_code:
            return True
        elif values.fullmatch(each):
            is_value = True
        elif not each.startswith(("-", "+")):
            return True
    return False


def _is_command(name: str, given: Sequence[str]) -> bool:
    """Whether the last of the words given to a launcher may say what it starts."""
    before, word = given[:-1], given[-1]
    shell = TO_A_SHELL.get(name)
    if shell and any(map(shell.fullmatch, given)):
        return True
    if any(not each.startswith("-") and not _SETS.match(each) for each in before):
        return False  # that is what it starts, or the value of an option
    is_value = bool(before) and before[-1].startswith("-") and before[-1] != "--"
    return not _SETS.match(word) and not word.startswith("-") and not is_value
