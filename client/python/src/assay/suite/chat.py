"""Chat templates: Jinja in a sandbox, with what transformers offers to a template."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from .._files import sha256_bytes
from ..errors import AssayError
from .documents import decode_utf8
from .packages import need
from .vocabulary import Facts


@dataclass(frozen=True)
class Template:
    source: str
    origin: str  # a file's name, or where in the tokenizer it was found

    def record(self) -> dict[str, str]:
        return {"origin": self.origin, "sha256": sha256_bytes(self.source.encode("utf-8"))}


def find_template(given: Path | None, facts: Facts) -> Template | None:
    """The file given with --chat-template, else the tokenizer's own."""
    if given is not None:
        if not given.is_file():
            raise AssayError("FILE_MISSING", f"{given}: there is no such chat template")
        return Template(decode_utf8(given.read_bytes(), str(given)), given.name)
    if facts.chat_template:
        return Template(facts.chat_template, f"the model's own ({facts.kind})")
    return None


class ChatRenderer:
    """Called with messages and their place, gives the text that the model sees. TEMPLATE_INVALID names the place."""

    def __init__(self, template: Template | None, facts: Facts, day: date | None, parse_special: bool) -> None:
        self.template = template
        self.facts = facts
        self.day = day
        self.parse_special = parse_special
        self.compiled: Any = None
        self.spelled: list[str] = []  # messages whose own words spell a special token, which then is one

    def __call__(self, messages: Any, where: str) -> str:
        if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
            raise AssayError(
                "INPUT_INVALID", f'{where}: messages must be a list [{{"role": ..., "content": ...}}, ...]'
            )
        if self.template is None:
            raise AssayError(
                "TEMPLATE_INVALID",
                f"{where}: holds messages, and the tokenizer has no chat template: give --chat-template FILE",
            )
        if not self.parse_special:
            raise AssayError(
                "TEMPLATE_INVALID",
                f"{where}: holds messages; the marks of a chat template are special tokens, so "
                "--special literal would spell them out: use --special parse",
            )
        contents = [item["content"] for item in messages if isinstance(item.get("content"), str)]
        if any(special in content for content in contents for special in self.facts.special_texts):
            self.spelled.append(where)
        try:
            if self.compiled is None:
                self.compiled = self._compile(self.template.source)
            text = self.compiled.render(
                messages=messages,
                bos_token=self.facts.bos_text or "",
                eos_token=self.facts.eos_text or "",
                add_generation_prompt=False,
                tools=None,
                documents=None,
            )
        except AssayError:
            raise
        except Exception as error:  # whatever a template raises
            raise AssayError(
                "TEMPLATE_INVALID",
                f"{where}: the chat template ({self.template.origin}) fails: {type(error).__name__}: {error}",
            ) from None
        return str(text)

    def _compile(self, source: str) -> Any:
        need("jinja2", "a chat template")
        from jinja2 import ext, nodes, sandbox

        class Generation(ext.Extension):
            """`{% generation %}` marks an assistant's words for training; here it changes nothing."""

            tags = {"generation"}

            def parse(self, parser: Any) -> Any:
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                return nodes.Scope(body).set_lineno(line)

        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = self._today
        return environment.from_string(source)

    def _today(self, pattern: str) -> str:
        if self.day is None:
            raise AssayError(
                "TEMPLATE_INVALID",
                "the chat template writes today's date, so the suite would change from day to day: give "
                "--template-date YYYY-MM-DD",
            )
        return self.day.strftime(pattern)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _raise(message: str) -> None:
    raise ValueError(message)
