"""What the guide about GGUF files starts from, out of the tiny checkpoints of tests/data: an original with a tokenizer of its
own, and the GGUF that llama.cpp's converter made of it, also quantized to Q8_0 and Q4_0 (by the package gguf).

make_gguf_files.py ROOT: writes original/, model-BF16.gguf, model-Q8_0.gguf, model-Q4_0.gguf and texts/ into the working folder.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import dequantize, quantize
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


def make_tokenizer(texts: Path, vocabulary: int, out: Path) -> None:
    """A byte-level BPE of exactly the checkpoint's vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train([str(path) for path in sorted(texts.rglob("*.txt"))], trainer)
    assert tokenizer.get_vocab_size() == vocabulary
    tokenizer.save(str(out))


def quantize_file(source: Path, out: Path, kind: gguf.GGMLQuantizationType) -> None:
    """A copy in which every matrix is quantized, embedding included; vectors stay as they are."""
    reader = gguf.GGUFReader(source)
    architecture = str(reader.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(out, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        values: Any = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if len(tensor.shape) == 2 and values.shape[-1] % 32 == 0:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    root = Path(sys.argv[1])
    arch = root / "tests" / "data" / "arch"
    shutil.copytree(root / "deploy" / "panel" / "corpus", "texts")
    Path("original").mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(arch / "llama3-rope-tied" / name, "original")
    make_tokenizer(Path("texts"), 320, Path("original/tokenizer.json"))
    shutil.copy(arch / "gguf" / "llama3-rope-tied.bf16.gguf", "model-BF16.gguf")
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
        quantize_file(Path("model-BF16.gguf"), Path(f"model-{kind.name}.gguf"), kind)


if __name__ == "__main__":
    main()
