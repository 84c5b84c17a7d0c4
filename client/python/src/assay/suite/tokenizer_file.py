"""Opens the file given as --tokenizer."""

from __future__ import annotations

from pathlib import Path

from ..errors import AssayError
from .gguf_tokenizer import load_gguf
from .library_tokenizer import load_tokenizer_json
from .vocabulary import Vocabulary


def load_tokenizer(path: Path, bos_token: str | None = None, config: Path | None = None) -> Vocabulary:
    """A tokenizer.json (or the folder that holds it) or a GGUF; told apart by content, not by name.

    FILE_MISSING, TOKENIZER_INVALID, TOKENIZER_UNSUPPORTED, BOS_UNKNOWN, PACKAGE_MISSING.
    """
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise AssayError(
            "FILE_MISSING",
            f"{path}: there is no such file; give a tokenizer.json, the folder that holds it, or a GGUF file",
        )
    with path.open("rb") as stream:
        start = stream.read(64)
    if start.startswith(b"GGUF"):
        if config is not None:
            raise AssayError("TOKENIZER_INVALID", f"{path}: a GGUF holds its own sizes; leave --config out")
        return load_gguf(path, bos_token)
    if start.lstrip().startswith(b"{"):
        return load_tokenizer_json(path, bos_token, config)
    hint = "a SentencePiece model" if path.suffix == ".model" else "neither JSON nor GGUF"
    raise AssayError(
        "TOKENIZER_UNSUPPORTED",
        f"{path}: {hint}; give the model's tokenizer.json (transformers writes one: "
        "AutoTokenizer.from_pretrained(MODEL).save_pretrained(DIR)) or a GGUF file",
    )
