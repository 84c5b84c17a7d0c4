"""The command `assay-capture`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..errors import AssayError
from .vllm import CUTS, import_vllm


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="assay-capture", description="Captures from files that other engines have written, and captures to a coordinator.")
    commands = parser.add_subparsers(dest="command", required=True)
    importing = commands.add_parser("import", help="make a capture of an engine's files")
    formats = importing.add_subparsers(dest="format", required=True)
    vllm = formats.add_parser(
        "vllm-hidden-states",
        help="files of vLLM's hidden-state extractor",
        description="Make a capture of the files of vLLM's hidden-state extractor (method extract_hidden_states). Files are "
        "matched to contexts by their token ids. The same command continues an import that was broken off.",
    )
    vllm.add_argument("dir", type=Path, metavar="DIR", help="folder of the extracted files (vLLM's shared_storage_path)")
    vllm.add_argument("--cut", required=True, choices=CUTS, help="where the states were taken; vLLM's last layer lies before the final norm")
    vllm.add_argument("--final-norm", type=Path, metavar="MODEL", help="Hugging Face folder whose final norm is applied (with before_final_norm)")
    vllm.add_argument("--layer-ids", metavar="N,N,...", help="eagle_aux_hidden_state_layer_ids, when a file holds several layers")
    vllm.add_argument("--axes", choices=("tokens-first", "layers-first"), help="only where the shape does not say it")
    vllm.add_argument("--suite", required=True, type=Path, help="suite folder")
    vllm.add_argument("--out", required=True, type=Path, help="capture folder to write")
    vllm.add_argument("--filter", default="all", help="contexts: all, sentinel or a partition")
    vllm.add_argument("--model", help="name of the model (default: that of --final-norm)")
    vllm.add_argument("--engine-version", default="not stated", help="version of vLLM, for the manifest")
    vllm.add_argument("--stack", action="append", default=[], metavar="KEY=VALUE", help="where it ran (device, flags, image); may be repeated")
    vllm.add_argument("--store", default="bf16", choices=("keep", "bf16", "f32"), help="what is stored (default bf16, rounded to nearest even)")
    sending = commands.add_parser(
        "send",
        help="deliver a capture folder to a coordinator",
        description="Deliver a finished capture folder to a coordinator. Sends only what is missing there, so a broken call can be "
        "repeated. Prints captures/ID.",
    )
    sending.add_argument("dir", type=Path, metavar="DIR", help="capture folder")
    sending.add_argument("--suite", required=True, type=Path, help="suite folder")
    sending.add_argument("--server", required=True, help="coordinator: HOST:PORT, unix:PATH or the path of a socket")
    return parser


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\rcontext {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done % 100 == 0 or done == total:
        print(f"context {done} of {total}", file=sys.stderr)


def _run(args: argparse.Namespace) -> None:
    if args.command == "send":
        from ..remote import send_capture  # needs the extra `server`

        print(send_capture(args.dir, args.suite, args.server))
        return
    try:
        layer_ids = [int(part) for part in args.layer_ids.split(",")] if args.layer_ids else None
        stack = dict(pair.split("=", 1) for pair in args.stack)
    except ValueError:
        raise AssayError("BAD_USAGE", "--layer-ids takes numbers with commas, --stack KEY=VALUE") from None
    content, unused = import_vllm(
        args.dir,
        args.suite,
        args.out,
        cut=args.cut,
        final_norm=args.final_norm,
        layer_ids=layer_ids,
        axes=args.axes,
        model=args.model,
        engine_version=args.engine_version,
        stack=stack,
        store=args.store,
        filter=args.filter,
        progress=_progress,
    )
    for path in unused:
        print(f"note: {path.name} belongs to no context of the suite", file=sys.stderr)
    print(f"{args.out}: complete\ncontent {content}")


def main(arguments: list[str] | None = None) -> int:
    """Exit codes are those of `assay`: 0 success, 2 bad usage, 3 refused input."""
    args = _parser().parse_args(arguments)
    try:
        _run(args)
    except AssayError as error:
        print(f"assay-capture: error {error}", file=sys.stderr)
        return 2 if error.reason == "BAD_USAGE" else 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
