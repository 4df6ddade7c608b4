"""What a preparation is asked to do: `Settings` may change bytes of the result, `Run` may not."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict

from tokenmill.base.progress import Progress
from tokenmill.base.signatures import check_fields
from tokenmill.base.strict_json import parse_object
from tokenmill.base.suggest import one_of
from tokenmill.executors.executor import Executor
from tokenmill.shards.manifest import checked_compression, level_of
from tokenmill.text.reading.chunks import ReadRules

UNIT_BYTES = 32 << 20
CHAT_FIELDS = ("chat", "chat_template", "template_variables", "messages_field", "train_on")
FIELDS_OF_A_ROW = ("tools", "documents", "chat_template_kwargs")
"""Fields that a row may have next to its messages, for the chat template."""
_ONLY_IF_GIVEN = ("gitignore", "facts", "keep", "map", "mask", "filter", "filter_config")
"""Settings that a manifest has only where they are used."""


class SettingsKeywords(TypedDict, total=False):
    """The fields of `Settings` that are keyword arguments, for type checkers."""

    tokenizer: Any
    end_of_text: str | None
    begin_token: str | None
    dtype: Literal["uint16", "uint32"] | None
    tokens_per_shard: int
    val_fraction: float
    compress: str | None
    clean: bool
    dedup: Literal["none", "lines", "documents", "near"]
    separator: str | None
    text_field: str
    on_bad_input: Literal["error", "skip", "replace"]
    keep: str | None


@dataclass(frozen=True, kw_only=True)
class Details:
    """Settings that few need, for `prepare(..., details=Details(dedup_min_chars=40))`.

    None leaves a setting as it is by default, or as it is in the dataset that is added to.
    """

    token_pattern: str | None = None
    """Splitting pattern of a .tiktoken file that is not a published one: its name (gpt2, cl100k...)
    or a regular expression."""
    dedup_min_chars: int | None = None
    """Lines with fewer characters are never duplicates; by default 16."""
    near_similarity: float | None = None
    """With dedup="near": share of common runs of words (Jaccard) from which documents are similar;
    by default 0.8."""
    near_keep: Literal["first", "longest"] | None = None
    """With dedup="near": which of similar documents stays; by default the first."""
    near_words: int | None = None
    """With dedup="near": words of a run; by default 5."""
    near_code: bool | None = None
    """With dedup="near": compare the tokens of code, with case and punctuation, not words."""
    map: str | Callable[..., Any] | None = None
    """Function that changes documents or drops them, or its name: package.module:function."""
    mask: str | None = None
    """Replace addresses in the text: email, ip, or email,ip."""
    filter: str | None = None
    """Leave out documents by these filters, in this order, such as gopher_quality,c4."""
    decontaminate: str | Sequence[str] | None = None
    """Files of JSON lines with test items, or globs: documents that hold one are left out."""
    decontaminate_words: int | None = None
    """Words in a row of a test item that count; by default 13."""
    decontaminate_fields: str | None = None
    """Fields of test items that are looked for; by default those named as questions and answers."""
    on_contaminated: Literal["drop", "cut", "mark"] | None = None
    """What to do about documents that hold a test item; by default they are dropped."""
    filter_config: str | Mapping[str, Mapping[str, Any]] | None = None
    """Thresholds of filters that are not as in their papers: {"length": {"min_characters": 100}},
    or the path of a file of JSON with the same."""
    document_is: Literal["file", "line", "paragraph"] | None = None
    """What is one document in a text file; by default the whole file."""
    long_line: int | None = None
    """Lines of more bytes are never duplicates, and a document of more may be encoded in pieces; by
    default 8 MiB."""
    gitignore: bool | None = None
    """Leave out what git ignores in folders and globs, which must be in a checkout."""
    facts: bool | None = None
    """Keep where each document comes from; with `keep`, that is kept too."""

    def __post_init__(self) -> None:
        check_fields(self)

    def added_to(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {**settings, **given}


@dataclass(frozen=True, kw_only=True)
class Chat:
    """How conversations become tokens, for `prepare(..., chat=Chat(train_on="last"))`."""

    chat_template: str | os.PathLike[str] | None = None
    """Jinja file; or the name of one of several templates of the tokenizer, or the text itself. By
    default the tokenizer's own template."""
    template_variables: Mapping[str, Any] | str | None = None
    """What the template is given with each conversation, such as {"enable_thinking": False}."""
    messages_field: str | None = None
    """Field or column of a row that holds the messages; by default `messages`."""
    train_on: Literal["assistant", "last", "all"] | None = None
    """Which tokens are targets: those of all answers of the assistant (the default), of the last
    one, or all tokens."""

    def __post_init__(self) -> None:
        check_fields(self)

    def added_to(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if "chat_template" in given:
            given["chat_template"] = _text_of_file(os.fspath(given["chat_template"]))
        variables = given.get("template_variables")
        if isinstance(variables, Mapping):
            given["template_variables"] = json.dumps(variables, sort_keys=True)
        return {**settings, **given, "chat": True}


APART = {*Details.__dataclass_fields__, *Chat.__dataclass_fields__}
"""Settings that are no keywords of `prepare`, but fields of an object."""


def all_given(keywords: Mapping[str, Any], details: Details, chat: Chat | None) -> dict[str, Any]:
    """Return all settings that were given, in whatever way."""
    return details.added_to(keywords if chat is None else chat.added_to(keywords))


def _text_of_file(name: str) -> str:
    """Return the text of a file; what is no file is a name, or the text itself."""
    try:
        return Path(name).read_text("utf-8") if os.path.isfile(name) else name
    except UnicodeDecodeError as error:
        raise ValueError(f"chat_template={name!r:.80} is not a Jinja file: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that decide the result; how many workers run is not among them.

    The docstring under a field is also the help text of its flag, the comment above a field the
    title of the flags from there on. Manifests list the fields in this order.
    """

    # Tokens
    tokenizer: Any = "gpt2"
    """gpt2, bytes, chars, a tokenizer.json, .tiktoken or .model file, or OWNER/NAME on the hub."""
    end_of_text: str | None = None
    """End-of-text token, where the tokenizer file has none."""
    begin_token: str | None = None
    """Token written before every document, by its spelling or its id; `auto` for the one that the
    tokenizer file is known to have."""
    token_pattern: str | None = None
    """Splitting pattern of a .tiktoken file, by name (gpt2, cl100k...) or as a regular expression,
    where the file is not a published one."""
    dtype: Literal["uint16", "uint32"] | None = None
    """Width of an id on disk; by default the smaller one that holds the vocabulary."""

    # Shards
    tokens_per_shard: int = 10_000_000
    """Tokens in each shard; by default more where there would be over 10,000 shards."""
    val_fraction: float = 0.1
    """Share of the documents held out as val/; 0 for none."""
    compress: str | None = None
    """Compress the shards: zstd or zstd:LEVEL, 1 (fast) to 22 (small); none does not."""

    # Chat
    chat: bool = False
    """Rows are conversations: their messages become one text by the chat template of the tokenizer,
    and the column `loss` says which tokens are targets."""
    chat_template: str | None = None
    """Jinja file, or the name of one of several templates; by default the tokenizer's own."""
    template_variables: str | None = None
    """What the template is given with each conversation, as JSON: '{"enable_thinking": false}'."""
    messages_field: str = "messages"
    """Field or column of a row that holds the messages."""
    train_on: Literal["assistant", "last", "all"] = "assistant"
    """Tokens that are targets: of all answers of the assistant, of the last one, or all."""

    # Cleaning
    clean: bool = False
    """Clean the text: Unicode NFC, line ends, surplus blanks and empty lines; without it, the text
    is left as it is."""
    dedup: Literal["none", "lines", "documents", "near"] = "none"
    """Drop what was seen before, across all inputs: lines, documents, or also documents that are
    nearly the same."""
    dedup_min_chars: int = 16
    """Lines with fewer characters are never duplicates."""
    near_similarity: float = 0.8
    """With dedup near: share of common runs of words (Jaccard) from which documents are similar."""
    near_words: int = 5
    """With dedup near: words of a run."""
    near_keep: Literal["first", "longest"] = "first"
    """With dedup near: which of similar documents stays."""
    near_code: bool = False
    """With dedup near: compare the tokens of code, with case and punctuation, instead of words."""

    # Filters
    map: Any = None
    """Give documents to a function of yours, package.module:function, which changes or drops
    them."""
    mask: str | None = None
    """Replace addresses in the text: email, ip, or email,ip."""
    filter: str | None = None
    """Leave out documents by these filters, in this order, such as gopher_quality,c4."""
    filter_config: Any = None
    """File of JSON with thresholds of filters that are not as in their papers, such as
    {"length": {"min_characters": 100}}; or this JSON itself."""
    decontaminate: Any = None
    """Leave out documents that hold an item of these test sets, files of JSON lines."""
    decontaminate_words: int = 13
    """Words in a row of a test item that count; items of fewer words count as a whole."""
    decontaminate_fields: str | None = None
    """Fields of test items to look for, such as question,answer."""
    on_contaminated: Literal["drop", "cut", "mark"] = "drop"
    """Drop such a document, cut the passage out of it, or keep it and count it."""

    # Reading
    document_is: Literal["file", "line", "paragraph"] = "file"
    """What is one document in a text file."""
    separator: str | None = None
    """Cut text files into documents at this text."""
    text_field: str = "text"
    """Field or column that holds the text in .jsonl, .csv, .parquet and .arrow; or several, as in
    '{title}\\n\\n{body}'."""
    gitignore: bool = False
    """Leave out what git ignores in folders and globs, which must be in a checkout."""
    on_bad_input: Literal["error", "skip", "replace"] = "error"
    """What to do about text that cannot be read."""
    long_line: int = 8 << 20
    """Lines of more bytes are never duplicates, and a document of more may be encoded in pieces."""

    # Facts of documents
    facts: bool = False
    """Keep where each document comes from, in a Parquet file per split: file, row or byte, id."""
    keep: str | None = None
    """Keep these fields of rows there too, as in url,score,doc=meta.id (NAME=FIELD renames)."""

    def __post_init__(self) -> None:
        one_of("dedup", self.dedup, ("none", "lines", "documents", "near"))
        one_of("near_keep", self.near_keep, ("first", "longest"))
        if not 0.5 <= self.near_similarity <= 1:
            raise ValueError(
                f"near_similarity is {self.near_similarity}, but must be from 0.5 to 1: the search "
                "finds few of the pairs that are less similar"
            )
        if not 1 <= self.near_words <= 100:
            raise ValueError(f"near_words is {self.near_words}, but must be from 1 to 100")
        one_of("dtype", self.dtype, (None, "uint16", "uint32"))
        if self.tokens_per_shard < 1:
            raise ValueError(f"tokens_per_shard is {self.tokens_per_shard}, but must be at least 1")
        if not 0 <= self.val_fraction < 1:
            raise ValueError(f"val_fraction is {self.val_fraction}, but must be in [0, 1)")
        if self.dedup_min_chars < 0:
            raise ValueError(f"dedup_min_chars is {self.dedup_min_chars}, but must not be negative")
        object.__setattr__(self, "compress", checked_compression(self.compress))
        if not isinstance(self.tokenizer, str):
            from tokenmill.tokens.given_tokenizer import name_of

            object.__setattr__(self, "tokenizer", name_of(self.tokenizer, self.end_of_text))
        self._check_chat()
        one_of("on_contaminated", self.on_contaminated, ("drop", "cut", "mark"))
        if self.decontaminate_words < 1:
            raise ValueError(
                f"decontaminate_words is {self.decontaminate_words}, but must be at least 1"
            )
        if self.decontaminate is not None:
            from tokenmill.text.evals.items import name_sets

            object.__setattr__(self, "decontaminate", name_sets(self.decontaminate))
        if self.map is not None:
            from tokenmill.text.filters import map_function

            object.__setattr__(self, "map", map_function.name_of(self.map))
        if self.mask is not None:
            from tokenmill.text.filters.mask import kinds_of

            object.__setattr__(self, "mask", ",".join(kinds_of(self.mask)))
        if self.filter is not None or self.filter_config is not None:
            from tokenmill.text.filters.filter_config import checked_filters

            checked = checked_filters(self.filter, self.filter_config)
            object.__setattr__(self, "filter_config", checked)
        _ = self.read_rules  # which checks the other fields

    def _check_chat(self) -> None:
        one_of("train_on", self.train_on, ("assistant", "last", "all"))
        usual = {field.name: field.default for field in fields(Settings)}
        of_others = ("begin_token", "clean", "dedup", "document_is", "separator", "text_field")
        refused = of_others if self.chat else CHAT_FIELDS[1:]
        for name in refused:
            value = getattr(self, name)
            if value != usual[name] and value != "documents":
                why = "the chat template writes the text" if self.chat else "it is for chat"
                raise ValueError(f"{name} is {value!r:.80}, but {why}; leave it out")
        if self.template_variables is not None:
            variables = parse_object(self.template_variables.encode(), "template_variables")
            object.__setattr__(self, "template_variables", json.dumps(variables, sort_keys=True))

    def with_template(self) -> "Settings":
        """Return these settings with the text of the chat template, and all of its variables."""
        from tokenmill.tokens.chat_template import check_variables, find_template

        text, tokens = find_template(self.tokenizer, self.chat_template)
        variables = {**tokens, **json.loads(self.template_variables or "{}")}
        check_variables(text, variables)
        written = json.dumps(variables, sort_keys=True)
        return replace(self, chat_template=text, template_variables=written)

    @property
    def compression_level(self) -> int | None:
        """Level of zstd; None for plain shards."""
        return None if self.compress is None else level_of(self.compress)

    @property
    def columns(self) -> Mapping[str, int]:
        """Bits per token of each column that is written next to the ids."""
        return {"loss": 1} if self.chat else {}

    @property
    def keeps_facts(self) -> bool:
        return self.facts or self.keep is not None

    @property
    def has_rules(self) -> bool:
        """True if documents may be left out, or changed, one by one or after all were seen."""
        rules = (self.map, self.mask, self.filter)
        sees_all = self.dedup == "near" or self.decontaminate is not None
        return sees_all or any(rule is not None for rule in rules)

    @cached_property
    def read_rules(self) -> ReadRules:
        return ReadRules(
            document_is=self.document_is,
            separator=self.separator,
            text_field=self.text_field,
            on_bad_input=self.on_bad_input,
            long_line=self.long_line,
            row_fields=(self.messages_field, *FIELDS_OF_A_ROW) if self.chat else (),
            keeps_facts=self.keeps_facts,
            keep=self.keep,
        )

    def to_json(self, *, for_manifest: bool = False) -> dict[str, Any]:
        """Plain values; in a manifest a tokenizer file has its name only, without folders."""
        tokenizer = os.path.basename(self.tokenizer) if for_manifest else self.tokenizer
        values = {**asdict(self), "tokenizer": tokenizer}
        asked = {"near_": self.dedup == "near", "decontaminate": self.decontaminate is not None}
        asked["on_contaminated"] = asked["decontaminate"]
        unused = [name for name in _ONLY_IF_GIVEN if not values[name]]
        unused += () if self.chat else CHAT_FIELDS
        unused += [n for n in values for start in asked if n.startswith(start) and not asked[start]]
        return {name: value for name, value in values.items() if name not in unused}


def list_other_settings(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """List the settings that differ, one line each."""
    return [
        f"{name}   {theirs.get(name)!r:.200} -> {ours.get(name)!r:.200}"
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    ]


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a preparation runs, for `prepare(..., run=Run(max_ram="4G"))`; the result is the same.

    `retokenize`, `train_tokenizer` and the jobs take it too.
    """

    max_ram: int | str | None = None
    """Memory that all workers together stay within: bytes, or text such as "4G"."""
    engine: str | Executor = "local"
    """Where tasks run: `local` for processes of this machine, `ray` for a Ray cluster; or an
    `Executor` of your own, which is closed at the end."""
    ray_address: str | None = None
    """The cluster: `auto`, or HOST:PORT. Without it, Ray is started on this machine alone."""
    work_dir: str | os.PathLike[str] | None = None
    """Folder for the work where the dataset goes to `s3://`, `gs://` or `az://`; or a prefix in a
    bucket, such as `s3://bucket/tmp/job`: then machines need to share nothing else."""
    scratch: str | os.PathLike[str] | None = None
    """Folder on a disk of each machine for files on their way, where `work_dir` is in a bucket; by
    default that for temporary files."""
    max_scratch: int | str | None = None
    """Room that fetched files may take there: bytes, or text such as "20G"; by default 8 GiB."""
    allow_heavy_dedup: bool = False
    """Continue where near-duplicates are more than half of the documents of a source."""
    break_lock: bool = False
    """Take the output over from a machine that is gone."""
    unit_bytes: int = UNIT_BYTES
    """Bytes of input that one task reads; more, where there would be over 16,384 units."""
    progress: Progress = field(default_factory=Progress, repr=False)
    """Shows stages and notes while they happen; by default nothing is shown."""

    def __post_init__(self) -> None:
        check_fields(self)
