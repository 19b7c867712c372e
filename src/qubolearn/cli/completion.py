"""Print a script that completes qubolearn's commands, options and names in your shell.

bash: add  eval "$(qubolearn completion bash)"  to ~/.bashrc
zsh:  add  eval "$(qubolearn completion zsh)"  to ~/.zshrc, after compinit
fish: qubolearn completion fish > ~/.config/fish/completions/qubolearn.fish
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence

from qubolearn.cli.options import is_problem
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.problems import problem_names
from qubolearn.problems.from_file import is_reference
from qubolearn.solvers import solver_names

__all__ = ["complete"]

# Each hands the line up to the cursor back to us, so that all shells complete alike and options of problems that other
# packages register are known. Where we have no words, the shell completes names of files.
SCRIPTS = {
    "bash": """_qubolearn() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o default -F _qubolearn qubolearn""",
    "zsh": """#compdef qubolearn
_qubolearn() {
    local -a found
    found=("${(@f)$("${words[1]}" completion zsh --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _qubolearn qubolearn""",
    "fish": """complete -c qubolearn -a '(qubolearn completion fish --line (commandline -cp) 2>/dev/null)'""",
}


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("shell", choices=list(SCRIPTS), help="whose script to print")
    parser.add_argument("--line", metavar="TEXT", help="print the words that may end this command line instead")


def run(args: argparse.Namespace, output: Output) -> None:
    words = None if args.line is None else complete(args.line)
    for line in [SCRIPTS[args.shell]] if words is None else words:
        output.say(line)
    output.result(shell=args.shell, **({"script": SCRIPTS[args.shell]} if words is None else {"words": words}))


def complete(line: str) -> list[str]:
    """The words that may stand in place of the last one of a command line; none where it may be a file.

    >>> complete("qubolearn ev")
    ['evaluate']
    >>> complete("qubolearn train randgraph --prese")
    ['--preset']
    """
    from qubolearn.cli import COMMANDS, make_parser

    *before, current = _words(line)
    found: Iterable[str] = ()
    if len(before) == 1:
        found = [*COMMANDS, "--help", "--version"]
    elif len(before) > 1 and before[1] in COMMANDS:
        known = [word for word in before[2:] if not is_reference(word)]  # a key press must not run a user's file
        try:
            found = _candidates(make_parser(before[1], known), before, current)
        except QubolearnError:  # there is a mistake on the line, which the command will report
            found = ()
    return [word for word in found if word.startswith(current)]


def _words(line: str) -> list[str]:
    """The words of a line; the last one is being typed, and empty after a space."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quotation that has not been closed
        words = line.split()
    return words if words and not line[-1].isspace() else [*words, ""]


def _candidates(parser: argparse.ArgumentParser, before: Sequence[str], current: str) -> Iterable[str]:
    option = parser._option_string_actions.get(before[-1])
    if option is not None and option.nargs != 0:
        return solver_names() if option.dest == "solver" else map(str, option.choices or ())
    if current.startswith("-"):
        return parser._option_string_actions
    places = [action for action in parser._actions if not action.option_strings]
    named = any(is_problem(word) for word in before[2:])
    if any(action.dest == "problem" for action in places) and not named:
        return problem_names()
    return [str(choice) for action in places for choice in action.choices or () if choice not in before]
