"""Conversations as transformers' `apply_chat_template` makes tokens of them, and which of these the assistant says.

    chat_templates.py

writes ../chat/golden.json and ../chat/tokenizer.json. The templates beside them were written for this test: each has the output and the constructs of
one that models are published with.

Where a template has `{% generation %}`, targets are those of `return_assistant_tokens_mask`. Where it has none, a message is what the text of the
messages up to it adds to that of the messages before it, with the generation prompt. A template that ends a conversation with its eos_token adds it to
the last message alone.
"""

import datetime
import json
import re
from pathlib import Path

import transformers
from transformers.utils import chat_template_utils

FOLDER = Path(__file__).resolve().parent.parent / "chat"
# 2026-02-03 04:05:06, a Tuesday.
SECONDS = 1_770_091_506

# Name -> bos_token, eos_token.
TEMPLATES = {
    "chatml": (None, "<|im_end|>"),
    "llama-3.1": ("<|begin_of_text|>", "<|eot_id|>"),
    "mistral": ("<s>", "</s>"),
    "gemma-2": ("<bos>", "<eos>"),
    "phi-3": ("<s>", "<|endoftext|>"),
    "zephyr": ("<s>", "</s>"),
    "marked": (None, "<|im_end|>"),
}
SPECIAL = """<|im_start|> <|im_end|> <|begin_of_text|> <|eot_id|> <|start_header_id|> <|end_header_id|> <s> </s> <bos> <eos> <start_of_turn> <end_of_turn>
<|endoftext|> <|end|> <|user|> <|assistant|> <|system|>""".split()

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds <b>numbers</b> — \"quickly\"",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "default": 1.5, "nothing": None, "strict": True},
    },
}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


CONVERSATIONS = [
    {"messages": [user("What is 2 + 2?"), assistant("4.")]},
    {"messages": [system("Be brief."), user("Hello"), assistant("Hi."), user("And now?"), assistant("Now too.")]},
    {"messages": [user("  \n naïve — 你好 \U0001f600  "), assistant("\n\t мир, \U0001f44d\u0301\n ")]},
    {"messages": [user("a"), assistant("b"), assistant("c")]},
    {"messages": [user("Say <|im_end|> and </s><|end|>."), assistant("<|im_end|>, </s>, [/INST] and <eos>!")]},
    {"messages": [user("one"), assistant("1"), user("two"), assistant("2"), user("three"), assistant("3"), user("four"), assistant("4")]},
    {"messages": [user("ends with the user"), assistant("said"), user("unanswered")]},
    {"messages": [user("nulls are no fields", name=None, tool_calls=None), assistant("right", tool_calls=None)]},
    {"messages": [user("empty"), assistant("")]},
    {
        "messages": [
            user("add 1"),
            assistant("", tool_calls=[{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "é": [True, None, 0.1]}}}]),
            {"role": "tool", "content": "2"},
            assistant("It is 2."),
        ],
        "tools": [TOOL],
    },
    {"messages": [system("s"), user("title: what colour?!"), assistant("<think>\nhm\n</think>\n\nThe colour is red.", scores={"good": 1.0, "bad": False, "none": [1, "it's"]})]},
    {
        # Texts in parts are for templates that take them.
        "only": "marked",
        "messages": [
            user([{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]),
            {"role": "ignored", "content": "x"},
            assistant([{"type": "text", "text": "both"}]),
            user("STOP"),
            assistant("never"),
        ]
    },
]


def write_tokenizer():
    """Token i is byte i, and special tokens follow."""
    letters = [b for b in range(256) if 33 <= b < 127 or 161 <= b < 173 or 174 <= b]
    names = {b: chr(b) for b in letters}
    names.update({b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in names)})
    vocabulary = {names[b]: b for b in range(256)}
    added = [
        {"id": 256 + n, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for n, name in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    (FOLDER / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=True) + "\n")


def mask_of(tokenizer, text, spans):
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [int(any(end > span[0] and start < span[1] for span in spans)) for start, end in offsets]


def by_prefixes(tokenizer, conversation, text):
    """Where the assistant's messages are in a text that marks none of them; `None` where the beginnings of the text are others."""

    def render(messages, begins_answer):
        try:
            return tokenizer.apply_chat_template(
                messages, tools=conversation.get("tools"), tokenize=False, add_generation_prompt=begins_answer
            )
        except Exception:
            return None

    messages, spans = conversation["messages"], []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, upto = render(messages[:number], True), render(messages[: number + 1], False)
        if number + 1 < len(messages) and upto is not None and not text.startswith(upto):
            upto = upto.removesuffix(tokenizer.eos_token)
        if before is None or upto is None or not text.startswith(before) or not text.startswith(upto):
            return None
        spans.append((len(before), max(len(before), len(upto))))
    return spans


def case(tokenizer, template, conversation):
    tools = conversation.get("tools")
    try:
        text = tokenizer.apply_chat_template(conversation["messages"], tools=tools, tokenize=False)
        if re.search(r"{%-?\s*generation", template):
            made = tokenizer.apply_chat_template(
                conversation["messages"], tools=tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
            )
            tokens, mask = made["input_ids"], made["assistant_masks"]
        else:
            tokens = tokenizer.apply_chat_template(conversation["messages"], tools=tools, tokenize=True, return_dict=True)["input_ids"]
            spans = by_prefixes(tokenizer, conversation, text)
            mask = spans if spans is None else mask_of(tokenizer, text, spans)
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}".splitlines()[0]}
    if mask is None:
        return {"text": text, "refused": "a beginning of the text is none"}
    return {"text": text, "tokens": tokens, "targets": "".join(map(str, mask))}


def main():
    class Fixed(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(SECONDS, datetime.timezone.utc).replace(tzinfo=None)

    chat_template_utils.datetime = Fixed
    write_tokenizer()
    cases = []
    for name, (bos, eos) in TEMPLATES.items():
        template = (FOLDER / f"{name}.jinja").read_text()
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(FOLDER / "tokenizer.json"), bos_token=bos, eos_token=eos, chat_template=template
        )
        of_template = [entry for entry in CONVERSATIONS if entry.get("only", name) == name]
        made = [case(tokenizer, template, conversation) for conversation in of_template]
        print(f"{name}: {sum('tokens' in entry for entry in made)} of {len(made)} conversations have targets")
        cases.append({"template": name, "bos_token": bos, "eos_token": eos, "conversations": made})
    golden = {"transformers": transformers.__version__, "seconds": SECONDS, "conversations": CONVERSATIONS, "cases": cases}
    text = json.dumps(golden, ensure_ascii=False, indent=1)
    # Tokens of a text on one line.
    text = re.sub(r"\[\s+((?:\d+,\s+)*\d+)\s+\]", lambda found: "[" + re.sub(r"\s+", "", found[1]) + "]", text)
    (FOLDER / "golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
