"""Loads met's server and llama.cpp's own, in turn, with the same requests: python -m bench.serve --help."""

import argparse
import datetime
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from bench.errors import BenchError
from bench.models import SHIPPED, model_file
from bench.paths import BENCH
from bench.results import Setting
from bench.run import order
from bench.serve_client import Answer, load, prompts
from bench.serve_results import Figures, Round, figures, read, table, write
from bench.servers import Server, free_port, llama_command, met_command
from bench.setting import setting
from circuit.errors import MetError
from circuit_exec.build import available_threads

ROUNDS = 3
STREAMS = (8, 32)
ACTIVATIONS = ("f32", "int8")


class Asked(Protocol):
    """A server that is asked."""

    name: str
    port: int

    def pause(self) -> None:
        """Nothing of it runs."""

    def resume(self) -> None:
        """It goes on."""


def main(arguments: Sequence[str]) -> int:
    """Gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        shared = setting(options.threads)
        rounds = read(options.out, shared)
        if not options.table:
            rounds = _measure(options, shared, rounds)
        print(table(rounds))
    except (BenchError, MetError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted: the rounds measured before are in {options.out}", file=sys.stderr)
        return 130
    return 0


def _measure(options: argparse.Namespace, shared: Setting, rounds: list[Round]) -> list[Round]:
    """Adds to the rounds that there are: each starts where the last one of its kind ended."""
    model = model_file(SHIPPED)
    for n_streams in options.streams:
        for activations in options.activations:
            done = sum((each.n_streams, each.activations) == (n_streams, activations) for each in rounds)
            with ExitStack() as stack:
                servers = list[Server]()
                for name, port in (("met", None), ("llama.cpp", free_port())):
                    command = (
                        met_command(model, options.threads, n_streams, activations)
                        if port is None
                        else llama_command(model, options.threads, n_streams, port)
                    )
                    server = Server(name, command, port)
                    stack.callback(server.close)
                    load(server.port, prompts(-1, n_streams, (16,)), n_streams, 4)  # the first answers count nowhere
                    server.pause()
                    servers.append(server)
                for round in range(done, done + options.rounds):
                    rounds = [*rounds, one_round(servers, round, n_streams, activations)]
                    write(options.out, shared, rounds)
    return rounds


def one_round(servers: Sequence[Asked], round: int, n_streams: int, activations: str) -> Round:
    """Both servers with the same requests, each stopped while the other one has its turn."""
    texts, found = prompts(round), dict[str, Figures]()
    for place in order(len(servers), round):
        server = servers[place]
        server.resume()
        try:
            found[server.name] = checked(server.name, load(server.port, texts, n_streams))
        finally:
            server.pause()
    met, llama_cpp = found["met"], found["llama.cpp"]
    if (met.n_prompt, met.n_made) != (llama_cpp.n_prompt, llama_cpp.n_made):
        told = "; ".join(f"{name} had {each.n_prompt} tokens and made {each.n_made}" for name, each in found.items())
        raise BenchError(told, "give both servers the same file")
    return Round(
        n_streams=n_streams,
        activations=activations,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        met=met,
        llama_cpp=llama_cpp,
    )


def checked(name: str, answers: Sequence[Answer]) -> Figures:
    """The figures of answers that came in pieces: a server that holds text back has no time between tokens."""
    n_pieces, n_made = sum(len(each.came) for each in answers), sum(each.n_made for each in answers)
    if n_pieces < 0.9 * n_made:
        raise BenchError(f"{name} sent {n_made} tokens in {n_pieces} pieces", "ask it for a stream of single tokens")
    return figures(answers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.serve", description="Compares met's server with llama.cpp's.")
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS, metavar="N", help="at once; 8 and 32")
    parser.add_argument("--activations", choices=ACTIVATIONS, nargs="+", default=ACTIVATIONS, help="of met")
    parser.add_argument("--threads", type=int, default=available_threads(), metavar="N", help="of either server")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="added to those of the file")
    default = BENCH / "results" / "serve_latest.json"
    parser.add_argument("--out", type=Path, default=default, help="the results, added to")
    parser.add_argument("--table", action="store_true", help="print what was measured before, measure nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
